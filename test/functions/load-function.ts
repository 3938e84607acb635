import { onTestFinished } from 'vitest'
import type { FunctionInput, FunctionOptions, FunctionOutput, InferenceEngine } from '../../src/index.ts'

let loaded = 0

/** The URL of a module among the fixtures. */
export const fixture = (name: string) => new URL(`./fixtures/${name}`, import.meta.url)

/** Loads a function of the fixtures under a name of its own for the rest of the test. */
export async function loadFunction<
  const I extends readonly FunctionInput[],
  const O extends readonly FunctionOutput[],
>(engine: InferenceEngine, module: string, config: FunctionOptions<I, O>) {
  const model = await engine.loadFunction(`function-${++loaded}`, { ...config, module: fixture(module) })
  onTestFinished(() => engine.unload(model.name).catch(() => {})) // an engine of the same test may be closed before it
  return model
}
