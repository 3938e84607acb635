import { expect, it } from 'vitest'
import { noOptions } from '../../src/config/check-infer-options.ts'
import { StagingSlot } from '../../src/instance/staging-slot.ts'
import type { StagingBuffer } from '../../src/memory/staging-pool.ts'
import type { ModelMetadata } from '../../src/metadata.ts'
import { PriorityLevel } from '../../src/queue/priority-levels.ts'
import { InferRequest } from '../../src/request/infer-request.ts'

const tensor = (name: string) => ({ name, type: 'float32', shape: ['N', 4] }) as const
const metadata = { name: 'm', inputs: [tensor('x')], outputs: [tensor('y')], maxBatchSize: 4 } as unknown as ModelMetadata
const acquire = (byteLength: number) => ({ bytes: new SharedArrayBuffer(byteLength), byteLength, largeFromBytes: Infinity, release: () => {} }) as unknown as StagingBuffer

it.each([[0], [3], [5]])('a request whose data have %i elements where 4 were checked is not gathered, alone or with others', (elements) => {
  const slot = new StagingSlot({ nextSlotId: () => 1, acquire, trim: () => {}, movesFromBytes: 65_536 }, metadata, null)
  const request = (values: Float32Array) =>
    new InferRequest({ rows: 1, bucketKey: '', whole: false, data: [values], dims: null }, {} as PriorityLevel, noOptions, () => {}, () => {})
  const gather = (...batch: InferRequest[]) => slot.gather(batch, slot.layoutFor(batch, batch.length, -1, new Set()))
  const good = request(new Float32Array(4))
  const changed = request(new Float32Array(elements))
  expect(() => gather(good, good)).not.toThrow()
  for (const batch of [[changed], [good, changed], [changed, good]]) {
    expect(() => gather(...batch)).toThrow(`had 4 elements when it was checked has ${elements} now`)
  }
})
