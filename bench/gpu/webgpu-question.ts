/** A model that is to run by WebGPU, and on the CPU beside it. */
export interface WebGpuInput {
  readonly path: string
  readonly input: string
  readonly rowDims: readonly number[]
  /** Photographs to ask about; none for numbers. */
  readonly images: readonly string[]
  /** The plugin; left out for what is built in. */
  readonly library?: string
  readonly seconds: number
}

export interface WebGpuRan {
  /** Of the answers to those of the CPU, to the largest of these. */
  readonly difference: number
  /** One request, median. */
  readonly gpuMs: number
  readonly cpuMs: number
  /** As the plugin calls it; empty where it is built in. */
  readonly device: string
}

/** How it went, or why it did not. */
export type WebGpuFound = { readonly ran: WebGpuRan } | { readonly ran: null; readonly code: string; readonly reason: string }
