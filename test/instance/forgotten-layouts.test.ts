import { describe, expect, it } from 'vitest'
import type { Executor } from '../../src/run/executors/executor.ts'
import { StagingSlot } from '../../src/run/staging-slot.ts'
import type { ViewedLayout } from '../../src/run/layout.ts'
import type { StagingBuffer } from '../../src/native/staging-pool.ts'
import type { ModelMetadata, TensorMetadata } from '../../src/tensor/metadata.ts'
import type { InferRequest } from '../../src/request/infer-request.ts'

const tensor = (name: string) => ({ name, type: 'float32', shape: ['N', 1] }) as unknown as TensorMetadata
const joining = { rows: 'declared', how: 'declared', largestDifference: null, reason: '' } as const
const metadata: ModelMetadata = {
  name: 'm',
  path: 'm.onnx',
  inputs: [tensor('x')],
  outputs: [tensor('y')],
  properties: null,
  unservableOutputs: [],
  executionProviders: [],
  maxBatchSize: 2 ** 31 - 1,
  joining,
}
const request = {
  bucketKey: '',
  whole: false,
  data: [new Float32Array(1)],
  dims: null,
} as unknown as InferRequest
const largest = 5000

/** A slot with room for the largest batch, and the worker's side of its layouts, by their indices. */
function slot() {
  const acquire = (byteLength: number) =>
    ({ bytes: new SharedArrayBuffer(byteLength), byteLength, release: () => {} }) as unknown as StagingBuffer
  const own = new StagingSlot(
    { nextSlotId: () => 7, acquire, trim: () => {}, movesFromBytes: 65_536 },
    metadata,
    null,
  )
  const known: number[] = []
  const executor = {
    defineSlot: () => {},
    defineLayout: (_: number, index: number, { inputs }: Pick<ViewedLayout, 'inputs'>) =>
      void (known[index] = inputs[0]!.dims[0]!),
  } as unknown as Executor
  const batch = (rows: number): ViewedLayout => {
    const layout = own.layoutFor([request], rows, -1, new Set())
    own.announce(executor, 1, layout)
    expect(known[layout.index]).toBe(rows)
    return layout
  }
  batch(largest)
  return { batch, known }
}

describe('a slot of a model of fixed shape', () => {
  it('remembers 512 layouts at most, however many sizes batches have, and so does its worker', () => {
    const { batch, known } = slot()
    for (let rows = largest; rows > 0; rows--) batch(rows)
    expect(known).toHaveLength(512)
    for (let rows = 1; rows < largest; rows++) batch(rows)
    expect(known).toHaveLength(512)
  })

  it('keeps those of up to 256 rows whatever else comes', () => {
    const { batch } = slot()
    const small = Array.from({ length: 257 }, (_, rows) => batch(rows))
    for (let rows = 257; rows < largest; rows++) batch(rows)
    for (const [rows, layout] of small.entries()) expect(batch(rows)).toBe(layout)
  })

  it('lays out larger ones anew when they have been forgotten, and only then', () => {
    const { batch } = slot()
    const layout = batch(1000)
    for (let rows = 2000; rows < 2300; rows++) batch(rows)
    expect(batch(1000)).toBe(layout)
    for (let rows = 3000; rows < 4000; rows++) batch(rows)
    expect(batch(1000)).not.toBe(layout)
  })
})
