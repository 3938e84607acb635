import type { EngineRepositories } from './engine-repositories.ts'
import { invalidArgument } from '../errors.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { ServableConfig } from './model-version.ts'
import type { Observers } from '../observe/observers.ts'

/** What the rooms above need of an engine that it shows to nobody else. */
export interface EngineParts {
  readonly observers: Observers
  readonly repositories: EngineRepositories
  readonly models: ModelRegistry
}

const byEngine = new WeakMap<object, EngineParts>()

export function noteParts(engine: object, parts: EngineParts): void {
  byEngine.set(engine, parts)
}

/**
 * Who looks on at an engine.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for anything else.
 */
export function observersOf(engine: unknown): Observers {
  return partsOf(engine).observers
}

/**
 * The repositories of an engine.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for anything else.
 */
export function repositoriesOf(engine: unknown): EngineRepositories {
  return partsOf(engine).repositories
}

/** The configuration of a version of a model, with defaults. */
export function configOf(engine: unknown, name: string, version: number): ServableConfig {
  return partsOf(engine).models.findVersion(name, version).serving.config
}

function partsOf(engine: unknown): EngineParts {
  const parts = typeof engine === 'object' && engine !== null ? byEngine.get(engine) : undefined
  if (parts === undefined) throw invalidArgument('engine', 'an InferenceEngine', engine)
  return parts
}
