import type { ResolvedEngineOptions } from '../../options/engine-options.ts'
import type { InstanceKind } from '../../options/instance-groups.ts'
import type { ModelRuntime } from '../../options/session-options.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { InferenceError } from '../../errors.ts'
import { runTrial, type TrialEnding } from './trial.ts'
import type { TrialResult, TrialStage, TrialTask } from './trial-messages.ts'

/** What a trial needs of the engine's options. */
export type TrialOptions = Pick<ResolvedEngineOptions, 'verifyTimeoutMs' | 'providers' | 'workers'>

const shortestLimitMs = 60_000
const bytesPerMs = 10_485

let warned = false

/** A model that is to be tried in a process of its own. */
export class ModelTrial {
  readonly #model: string
  readonly #config: ResolvedConfig
  readonly #runtime: ModelRuntime
  readonly #options: TrialOptions

  constructor(model: string, config: ResolvedConfig, runtime: ModelRuntime, options: TrialOptions) {
    this.#model = model
    this.#config = config
    this.#runtime = runtime
    this.#options = options
  }

  /** Whether the model is run in it, or loaded only. */
  get isToRun(): boolean {
    const { warmup, checkRows } = this.#config
    return checkRows || warmup.madeUp !== null || warmup.samples.length > 0
  }

  /** What is told of it under a key: who wants a model to have been run does not believe who has loaded it only. */
  named(key: string): string {
    return this.isToRun ? `${key} run` : key
  }

  /** How long a trial of a model of so many bytes may take, in milliseconds. */
  limitMs(byteLength: number): number {
    return this.#options.verifyTimeoutMs ?? shortestLimitMs + Math.round(byteLength / bytesPerMs)
  }

  /**
   * Tries the model, and writes its compiled form to `folder` unless that is `null`.
   *
   * @returns what was found; `started` is false, and nothing was found, where there is no process to try it in.
   * @throws InferenceError `ERR_MODEL_LOAD` when the process ended, or did not come back; the reason of `signal`.
   */
  async run(
    folder: string | null,
    byteLength: number,
    signal: AbortSignal,
  ): Promise<TrialResult & { readonly started: boolean }> {
    const nothing = { error: null, notes: {}, files: null, started: true }
    const ending = await this.#once(folder, byteLength, signal)
    if (ending.kind === 'answered') return { ...ending.result, started: true }
    if (ending.kind === 'not started') {
      warnOfNoProcess(ending.reason)
      return { ...nothing, reason: ending.reason, started: false }
    }
    const reason = `its compiled form cannot be made: ${ending.kind === 'died' ? `a process that made it ended with ${ending.reason}` : `that took more than ${ending.limitMs} ms`}`
    if (ending.stage === 'compiled form') return { ...nothing, reason } // the model itself was loaded and run
    // It may be the writing that the process died over.
    if (ending.kind === 'died' && folder !== null)
      return { ...(await this.run(null, byteLength, signal)), reason }
    throw this.#unloadable(ending)
  }

  #once(folder: string | null, byteLength: number, signal: AbortSignal): Promise<TrialEnding> {
    const { bytes, sessionOptions, warmup, executionProviders } = this.#config
    const { onCpuOnly } = this.#runtime
    const isWarmed = warmup.madeUp !== null || warmup.samples.length > 0
    const { externalData = [], optimizedModelFilePath: _, enableProfiling: __, ...plain } = sessionOptions
    const external = externalData as readonly { path: string; data: Uint8Array }[]
    const parts = [...(bytes === null ? [] : [new Uint8Array(bytes)]), ...external.map(({ data }) => data)]
    const config: ResolvedConfig = {
      ...this.#config,
      bytes: null,
      sessionOptions: {
        ...plain,
        ...(external.length > 0 && {
          externalData: external.map(({ path }) => ({ path, data: new Uint8Array() })),
        }),
      },
      instanceGroup: this.#config.instanceGroup.map(({ kind, gpus }) => this.#oneInstance(kind, gpus)),
      // What cannot be used here is not tried there again.
      executionProviders: onCpuOnly && executionProviders !== undefined ? ['cpu'] : executionProviders,
      latencyTargetMs: 0,
      autoTune: null,
      cost: null, // which may be a function
      // Samples, and what a user wants to be run beforehand, are run where the model is to serve; samples take part in the check of rows there.
      warmup: { samples: [], madeUp: isWarmed ? 'harmless' : null, batchSizes: null, count: 1 },
      checkRows: this.#config.checkRows && warmup.samples.length === 0,
    }
    const { providers, workers } = this.#options
    const engine = { executor: this.#runtime.executor, providers, workers }
    const task: TrialTask = {
      model: this.#model,
      config,
      parts: parts.map((part) => part.byteLength),
      engine,
      folder,
    }
    return runTrial(task, parts, this.limitMs(byteLength), signal)
  }

  /** A group of one. */
  #oneInstance(kind: InstanceKind, gpus: readonly number[] | 'all'): ResolvedConfig['instanceGroup'][number] {
    const limits = {
      count: 1,
      cpuCount: 1,
      minInstances: 1,
      maxInstances: 1,
      scaleUpAfterMs: 1,
      scaleDownAfterMs: 1,
    }
    return {
      ...limits,
      kind: this.#runtime.onCpuOnly ? 'cpu' : kind,
      gpus: gpus === 'all' ? [0] : gpus.slice(0, 1),
    }
  }

  #unloadable(
    ending: { stage: TrialStage } & (
      | { kind: 'died'; signal: string; reason: string }
      | { kind: 'timed out'; limitMs: number }
    ),
  ): InferenceError {
    const { path, bytes } = this.#config
    const given = bytes === null ? path : `its ${bytes.byteLength} bytes`
    const died = ending.kind === 'died'
    const hint = died && ending.signal === 'SIGKILL' ? ', as by a system that is short of memory' : ''
    const found = died
      ? `ended with ${ending.reason}${hint}`
      : `did not come back within ${ending.limitMs} ms (verifyTimeoutMs)`
    const message =
      `Model '${this.#model}' cannot be loaded from ${given}: a process of its own, in which it was loaded and run on made-up values, ${found}. ` +
      `This process would have fared alike. verify: 'none' loads it here all the same; warmup: false with checkRows: false loads it without running it`
    return new InferenceError('ERR_MODEL_LOAD', message, {
      model: this.#model,
      name: bytes === null ? 'path' : 'bytes',
      expected: 'a model that ONNX Runtime can load',
      received: died ? ending.signal : `no answer within ${ending.limitMs} ms`,
    })
  }
}

/** Once for the process. */
function warnOfNoProcess(reason: string): void {
  if (warned) return
  warned = true
  const message = `Models cannot be tried in a process of their own before they are loaded, and nothing is compiled. verify: 'none' says that this is meant. Reason: ${reason}`
  process.emitWarning(message, { type: 'ZerohopWarning', code: 'ZEROHOP_VERIFY_FALLBACK' })
}
