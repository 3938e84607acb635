import { expect, it } from 'vitest'
import { noOptions } from '../../src/options/infer-options.ts'
import { StagingSlot } from '../../src/run/staging-slot.ts'
import { RowBlock, RowBlocks } from '../../src/native/row-blocks.ts'
import type { StagingBuffer } from '../../src/native/staging-pool.ts'
import type { ModelMetadata } from '../../src/tensor/metadata.ts'
import { PriorityLevel, InferRequest } from '../../src/request/infer-request.ts'
import { FakeClock } from '../fake-clock.ts'

const tensor = (name: string) => ({ name, type: 'float32', shape: ['N', 4] }) as const
const metadata = {
  name: 'm',
  inputs: [tensor('x')],
  outputs: [tensor('y')],
  maxBatchSize: 4,
} as unknown as ModelMetadata
const acquire = (byteLength: number) =>
  ({
    bytes: new SharedArrayBuffer(byteLength),
    byteLength,
    largeFromBytes: Infinity,
    release: () => {},
  }) as unknown as StagingBuffer

it.each([[0], [3], [5]])(
  'a request whose data have %i elements where 4 were checked is not gathered, alone or with others',
  (elements) => {
    const slot = new StagingSlot(
      { nextSlotId: () => 1, acquire, trim: () => {}, movesFromBytes: 65_536 },
      metadata,
      null,
    )
    const request = (values: Float32Array) =>
      new InferRequest(
        { rows: 1, bucketKey: '', whole: false, data: [values], dims: null },
        {} as PriorityLevel,
        noOptions,
        () => {},
        () => {},
      )
    const gather = (...batch: InferRequest[]) =>
      slot.gather(batch, slot.layoutFor(batch, batch.length, -1, new Set()))
    const good = request(new Float32Array(4))
    const changed = request(new Float32Array(elements))
    expect(() => gather(good, good)).not.toThrow()
    for (const batch of [[changed], [good, changed], [changed, good]]) {
      expect(() => gather(...batch)).toThrow(`had 4 elements when it was checked has ${elements} now`)
    }
  },
)

it('rows that are run where they lie are held until the run is over, withdrawn or not: nobody else is given them, or a place between them', () => {
  const layout = {
    rows: 3,
    byteLength: 96,
    inputs: [{ offset: 0, rowBytes: 16 }],
    outputs: [{ offset: 48, rowBytes: 16 }],
  }
  const blocks = new RowBlocks(
    new FakeClock(),
    () => new RowBlock(layout, acquire(96), null),
    () => 1,
    0,
    () => {},
  )
  const slot = new StagingSlot(
    { nextSlotId: () => 1, acquire, trim: () => {}, movesFromBytes: 65_536 },
    metadata,
    null,
  )
  const leased = () => {
    const { block, first } = blocks.take(1)!
    const data = new Float32Array(block.buffer.bytes, 16 * first, 4)
    const lease = { block, first, rows: 1, settled: () => block.drop(first, 1) }
    return new InferRequest(
      { rows: 1, bucketKey: '', whole: false, data: [data], dims: null, leased: lease },
      {} as PriorityLevel,
      noOptions,
      () => {},
      () => {},
    )
  }
  const [first, second] = [leased(), leased()]
  const { block } = first.leased!
  slot.gather([first, second], slot.layoutFor([first, second], 2, -1, new Set(), blocks))
  expect([0, 1, 2].map((row) => block!.holdersOf(row))).toEqual([2, 2, 0])
  expect([slot.leasedInPlace, slot.leasedCopied, blocks.rows]).toEqual([2, 0, { inPlace: 0, copied: 0 }]) // until they have run
  for (const request of [first, second]) request.fail('withdrawn', true)
  expect([0, 1, 2].map((row) => block!.holdersOf(row))).toEqual([1, 1, 0])
  expect(blocks.take(1)).toBeNull() // it is the only block, and read still
  blocks.ran(slot)
  slot.end()
  expect([slot.leasedInPlace, blocks.rows]).toEqual([0, { inPlace: 2, copied: 0 }])
  expect(blocks.take(3)).toMatchObject({ block, first: 0 })
})
