import { afterAll, onTestFinished } from 'vitest'
import { InferenceEngine, type EngineOptions, type Model, type ModelOptions } from '../../src/index.ts'

/** An engine for all tests of a file (or suite), closed after them. */
export function sharedEngine(options?: EngineOptions): InferenceEngine {
  const engine = new InferenceEngine(options)
  afterAll(() => engine.close())
  return engine
}

/** An engine for one test, closed when that is over; what still waits then is rejected. */
export function ownEngine(options?: EngineOptions): InferenceEngine {
  const engine = new InferenceEngine(options)
  onTestFinished(() => engine.destroy())
  return engine
}

let loaded = 0

/** Loads a model under a name of its own for the rest of the test. */
export async function load(engine: InferenceEngine, path: string, config: ModelOptions = {}): Promise<Model> {
  const model = await engine.load(`model-${++loaded}`, { path, ...config })
  onTestFinished(() => engine.unload(model.name).catch(() => {})) // an engine of the same test may be closed before it
  return model
}
