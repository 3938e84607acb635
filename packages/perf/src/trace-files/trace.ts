/** One trace, put together from its records. What only files of this library have is left out of others. */
export interface Trace {
  readonly id: number
  readonly model: string
  /** -1 for the newest, in Triton's. */
  readonly version: number
  readonly requestId?: string
  readonly parentId?: number
  readonly rows?: number
  readonly priority?: number
  readonly timeoutMs?: number
  readonly deadlineMs?: number
  readonly sequenceId?: number | string
  /** Dims of inputs that the model leaves open beyond the rows, by name. */
  readonly dims?: Readonly<Record<string, readonly number[]>>
  /** Why it was not answered: a code of `InferenceError`, or `'cancelled'`. */
  readonly error?: string
  /** Whether it was answered by the run of another. */
  readonly shared?: 'cached' | 'coalesced'
  /** The runs that it took part in. */
  readonly batches: readonly TraceBatch[]
  /** In the file's order, in nanoseconds. */
  readonly timestamps: readonly Timestamp[]
  readonly tensors: readonly TraceTensor[]
}

export interface Timestamp {
  readonly name: string
  readonly ns: number
}

/** A tensor, as the file has it. */
export interface TraceTensor {
  readonly activity: string
  readonly name: string
  /** Elements with commas between; strings each as in JSON. */
  readonly data: string
  /** Dims with commas between. */
  readonly shape: string
  readonly dtype: string
}

/** A run that a request took part in. */
export interface TraceBatch {
  /** Its number among the runs of the model. */
  readonly id: number
  readonly instance: string
  readonly worker: string
  readonly reason: string
  readonly rows: number
  readonly requests: number
  /** Of the request's first row. */
  readonly position: number
  /** Of a request that was split: which part of it this is. */
  readonly part?: number
  /** Whether the application's thread ran it. */
  readonly inline: boolean
  readonly rerun: boolean
  readonly error?: string
  /** `null` for one that failed. */
  readonly moments: BatchTimes | null
}

/** When a batch came how far, in nanoseconds. */
export interface BatchTimes {
  readonly takenNs: number
  readonly gatheredNs: number
  readonly startNs: number
  readonly inferStartNs: number
  readonly inferEndNs: number
  readonly outputStartNs: number
  readonly outputEndNs: number
}

/** When a trace came to a point; `undefined` where it has not, or the file does not say. */
export function timestampOf({ timestamps }: Trace, name: string): number | undefined {
  return timestamps.find((timestamp) => timestamp.name === name)?.ns
}
