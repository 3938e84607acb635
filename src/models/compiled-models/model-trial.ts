import type { ResolvedEngineOptions } from '../../options/engine-options.ts'
import type { InstanceKind } from '../../options/instance-groups.ts'
import type { ModelRuntime } from '../../options/session-options.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { InferenceError } from '../../errors.ts'
import { pipeline, Readable } from 'node:stream'
import { serialize } from 'node:v8'
import { OwnProgram, type ProgramEnd } from '../../base/own-program.ts'
import { availableCores } from '../../base/available-resources.ts'
import type { CompiledFile } from './entry.ts'
import { Turns } from './entry-lock.ts'
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
   * Tries the model: resolves when it has been loaded and run. The child process then compiles it into `folder`, unless that
   * is `null`.
   *
   * @param compiling fires when no load needs the compiled form any more.
   * @throws InferenceError `ERR_MODEL_LOAD` when the process crashed or hung; the reason of `signal`.
   */
  async run(
    folder: string | null,
    byteLength: number,
    signal: AbortSignal,
    compiling: AbortSignal,
  ): Promise<Tried> {
    const ending = await this.#once(folder, byteLength, signal, compiling)
    if (ending.kind === 'died' || ending.kind === 'timed out') throw this.#unloadable(ending)
    if (ending.kind === 'not started') warnOfNoProcess(ending.reason)
    return ending
  }

  #once(
    folder: string | null,
    byteLength: number,
    signal: AbortSignal,
    compiling: AbortSignal,
  ): Promise<TrialEnding> {
    const { bytes, sessionOptions, warmup, executionProviders } = this.#config
    const { executor, onCpuOnly } = this.#runtime
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
    const engine = { executor, providers, workers }
    const task: TrialTask = {
      model: this.#model,
      config,
      parts: parts.map((part) => part.byteLength),
      engine,
      folder,
    }
    const program = executor === 'native' && onCpuOnly ? 'try-model.cjs' : 'try-in-engine.js'
    return runTrial(program, task, parts, this.limitMs(byteLength), signal, compiling)
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

  #unloadable(ending: Extract<TrialEnding, { kind: 'died' | 'timed out' }>): InferenceError {
    const { path, bytes } = this.#config
    const given = bytes === null ? path : `its ${bytes.byteLength} bytes`
    const died = ending.kind === 'died'
    const hint = died && ending.signal === 'SIGKILL' ? ', as by a system that is short of memory' : ''
    const found = died
      ? `ended with ${ending.reason}${hint}`
      : `did not come out of ONNX Runtime within ${ending.limitMs} ms (verifyTimeoutMs)`
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
  | {
      readonly kind: 'tried'
      /** ONNX Runtime's message if the model could not be loaded; else `null`. */
      readonly error: string | null
      /** Resolves when its compiled form is made, or cannot be, or is given up (with the reason); `null` where none is made. */
      readonly compiled: Promise<CompiledForm | string> | null
    }
  /** No child process could start. */
  | { readonly kind: 'not started'; readonly reason: string }
  | { readonly kind: 'died'; readonly signal: string; readonly reason: string }
  | { readonly kind: 'timed out'; readonly limitMs: number }

/** The outcome of a trial that a model may be loaded after. */
type Tried = Extract<TrialEnding, { kind: 'tried' | 'not started' }>

const pieceBytes = 2 ** 20

/** At the lowest priority a busy machine gives it a small part of a core. */
const compilingFactor = 20
/** At most one model per core is compiled at a time, and at least two; others wait, with the model closed. */
const compilations = new Turns(Math.max(2, availableCores().usable))

function compileInTurn(folder: string, wanted: AbortSignal, compile: () => Promise<unknown>): void {
  compilations.take(folder, wanted, compile).catch(() => {}) // it is not wanted any more
}

/** The engine in the child does not try the model again. */
const env = { ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' }

/**
 * Loads, runs and compiles a model in a child process, so that a crash affects only the child. The child is gone when
 * this rejects with the signal's reason, and when `compiled` resolves: files it was writing may be removed then.
 *
 * @param parts the bytes sent over standard input.
 */
function runTrial(
  name: string,
  task: TrialTask,
  parts: readonly Uint8Array[],
  limitMs: number,
  signal: AbortSignal,
  compiling: AbortSignal,
): Promise<TrialEnding> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    let program: OwnProgram<TrialWord | null>
    let stage: 'starting' | TrialStage = 'starting'
    let timer: NodeJS.Timeout
    const limit = (late: () => void, ms = limitMs) => {
      clearTimeout(timer)
      timer = setTimeout(late, ms)
    }
    const end = (settle: () => void): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      void program.killed().then(settle)
    }
    const notStarted = (reason: string) => end(() => resolve({ kind: 'not started', reason }))
    const onAbort = () => end(() => reject(signal.reason as Error))

    let resolveMade: (form: CompiledForm | string) => void
    let isOver = false
    const made = new Promise<CompiledForm | string>((resolveForm) => (resolveMade = resolveForm))
    const compiled = (form: CompiledForm | string): void => {
      isOver = true
      clearTimeout(timer)
      compiling.removeEventListener('abort', onUnwanted)
      void program.killed().then(() => resolveMade(form))
    }
    const onUnwanted = () =>
      compiled('it was not compiled for later loads, as it was closed before that was done')
    const uncompiled = (why: string) =>
      compiled({ files: null, reason: `its compiled form cannot be made: ${why}` })
    const onTried = (error: string | null): void => {
      if (error !== null || task.folder === null) {
        end(() => {}) // it writes nothing, so its end is not waited for
        return resolve({ kind: 'tried', error, compiled: null })
      }
      stage = 'compiled form'
      signal.removeEventListener('abort', onAbort)
      clearTimeout(timer)
      program.unref()
      if (compiling.aborted) onUnwanted()
      else compiling.addEventListener('abort', onUnwanted, { once: true })
      resolve({ kind: 'tried', error: null, compiled: made })
      compileInTurn(task.folder, compiling, () => {
        if (isOver) return made
        program.send({ type: 'compile' })
        const mostMs = Math.min(2 ** 31 - 1, compilingFactor * limitMs)
        limit(() => uncompiled(`that took more than ${mostMs} ms`), mostMs)
        timer.unref()
        return made
      })
    }

    const onWord = (word: TrialWord | null): void => {
      if (word?.type === 'compiled') return compiled(word.form)
      if (word?.type === 'tried') return onTried(word.error)
      if (word?.type === 'stage') {
        stage = word.stage
        limit(() => end(() => resolve({ kind: 'timed out', limitMs }))) // of ONNX Runtime's time
      }
      if (word?.type !== 'started') return // a message of another program that this Node.js runs instead
      program.send(task)
      pipeline(Readable.from(piecesOf(parts)), program.input, () => {})
    }
    const onEnd = ({ way, lastWords }: ProgramEnd): void => {
      const reason = lastWords === '' ? way : `${way} (${lastWords})`
      if (stage === 'starting') notStarted(`a process to try it in ended with ${reason}`)
      else if (stage === 'model') end(() => resolve({ kind: 'died', signal: way, reason }))
      else uncompiled(`a process that made it ended with ${reason}`)
    }
    try {
      serialize(task) // an error here must come before a process exists
      program = new OwnProgram(
        `engine/trial-process/${name}`,
        { env, hasInput: true },
        { onWord, onFailure: notStarted, onEnd },
      )
    } catch (error) {
      return resolve({ kind: 'not started', reason: (error as Error).message })
    }
    limit(() => notStarted(`a process to try it in did not start within ${limitMs} ms`))
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

/** What came of compiling a model. */
export interface CompiledForm {
  /** `null` when there is no compiled form. */
  readonly files: readonly CompiledFile[] | null
  /** Why there is one, or none. */
  readonly reason: string
}

/** Stages of the child: load and run the model, then make its compiled form. */
type TrialStage = 'model' | 'compiled form'

/** Messages from the child. */
export type TrialWord =
  | { readonly type: 'started' }
  /** It calls ONNX Runtime from here on. */
  | { readonly type: 'stage'; readonly stage: 'model' }
  /** The model was loaded and run, or could not be loaded: ONNX Runtime's message. */
  | { readonly type: 'tried'; readonly error: string | null }
  | { readonly type: 'compiled'; readonly form: CompiledForm }
