import { InferenceEngine } from '../../engine.ts'

let engine: InferenceEngine | null = null

/** The engine of all who bring none of their own; made when it is first used. Idle, it does not keep the process alive. */
export function defaultEngine(): InferenceEngine {
  return (engine ??= new InferenceEngine())
}
