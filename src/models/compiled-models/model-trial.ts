import type { ResolvedEngineOptions } from '../../options/engine-options.ts'
import type { InstanceKind } from '../../options/instance-groups.ts'
import type { ModelRuntime } from '../../options/session-options.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { InferenceError } from '../../errors.ts'
import { pipeline, Readable } from 'node:stream'
import { serialize } from 'node:v8'
import { OwnProgram, type ProgramEnd } from '../../base/own-program.ts'
import type { CompiledFile } from './entry.ts'
import { warn } from '../../base/warnings.ts'

/** The engine options that a trial needs. */
export type TrialOptions = Pick<ResolvedEngineOptions, 'verifyTimeoutMs' | 'providers' | 'workers'>

const shortestLimitMs = 60_000
const bytesPerMs = 10_485

let warned = false

/** Tries a model in a child process. */
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

  /** Whether the trial runs the model, or only loads it. */
  get isToRun(): boolean {
    const { warmup, checkRows } = this.#config
    return checkRows || warmup.madeUp !== null || warmup.samples.length > 0
  }

  /** The record's name under a key: a trial that only loaded the model does not count as one that ran it. */
  named(key: string): string {
    return this.isToRun ? `${key} run` : key
  }

  /** Milliseconds a trial of a model of this size may take. */
  limitMs(byteLength: number): number {
    return this.#options.verifyTimeoutMs ?? shortestLimitMs + Math.round(byteLength / bytesPerMs)
  }

  /**
   * Tries the model, and writes its compiled form to `folder` unless that is `null`.
   *
   * @returns the result; `started` is false, without a result, if no child process could start.
   * @throws InferenceError `ERR_MODEL_LOAD` when the process crashed or hung; the reason of `signal`.
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
    // Writing the compiled form may have crashed it.
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
      // Providers that are unusable here are not tried again in the child.
      executionProviders: onCpuOnly && executionProviders !== undefined ? ['cpu'] : executionProviders,
      latencyTargetMs: 0,
      autoTune: null,
      cost: null, // it may be a function, which cannot be posted
      // Samples and requested warm-up runs belong to the serving process, where samples also take part in the check of
      // rows.
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

  /** A group with one instance. */
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
      : `did not answer within ${ending.limitMs} ms (verifyTimeoutMs)`
    const message =
      `Model '${this.#model}' cannot be loaded from ${given}: a separate process, in which it was loaded and run on generated values, ${found}. ` +
      `The same would have happened to this process. verify: 'none' loads it here anyway; warmup: false with checkRows: false loads it without running it`
    return new InferenceError('ERR_MODEL_LOAD', message, {
      model: this.#model,
      name: bytes === null ? 'path' : 'bytes',
      expected: 'a model that ONNX Runtime can load',
      received: died ? ending.signal : `no answer within ${ending.limitMs} ms`,
    })
  }
}

/** Once per process. */
function warnOfNoProcess(reason: string): void {
  if (warned) return
  warned = true
  const message = `Models cannot be tried in a separate process before they are loaded, so nothing is compiled. Set verify: 'none' if that is intended. Reason: ${reason}`
  warn('ZEROHOP_VERIFY_FALLBACK', message)
}

/** The outcome of a trial. */
type TrialEnding =
  | { readonly kind: 'answered'; readonly result: TrialResult }
  /** No child process could start. */
  | { readonly kind: 'not started'; readonly reason: string }
  | { readonly kind: 'died'; readonly stage: TrialStage; readonly signal: string; readonly reason: string }
  | { readonly kind: 'timed out'; readonly stage: TrialStage; readonly limitMs: number }

const pieceBytes = 2 ** 20

/** The engine in the child does not try the model again. */
const env = { ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' }

/**
 * Loads, runs and compiles a model in a child process, so that a crash affects only the child. The child is gone when
 * this resolves, or rejects with the signal's reason: files it was writing may be removed then.
 *
 * @param parts the bytes sent over standard input.
 */
function runTrial(
  task: TrialTask,
  parts: readonly Uint8Array[],
  limitMs: number,
  signal: AbortSignal,
): Promise<TrialEnding> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    let program: OwnProgram<TrialWord | null>
    let stage: TrialStage | null = null
    const end = (settle: () => void): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      void program.killed().then(settle)
    }
    const ended = (ending: TrialEnding) => end(() => resolve(ending))
    const onAbort = () => end(() => reject(signal.reason as Error))
    const onWord = (word: TrialWord | null): void => {
      if (word?.type === 'done') return ended({ kind: 'answered', result: word.result })
      if (word?.type === 'stage') return void (stage = word.stage)
      if (word?.type !== 'started') return // a message of another program that this Node.js runs instead
      stage = 'model'
      program.send(task)
      pipeline(Readable.from(piecesOf(parts)), program.input, () => {})
    }
    const onEnd = ({ way, lastWords }: ProgramEnd): void => {
      const reason = lastWords === '' ? way : `${way} (${lastWords})`
      ended(
        stage === null
          ? { kind: 'not started', reason: `a process to try it in ended with ${reason}` }
          : { kind: 'died', stage, signal: way, reason },
      )
    }
    try {
      serialize(task) // an error here must come before a process exists
      program = new OwnProgram(
        'engine/trial-process/try-model.js',
        { env, hasInput: true },
        { onWord, onFailure: (reason) => ended({ kind: 'not started', reason }), onEnd },
      )
    } catch (error) {
      return resolve({ kind: 'not started', reason: (error as Error).message })
    }
    const timer = setTimeout(() => {
      const reason = `a process to try it in did not start within ${limitMs} ms`
      ended(stage === null ? { kind: 'not started', reason } : { kind: 'timed out', stage, limitMs })
    }, limitMs)
    signal.addEventListener('abort', onAbort, { once: true })
  })
}

/** Copies: a stream may keep a reference to its chunks, and does not accept shared memory. */
function* piecesOf(parts: readonly Uint8Array[]): Generator<Uint8Array> {
  for (const { buffer, byteOffset, byteLength } of parts) {
    for (let at = 0; at < byteLength; at += pieceBytes) {
      yield new Uint8Array(buffer, byteOffset + at, Math.min(pieceBytes, byteLength - at)).slice()
    }
  }
}

/** The task for the child. */
export interface TrialTask {
  readonly model: string
  /** Without bytes: those follow on standard input, one part after the other. */
  readonly config: ResolvedConfig
  /** Lengths of those parts: the model, if it is in memory, and its external data. */
  readonly parts: readonly number[]
  readonly engine: Pick<ResolvedEngineOptions, 'executor' | 'providers' | 'workers'>
  /** Where to write the compiled form; `null` to try the model only. */
  readonly folder: string | null
}

/** The result from the child. */
export interface TrialResult {
  /** ONNX Runtime's message if the model could not be loaded; else `null`. */
  readonly error: string | null
  /** Facts found about the model; see `WorkerSession.note`. */
  readonly notes: Readonly<Record<string, string>>
  /** `null` when there is no compiled form. */
  readonly files: readonly CompiledFile[] | null
  /** Why there is none. */
  readonly reason: string
}

/** Stages of the child: load and run the model, then its compiled form. */
type TrialStage = 'model' | 'compiled form'

/** Messages from the child. */
export type TrialWord =
  | { readonly type: 'started' }
  | { readonly type: 'stage'; readonly stage: TrialStage }
  | { readonly type: 'done'; readonly result: TrialResult }
