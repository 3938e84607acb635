/** A model to load by the CUDA provider, once with each of several sets of its options. */
export interface CudaQuestion {
  /** What is imported as this package. */
  readonly entry: string
  readonly path: string
  readonly input: string
  readonly dims: readonly number[]
  readonly attempts: Readonly<Record<string, CudaOptions>>
}

export type CudaOptions = Readonly<Record<string, string | number>>

/** Of each attempt `null` where the model was loaded and has answered, else the message of the error. */
export type CudaAnswer = Readonly<Record<string, string | null>>

/** Options of the CUDA provider that say something about each of its parts: device, memory, convolutions. */
export const right: CudaOptions = {
  device_id: 0,
  gpu_mem_limit: 2 ** 31,
  arena_extend_strategy: 'kSameAsRequested',
  cudnn_conv_algo_search: 'HEURISTIC',
}

/** The same with one that no value of its option is, by that option. */
export function eachWrong(options: CudaOptions): Record<string, CudaOptions> {
  return Object.fromEntries(Object.keys(options).map((name) => [name, { ...options, [name]: 'wrong' }]))
}

/** The option that an error of ONNX Runtime's is about; `null` where it names none. */
export function optionNamedBy(message: string): string | null {
  return /provider option "(\w+)"/.exec(message)?.[1] ?? null
}

/** Whether there was a library of the CUDA provider to pass options to; where there was none, the message says so. */
export function providerWasLoaded(message: string | null): boolean {
  return message === null || !/Failed to load (shared )?library|library, .*is not installed/.test(message)
}
