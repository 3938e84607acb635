import type { InferenceEngine } from '../../engine.ts'
import { libraryVersion } from '../../base/own-package.ts'

/** Extensions of Triton's that are served. */
const extensions = [
  'classification', 'sequence', 'sequence(string_id)', 'model_repository', 'schedule_policy', 'model_configuration', 'binary_tensor_data', 'parameters', 'statistics',
] // prettier-ignore

export function serverMetadata(name: string): object {
  return { name, version: libraryVersion, extensions }
}

/** Whether every model answers requests, as Triton has it by default. */
export function isReady(engine: InferenceEngine): boolean {
  return engine.models().every(({ state }) => state === 'ready')
}
