import type { ResolvedEngineOptions } from '../../options/engine-options.ts'
import type { ModelRuntime } from '../../options/session-options.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { InferenceError } from '../../errors.ts'
import { pipeline, Readable } from 'node:stream'
import { serialize } from 'node:v8'
import { OwnProgram, type ProgramEnd } from '../../base/own-program.ts'
import { availableCores } from '../../base/available-resources.ts'
import type { CompiledFile } from './entry.ts'
import { warn } from '../../base/warnings.ts'
import { untilAborted } from '../../base/abort-watch.ts'

/** The engine options that a trial needs. */
export type TrialOptions = Pick<ResolvedEngineOptions, 'verifyTimeoutMs' | 'providers' | 'workers'>

const shortestLimitMs = 60_000
const bytesPerMs = 10_485

/** How many instances a group has in the child. */
const oneInstance = { count: 1, cpuCount: 1, minInstances: 1, maxInstances: 1, scaleUpAfterMs: 1, scaleDownAfterMs: 1 } // prettier-ignore

let warned = false

/** Tries a model in a child process. */
export class ModelTrial {
  readonly model: string
  readonly config: ResolvedConfig
  /** What is expected to open its sessions. */
  readonly runtime: ModelRuntime
  readonly #options: TrialOptions
  /** What was started ahead and is not in use. */
  #ahead: TrialProcess | null = null

  constructor(model: string, config: ResolvedConfig, runtime: ModelRuntime, options: TrialOptions) {
    this.model = model
    this.config = config
    this.runtime = runtime
    this.#options = options
  }

  /** Whether the trial runs the model, or only loads it. */
  get isToRun(): boolean {
    const { warmup, checkRows } = this.config
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
   * Begins to try the model before {@link run}, unless enough others are tried.
   *
   * @param folder to write its compiled form to; `null` for none.
   */
  startProcess(folder: string | null): void {
    if (startedAhead >= mostAhead) return
    try {
      this.#ahead = this.#start(folder)
      startedAhead++
    } catch {
      // run() says why
    }
  }

  /** Ends a process that was started ahead and is not in use; resolves when it is gone. */
  async discard(): Promise<void> {
    await this.#taken()?.end()
  }

  #taken(): TrialProcess | null {
    const ahead = this.#ahead
    if (ahead !== null) startedAhead--
    this.#ahead = null
    return ahead
  }

  /**
   * Tries the model: resolves when it has been loaded and run, and its compiled form as well.
   *
   * @param folder to write that to, unless it was begun ahead; `null` for none.
   * @throws InferenceError `ERR_MODEL_LOAD` when the process crashed or hung; the reason of `signal`.
   */
  async run(folder: string | null, byteLength: number, signal: AbortSignal): Promise<Tried> {
    const ending = await this.#outcome(folder, byteLength, signal)
    if (!isFault(ending)) return ending
    if (ending.stage === 'model') throw this.#unloadable(ending)
    const form = noForm(`a process that made it ${wordsOf(ending)}`)
    if (ending.stage === 'comparing') return { kind: 'tried', error: null, form }
    const again = await this.#outcome(null, byteLength, signal) // it may be the writing that the process ended over
    if (isFault(again)) throw this.#unloadable(again)
    if (again.kind === 'not started') throw this.#unloadable(ending)
    return { ...again, form }
  }

