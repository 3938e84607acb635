/** A tensor's place in a slot. */
export interface TensorPlace {
  readonly offset: number
  readonly dims: readonly number[]
}

/** How one batch lies in its slot. */
export interface SlotLayout {
  /** `null`: the input travels by message (strings). `undefined`: an optional one that is not given. */
  readonly inputs: readonly (TensorPlace | null | undefined)[]
  /** `null`: the size is known only after the run, the output travels by message. `undefined`: not wanted. */
  readonly outputs: readonly (TensorPlace | null | undefined)[]
}

/** What one run took, in milliseconds on the application thread's clock. */
export interface RunTimestamps {
  startMs: number
  inferStartMs: number
  inferEndMs: number
  endMs: number
}

