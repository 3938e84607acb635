import type { ModelOptions } from './model-config.ts'
import type { OutputConfig } from './tensor-config.ts'

/** An output of a model in a repository. */
export interface RepositoryOutputConfig extends OutputConfig {
  /** A file in the model's folder with the name of a class in each line, instead of `labels`. */
  labelFilename?: string
}

/**
 * The configuration of a model in a repository, as `config.ts`, `config.js` or `config.json` in its folder have it instead of
 * a `config.pbtxt`: the options of `engine.load()`, and what Triton's configuration has beside them.
 */
export interface RepositoryModelConfig extends Omit<ModelOptions, 'outputs' | 'version'> {
  /** The name of its folder. */
  name?: string
  /** Its outputs, with label files in its folder. Default: the model's, without labels. */
  outputs?: readonly RepositoryOutputConfig[]
  /** Which of its version folders are served: so many of the newest, all, or those named. Default `{ latest: 1 }`. */
  versionPolicy?: { latest: number } | 'all' | { specific: readonly (number | string)[] }
  /** Name of the model's file in its version folder. Default `'model.onnx'`. */
  defaultModelFilename?: string
}

/** The configuration as it is, with its type checked: for `export default defineModelConfig({ ... })` in a `config.ts`. */
export function defineModelConfig(config: RepositoryModelConfig): RepositoryModelConfig {
  return config
}
