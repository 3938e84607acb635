import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { compilingInto, graphFile, ofCompiled } from '../../models/compiled-models/compiled-form.ts'
import { sealFiles } from '../../models/compiled-models/entry.ts'
import { asItIs, type PreparedModel } from '../../models/compiled-models/prepared-model.ts'
import type { TrialResult, TrialTask } from '../../models/compiled-models/trial-messages.ts'
import { resolveEngineOptions, type ResolvedEngineOptions } from '../../options/engine-options.ts'
import type { OpenOptions } from '../../options/session-options.ts'
import type { ResolvedConfig } from '../../options/resolve-model-config.ts'
import { EngineResources } from '../engine-resources.ts'
import { LoadedModel } from '../loaded-model.ts'
import { differenceFrom, runOnMadeUp, type TrialRun } from './trial-runs.ts'

/** Loads a model as the application would, and opens and runs its compiled form beside it. */
export class TrialSteps {
  readonly #task: TrialTask
  readonly #config: ResolvedConfig
  readonly #resources: EngineResources
  readonly #mayRun: boolean

  /** @param config of the task, with its bytes. */
  constructor(task: TrialTask, config: ResolvedConfig) {
    const { executor, providers, workers } = task.engine
    const options: ResolvedEngineOptions = {
      ...resolveEngineOptions({ cache: false, verify: 'none', executor, workers }),
      providers,
      inline: null,
    }
    this.#task = task
    this.#config = config
    this.#resources = new EngineResources(options)
    this.#mayRun = config.checkRows || config.warmup.madeUp !== null
  }

  /** @param compiling is called when the model itself has been loaded and run, and its compiled form is next. */
  async all(compiling: () => void): Promise<TrialResult> {
    const { folder } = this.#task
    const writing =
      folder === null
        ? null
        : await this.#load(
            this.#config,
            opened((model, options) => [model, compilingInto(folder, options)]),
          )
    const loaded = writing instanceof LoadedModel ? writing : await this.#load(this.#config, asItIs(''))
    if (!(loaded instanceof LoadedModel)) return { error: loaded.message, notes: {}, files: null, reason: '' }
    const runs = this.#mayRun ? await runOnMadeUp(loaded, this.#config.optionalInputs) : []
    const found = { error: null, notes: loaded.session.noted, files: null }
    await loaded.close(true)
    if (folder === null) return { ...found, reason: 'it was loaded in a process of its own first' }
    if (writing !== loaded)
      return { ...found, reason: `its compiled form cannot be written: ${(writing as Error).message}` }
    compiling()
    const wrong = await this.#tryCompiled(join(folder, graphFile), loaded, runs)
    if (wrong !== null) return { ...found, reason: `its compiled form is not to be used: ${wrong}` }
    try {
      return {
        ...found,
        files: await sealFiles(folder),
        reason: `compiled for this machine; its outputs were compared in ${runs.length} runs`,
      }
    } catch (error) {
      return { ...found, reason: `its compiled form cannot be kept: ${(error as Error).message}` }
    }
  }

  /** What is wrong with a compiled form; `null` for nothing. */
  async #tryCompiled(path: string, model: LoadedModel, runs: readonly TrialRun[]): Promise<string | null> {
    if (!existsSync(path)) return 'ONNX Runtime has not written it'
    const config = { ...this.#config, checkRows: false, warmup: { ...this.#config.warmup, madeUp: null } }
    const compiled = await this.#load(
      config,
      opened((_, options) => [path, ofCompiled(options)]),
    )
    if (!(compiled instanceof LoadedModel)) return compiled.message
    const difference = await differenceFrom(model, runs, compiled)
    await compiled.close(true)
    return difference
  }

  async #load(config: ResolvedConfig, prepared: PreparedModel): Promise<LoadedModel | Error> {
    const model = new LoadedModel(this.#task.model, config, {
      ...this.#resources.services,
      prepare: async () => prepared,
    })
    try {
      await model.load()
      return model
    } catch (error) {
      return error as Error
    }
  }
}

function opened(
  how: (
    model: string | SharedArrayBuffer,
    options: OpenOptions,
  ) => [model: string | SharedArrayBuffer, options: OpenOptions],
): PreparedModel {
  return {
    ...asItIs(''),
    opening: (given, own) => {
      const [model, options] = how(given, own)
      return { model, options, notes: {}, original: undefined }
    },
  }
}
