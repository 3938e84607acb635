/** A model that is to run on a GPU, and on the CPU beside it. */
export interface GpuInput {
  readonly kind: 'webgpu' | 'cuda'
  readonly path: string
  readonly input: string
  readonly rowDims: readonly number[]
  /** Photographs to ask about; none for numbers. */
  readonly images: readonly string[]
  /** The plugin of WebGPU; left out for what is built in. */
  readonly library?: string
  readonly seconds: number
}

export interface GpuRan {
  /** Of the answers to those of the CPU, to the largest of these. */
  readonly difference: number
  /** One request, median. */
  readonly gpuMs: number
  readonly cpuMs: number
  /** As the plugin calls it; empty where it is built in. */
  readonly device: string
}

/** How it went, or why it did not. */
export type GpuFound =
  | { readonly ran: GpuRan }
  | { readonly ran: null; readonly code: string; readonly reason: string }