  async #outcome(folder: string | null, byteLength: number, signal: AbortSignal): Promise<TrialEnding> {
    signal.throwIfAborted()
    let ending: TrialEnding
    try {
      const child = this.#taken() ?? this.#start(folder)
      child.limit(this.limitMs(byteLength))
      ending = await child.outcome(signal)
      void child.end() // it writes nothing any more, so its end is not waited for
    } catch (error) {
      signal.throwIfAborted()
      ending = { kind: 'not started', reason: (error as Error).message }
    }
    if (ending.kind === 'not started') warnOfNoProcess(ending.reason)
    return ending
  }

  /** @throws Error that says why such a process is impossible. */
  #start(folder: string | null): TrialProcess {
    const { bytes, sessionOptions, warmup, executionProviders } = this.config
    const { executor, onCpuOnly } = this.runtime
    const isWarmed = warmup.madeUp !== null || warmup.samples.length > 0
    const { externalData = [], optimizedModelFilePath: _, enableProfiling: __, ...plain } = sessionOptions
    const external = externalData as readonly { path: string; data: Uint8Array }[]
    const parts = [...(bytes === null ? [] : [new Uint8Array(bytes)]), ...external.map(({ data }) => data)]
    const config: ResolvedConfig = {
      ...this.config,
      bytes: null,
      sessionOptions: {
        ...plain,
        ...(external.length > 0 && {
          externalData: external.map(({ path }) => ({ path, data: new Uint8Array() })),
        }),
      },
      instanceGroup: this.config.instanceGroup.map(({ kind, gpus }) => ({
        ...oneInstance,
        kind: onCpuOnly ? 'cpu' : kind,
        gpus: gpus === 'all' ? [0] : gpus.slice(0, 1),
      })),
      // Providers that are unusable here are not tried again in the child.
      executionProviders: onCpuOnly && executionProviders !== undefined ? ['cpu'] : executionProviders,
      latencyTargetMs: 0,
      autoTune: null,
      cost: null, // it may be a function, which cannot be posted
      // Samples and requested warm-up runs belong to the serving process, where samples also take part in the check of
      // rows.
      warmup: { samples: [], madeUp: isWarmed ? 'harmless' : null, batchSizes: null, count: 1 },
      checkRows: this.config.checkRows && warmup.samples.length === 0,
    }
    const { providers, workers } = this.#options
    const task: TrialTask = {
      model: this.model,
      config,
      parts: parts.map((part) => part.byteLength),
      engine: { executor, providers, workers },
      folder,
    }
    serialize(task) // an error here must come before a process exists
    // The native executor on the CPU has a small program that starts soon.
    const program = executor === 'native' && onCpuOnly ? 'try-model.cjs' : 'try-in-engine.js'
    return new TrialProcess(program, task, parts)
  }

  #unloadable(ending: Fault): InferenceError {
    const { path, bytes } = this.config
    const given = bytes === null ? path : `its ${bytes.byteLength} bytes`
    const died = ending.kind === 'died'
    const hint = died && ending.signal === 'SIGKILL' ? ', as by a system that is short of memory' : ''
    const found = `${wordsOf(ending)}${hint}`
    const message =
      `Model '${this.model}' cannot be loaded from ${given}: a separate process, in which it was loaded and run on generated values, ${found}. ` +
      `The same would have happened to this process. verify: 'none' loads it here anyway; warmup: false with checkRows: false loads it without running it`
    return new InferenceError('ERR_MODEL_LOAD', message, {
      model: this.model,
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
type TrialEnding = Tried | Fault

/** The outcome of a trial that a model may be loaded after. */
type Tried =
  | {
      readonly kind: 'tried'
      /** ONNX Runtime's message if the model could not be loaded; else `null`. */
      readonly error: string | null
      /** `null` if none was asked for. */
      readonly form: CompiledForm | null
    }
  /** No child process could start. */
  | { readonly kind: 'not started'; readonly reason: string }

/** Of the process, in a stage. */
type Fault =
  | { readonly kind: 'died'; readonly stage: TrialStage; readonly signal: string; readonly reason: string }
  | { readonly kind: 'timed out'; readonly stage: TrialStage; readonly limitMs: number }

function isFault(ending: TrialEnding): ending is Fault {
  return ending.kind === 'died' || ending.kind === 'timed out'
}

function wordsOf(fault: Fault): string {
  return fault.kind === 'died'
    ? `ended with ${fault.reason}`
    : `did not come out of ONNX Runtime within ${fault.limitMs} ms (verifyTimeoutMs)`
}

const noForm = (why: string): CompiledForm => ({
  files: null,
  wasRun: false,
  reason: `its compiled form cannot be made: ${why}`,
})

/** Processes that were started ahead and are not in use. */
let startedAhead = 0
const mostAhead = Math.max(2, availableCores().usable)

const pieceBytes = 2 ** 20

/** The engine in the child does not try the model again. */
const env = { ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' }

/** A child process that tries a model. A crash affects only the child. */
class TrialProcess {
  readonly #program: OwnProgram<TrialWord | null>
  readonly #task: TrialTask
  /** The bytes sent over standard input. */
  readonly #parts: readonly Uint8Array[]
  readonly #ending: Promise<TrialEnding>
  #resolveEnding!: (ending: TrialEnding) => void
  #stage: 'starting' | TrialStage = 'starting'
  #stageStartMs = performance.now()
  #limitMs = Infinity
  #timer: NodeJS.Timeout | undefined

  /** @throws Error that says why such a process is impossible. */
  constructor(program: string, task: TrialTask, parts: readonly Uint8Array[]) {
    this.#task = task
    this.#parts = parts
    this.#ending = new Promise((resolve) => (this.#resolveEnding = resolve))
    this.#program = new OwnProgram(
      `engine/trial-process/${program}`,
      { env, hasInput: true, givesWay: true }, // others serve
      {
        onWord: (word) => this.#onWord(word),
        onFailure: (reason) => this.#end({ kind: 'not started', reason }),
        onEnd: (end) => this.#onEnd(end),
      },
    )
  }

  /** Limits the time it takes to start, and that of ONNX Runtime in each stage. */
  limit(ms: number): void {
    this.#limitMs = ms
    this.#watch()
  }

  /**
   * What comes of the trial.
   *
   * @throws the reason of `signal`, once the child is gone.
   */
  async outcome(signal: AbortSignal): Promise<TrialEnding> {
    try {
      return await untilAborted(this.#ending, signal)
    } catch (reason) {
      await this.end()
      throw reason
    }
  }

  /** Resolves when it is gone. */
  end(): Promise<void> {
    this.#limitMs = Infinity
    clearTimeout(this.#timer)
    return this.#program.killed()
  }

  #onWord(word: TrialWord | null): void {
    if (word?.type === 'started') {
      this.#program.send(this.#task)
      pipeline(Readable.from(piecesOf(this.#parts)), this.#program.input, () => {})
    } else if (word?.type === 'stage') {
      this.#stage = word.stage
      this.#stageStartMs = performance.now()
      this.#watch()
    } else if (word?.type === 'tried') {
      clearTimeout(this.#timer)
      this.#resolveEnding({ kind: 'tried', error: word.error, form: word.form })
    } // else a message of another program that this Node.js runs instead
  }

  #onEnd({ way, lastWords }: ProgramEnd): void {
    const stage = this.#stage
    const reason = lastWords === '' ? way : `${way} (${lastWords})`
    if (stage === 'starting')
      this.#end({ kind: 'not started', reason: `a process to try it in ended with ${reason}` })
    else this.#end({ kind: 'died', stage, signal: way, reason })
  }

  #end(ending: TrialEnding): void {
    void this.end().then(() => this.#resolveEnding(ending))
  }

  #watch(): void {
    clearTimeout(this.#timer)
    if (this.#limitMs === Infinity) return
    const leftMs = this.#stageStartMs + this.#limitMs - performance.now()
    this.#timer = setTimeout(() => this.#late(), Math.max(0, leftMs))
  }

  #late(): void {
    const [stage, limitMs] = [this.#stage, this.#limitMs]
    if (stage !== 'starting') return this.#end({ kind: 'timed out', stage, limitMs })
    this.#end({ kind: 'not started', reason: `a process to try it in did not start within ${limitMs} ms` })
  }
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
  /** Where to write its compiled form; `null` to try the model alone. */
  readonly folder: string | null
}

/** What came of compiling a model. */
export interface CompiledForm {
  /** `null` when there is no compiled form. */
  readonly files: readonly CompiledFile[] | null
  /** Why there is one, or none. */
  readonly reason: string
  /** Whether it was run. */
  readonly wasRun: boolean
}

/** Stages of the child: the model is opened and writes its compiled form, or is opened alone; it is run; both are compared. */
type TrialStage = 'writing' | 'model' | 'comparing'

/** Messages from the child. */
export type TrialWord =
  | { readonly type: 'started' }
  /** It calls ONNX Runtime from here on. */
  | { readonly type: 'stage'; readonly stage: TrialStage }
  /** The model was loaded and run, or could not be loaded: ONNX Runtime's message. */
  | { readonly type: 'tried'; readonly error: string | null; readonly form: CompiledForm | null }
