import type { EngineResources } from './engine-resources.ts'
import type { Model } from '../model.ts'

const engineOf = new WeakMap<Model, object>()
let warned = false

const collected = new FinalizationRegistry<EngineResources>((resources) => {
  // An engine that never served has nothing that would be missed.
  if (resources.staging !== null && !warned) {
    warned = true
    const message =
      'An InferenceEngine was dropped without being closed. Its threads and memory are given back now; until the garbage ' +
      'collector found it they were held for nothing. Call engine.close(), or declare it with `await using`.'
    process.emitWarning(message, { type: 'ZerohopWarning', code: 'ZEROHOP_ENGINE_DROPPED' })
  }
  // What was accepted is finished first. Nobody is left to be told of a failure.
  resources.close(false).catch(() => {})
})

/** Has `resources` closed when neither the engine nor any of its models can be reached any more. */
export function closeWhenDropped(engine: object, resources: EngineResources): void {
  collected.register(engine, resources, engine)
}

/** Ends {@link closeWhenDropped}: the engine is being closed. */
export function notDropped(engine: object): void {
  collected.unregister(engine)
}

/** Who holds a model uses its engine. */
export function keepWith(model: Model, engine: object): void {
  engineOf.set(model, engine)
}
