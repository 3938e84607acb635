/**
 * One request of a recording, as it came: a line of JSON each in a file, in the order of `atUs`. Only `atUs` and `rows` are
 * always there.
 */
export interface Arrival {
  /** Since the first request, in microseconds. */
  readonly atUs: number
  readonly rows: number
  readonly model?: string
  /** Dims of inputs that are not fixed by the model, by name, as they were given: with the rows, where the model has a batch dimension. */
  readonly dims?: Readonly<Record<string, readonly number[]>>
  /** As in `infer()`. */
  readonly priority?: number
  readonly timeoutMs?: number
  readonly deadlineMs?: number
  /** The sequence that it belongs to, if any. */
  readonly sequenceId?: number | string
  /** How long it took from `infer()` to its answer, in microseconds; left out of one that was not answered. */
  readonly latencyUs?: number
}
