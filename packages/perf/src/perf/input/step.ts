import type { RowTensor } from './row-tensors.ts'

/** One row of what was given as data: an entry of a file, or a folder. */
export interface Step {
  readonly inputs: ReadonlyMap<string, RowTensor>
  /** What its answer has to be; empty for anything. */
  readonly outputs: ReadonlyMap<string, RowTensor>
}

/** Rows that belong together: a sequence, where the model has them. */
export type Stream = readonly Step[]
