import type { SlotLayout, TensorPlace } from '../../src/run/executors/executor.ts'
import type { ValueMetadata } from '../../src/tensor/metadata.ts'
import type { SequenceConfig } from '../../src/index.ts'

const value = (name: string, type: ValueMetadata['type']): ValueMetadata => ({ name, type, shape: ['N', 1] })

/** The tensors of the model `accumulator`: sum = x + (start ? 0 : before), which is the state; the id comes back. */
export const accumulatorInputs = [
  value('x', 'float32'),
  value('before', 'float32'),
  value('START', 'float32'),
  value('END', 'bool'),
  value('ID', 'uint64'),
]
export const accumulatorOutputs = [
  value('sum', 'float32'),
  value('state', 'float32'),
  value('ended', 'bool'),
  value('id', 'uint64'),
]

/** As it is told of sequences. */
export const accumulatorSequence = {
  controls: [
    { input: 'START', kind: 'start' },
    { input: 'END', kind: 'end' },
    { input: 'ID', kind: 'correlationId' },
  ],
  state: [{ input: 'before', output: 'state' }],
} as const satisfies SequenceConfig

/** What one row of a run was given. */
export interface Row {
  readonly id: number
  readonly x: number
  readonly before: number
  readonly start: boolean
  readonly end: boolean
}

/** Computes a run as the model does, and tells of its rows. */
export function accumulate(memory: SharedArrayBuffer, { inputs, outputs }: SlotLayout): Row[] {
  const rows = inputs[0]!.dims[0]!
  const floats = (place: TensorPlace | null | undefined) => new Float32Array(memory, place!.offset, rows)
  const [x, before, start] = inputs.slice(0, 3).map(floats)
  const end = new Uint8Array(memory, inputs[3]!.offset, rows)
  const id = new BigUint64Array(memory, inputs[4]!.offset, rows)
  const sum = x!.map((given, row) => given + (start![row] === 1 ? 0 : before![row]!))
  if (outputs[0]) floats(outputs[0]).set(sum)
  if (outputs[1]) floats(outputs[1]).set(sum)
  if (outputs[2]) new Uint8Array(memory, outputs[2].offset, rows).set(end)
  if (outputs[3]) new BigUint64Array(memory, outputs[3].offset, rows).set(id)
  return Array.from({ length: rows }, (_, row) => ({
    id: Number(id[row]),
    x: x![row]!,
    before: before![row]!,
    start: start![row] === 1,
    end: end[row] === 1,
  }))
}
