import type { EngineOptions, InferenceErrorCode, ModelConfig } from 'zerohop'
import { availableMemory, type Clock, OwnProgram, systemClock } from 'zerohop/internals'
import { ownFile } from '../own-files.ts'
import type { Calibration } from './calibrate.ts'
import type { Candidate, Load } from './configuration.ts'
import type { Measurement } from './outcome.ts'

/** What requests consist of. */
export interface RequestSettings {
  /** Rows per request. */
  readonly rows: number
  /** Dims of inputs that the model leaves open, without the batch dimension. */
  readonly shapes: readonly (readonly [input: string, dims: readonly number[]])[]
  /** `random`, `zero`, or folders and JSON files. */
  readonly inputData: readonly string[]
}

/** Start parameters of a measuring process. */
export interface MeasuringSettings {
  readonly requests: RequestSettings
  readonly engine: EngineOptions
}

/** Loads a model in addition to those already loaded. */
export interface LoadTask {
  readonly type: 'load'
  readonly name: string
  readonly config: ModelConfig
}

/** Measures a loaded model. */
export interface MeasureTask {
  readonly type: 'measure'
  readonly name: string
  readonly load: Load
  /**
   * Milliseconds of load before the measurement, and of the measurement itself, which is extended for a run
   * in flight.
   */
  readonly warmupMs: number
  readonly windowMs: number
}

interface UnloadTask {
  readonly type: 'unload'
  readonly name: string
}

/** A task for a measuring process. It answers each task before it gets the next. */
export type MeasuringTask = LoadTask | MeasureTask | UnloadTask

/** Facts about a loaded model. */
export interface LoadedWord {
  readonly type: 'loaded'
  readonly instances: number
  readonly maxBatchSize: number
  /** Why requests share runs, or do not. */
  readonly joining: string
  /** Whether it runs on the CPU only. */
  readonly isOnCpu: boolean
}

export interface MeasuredWord {
  readonly type: 'measured'
  readonly measurement: Measurement
  /** Why requests failed; `null` if all were answered. */
  readonly failure: string | null
  /** Milliseconds of one instance's time per run, including everything around it; 0 without a run. */
  readonly runMs: number
}

export interface FailedWord {
  readonly type: 'failed'
  readonly code: InferenceErrorCode | 'ERR_CRASHED' | 'ERR_TOO_LONG'
  readonly message: string
}

export interface UnloadedWord {
  readonly type: 'unloaded'
}

export type MeasuringWord = LoadedWord | MeasuredWord | UnloadedWord | FailedWord

/** Loads and measures models, one task at a time. */
export interface Measuring {
  /** Gives it a task. If it does not answer within the limit it is ended, and the task fails. */
  ask(task: LoadTask, limitMs: number): Promise<LoadedWord | FailedWord>
  ask(task: MeasureTask, limitMs: number): Promise<MeasuredWord | FailedWord>
  ask(task: UnloadTask, limitMs: number): Promise<UnloadedWord | FailedWord>
  /** Ends it at once, and its task fails. Resolves when it has gone. */
  end(): Promise<void>
}

/** Where models are measured; tests inject a fast fake. */
export interface MeasuringGround {
  readonly clock: Clock
  start(settings: MeasuringSettings): Measuring
}

/** Processes of this machine. */
export const processGround: MeasuringGround = {
  clock: systemClock,
  start: (settings) => new MeasuringProcess(settings),
}

/**
 * A process that loads and measures models, one task after the other, so that configurations cannot affect
 * each other.
 */
class MeasuringProcess implements Measuring {
  #program: OwnProgram<MeasuringWord> | null = null
  #settle: ((word: MeasuringWord) => void) | null = null
  #ended: FailedWord | null = null

  constructor(settings: MeasuringSettings) {
    try {
      this.#program = new OwnProgram<MeasuringWord>(
        ownFile('tune/measuring-child.js'),
        { args: [JSON.stringify(settings)] },
        {
          onWord: (word) => this.#settle?.(word),
          onFailure: (reason) => this.#end(`a process could not be started: ${reason}`),
          onEnd: ({ way, lastWords }) =>
            this.#end(`its process ended with ${way}${lastWords === '' ? '' : ` (${lastWords})`}`),
        },
      )
    } catch (error) {
      this.#end(`a process could not be started: ${(error as Error).message}`)
    }
  }

  ask(task: LoadTask, limitMs: number): Promise<LoadedWord | FailedWord>
  ask(task: MeasureTask, limitMs: number): Promise<MeasuredWord | FailedWord>
  ask(task: UnloadTask, limitMs: number): Promise<UnloadedWord | FailedWord>
  ask(task: MeasuringTask, limitMs: number): Promise<MeasuringWord> {
    if (this.#ended !== null) return Promise.resolve(this.#ended)
    return new Promise((resolve) => {
      // Not a fraction of a millisecond early.
      const timer = setTimeout(
        () => this.#end(`it did not answer within ${Math.round(limitMs)} ms`, 'ERR_TOO_LONG'),
        Math.min(longestTimerMs, Math.ceil(limitMs)),
      )
      this.#settle = (word) => {
        clearTimeout(timer)
        this.#settle = null
        resolve(word)
      }
      this.#program!.send(task)
    })
  }

  async end(): Promise<void> {
    this.#end('it was ended')
    await this.#program?.killed()
  }

  #end(message: string, code: FailedWord['code'] = 'ERR_CRASHED'): void {
    this.#ended ??= { type: 'failed', code, message }
    this.#program?.kill()
    this.#settle?.(this.#ended)
  }
}

/** Rounds to plan time for, as far as all candidates take part in them. */
const rounds = 6
const leastWarmupMs = 80
const leastWindowMs = 250
/** Runs per instance that fit into a window. */
const runsInWindow = 4
const mostWindowMs = 2000
const mostStretch = 8

/** How long each measurement of a candidate takes: long enough for some runs, and longer if there is time. */
export class MeasuringPlan {
  readonly #calibration: Calibration
  readonly #startMs: number
  readonly #stretch: number
  /** Time for one round of all candidates. */
  readonly affordableMs: number

  constructor(calibration: Calibration, candidates: readonly Candidate[], budgetMs: number, startMs: number) {
    this.#calibration = calibration
    this.#startMs = startMs
    this.affordableMs = budgetMs / rounds
    const leastMs = candidates.reduce((sum, candidate) => sum + this.roundCostMs(candidate), 0)
    this.#stretch = leastMs === 0 ? 1 : Math.min(mostStretch, Math.max(1, this.affordableMs / leastMs))
  }

  /** `costMs` is the total time of a measurement in a running process. */
  timesOf(candidate: Candidate): { warmupMs: number; windowMs: number; costMs: number } {
    const { warmupMs, windowMs, tailMs } = this.#least(candidate)
    const stretched = Math.max(windowMs, Math.min(mostWindowMs, windowMs * this.#stretch))
    return { warmupMs, windowMs: stretched, costMs: warmupMs + stretched + tailMs }
  }

  /** Cost of one shortest measurement, including its share of starting the process. */
  roundCostMs(candidate: Candidate): number {
    const { warmupMs, windowMs, tailMs } = this.#least(candidate)
    return warmupMs + windowMs + tailMs + this.#startMs / rounds
  }

  #least({ configuration }: Candidate): { warmupMs: number; windowMs: number; tailMs: number } {
    const runMs = this.#calibration.runMs(configuration, configuration.maxBatchSize) ?? 0
    // A window ends with the next answers, and then the remaining requests of the callers are awaited.
    return {
      warmupMs: Math.max(leastWarmupMs, runMs),
      windowMs: Math.max(leastWindowMs, runsInWindow * runMs),
      tailMs: 3 * runMs,
    }
  }
}

/** A measurement that takes this many times its expected duration hangs. */
const patience = 10
const leastPatienceMs = 10_000

/** What to measure, and where. */
interface MeasuringJob {
  /** Key of the process. */
  readonly process: string
  /** Key of the model in it. */
  readonly model: string
  readonly config: ModelConfig
  readonly load: Load
  readonly warmupMs: number
  readonly windowMs: number
  /** Expected time, and the time that is left: both including the start of a process. */
  readonly expectedMs: number
  readonly leftMs: number
}

interface Living {
  readonly process: Measuring
  model: string | null
  memoryBytes: number
}

/**
 * Share of the memory that is free at the start (within a container's limit) for idle processes that wait for
 * their next turn.
 */
const memoryShare = 0.5
const mostLiving = 16
/** While the first requests are answered, JavaScript is compiled, and threads and memory are allocated. */
export const firstWarmupMs = 500

/**
 * Processes with one model each, kept for their next turn while there is enough memory, so that they stay
 * warm.
 */
export class ModelProcesses {
  readonly #ground: MeasuringGround
  readonly #settings: MeasuringSettings
  /** Ordered by last use, the oldest first. */
  readonly #living = new Map<string, Living>()
  readonly #mostBytes = Math.min(process.availableMemory(), availableMemory().usableBytes) * memoryShare
  #ending = false
  /** Time from the start of a process until its model is loaded, as last measured. */
  startMs: number

  constructor(ground: MeasuringGround, settings: MeasuringSettings, startMs: number) {
    this.#ground = ground
    this.#settings = settings
    this.startMs = startMs
  }

  isLiving(process: string): boolean {
    return this.#living.has(process)
  }

  /**
   * Measures a model. A process in which that fails is ended. Another model replaces the one in its process.
   */
  async measure(job: MeasuringJob): Promise<MeasuredWord | FailedWord> {
    const { clock } = this.#ground
    const startMs = clock.nowMs()
    const limitMs = Math.min(job.leftMs, Math.max(leastPatienceMs, patience * job.expectedMs))
    const leftMs = () => Math.max(1, startMs + limitMs - clock.nowMs())
    const known = this.#living.get(job.process)
    const living = known ?? { process: this.#ground.start(this.#settings), model: null, memoryBytes: 0 }
    this.#living.delete(job.process)
    this.#living.set(job.process, living)
    if (this.#ending) await living.process.end()
    await this.#makeRoom(job.process)
    const loaded = living.model === job.model ? null : await this.#load(living, job, leftMs)
    if (known === undefined) this.startMs = clock.nowMs() - startMs
    const warmupMs = known === undefined ? Math.max(firstWarmupMs, job.warmupMs) : job.warmupMs
    const found =
      loaded ??
      (await living.process.ask(
        { type: 'measure', name: job.model, load: job.load, warmupMs, windowMs: job.windowMs },
        leftMs(),
      ))
    if (found.type === 'failed') await this.#end(job.process)
    else living.memoryBytes = found.measurement.memoryBytes
    return found
  }

  /** Ends the processes that are not needed any more. */
  async keepOnly(processes: readonly string[]): Promise<void> {
    const others = [...this.#living.keys()].filter((key) => !processes.includes(key))
    await Promise.all(others.map((key) => this.#end(key)))
  }

  /** Ends all processes, and those that are started later. */
  async end(): Promise<void> {
    this.#ending = true
    await this.keepOnly([])
  }

  /**
   * Loads the new model before unloading the old one: models of one file with the same threads share a
   * session, which would otherwise be opened again.
   */
  async #load(
    living: Living,
    { model, config }: MeasuringJob,
    leftMs: () => number,
  ): Promise<FailedWord | null> {
    const before = living.model
    const loaded = await living.process.ask(
      { type: 'load', name: model, config: { ...config, checkRows: false } },
      leftMs(),
    )
    if (loaded.type === 'failed') return loaded
    living.model = model
    const unloaded =
      before === null ? null : await living.process.ask({ type: 'unload', name: before }, leftMs())
    return unloaded?.type === 'failed' ? unloaded : null
  }

  async #makeRoom(process: string): Promise<void> {
    const bytes = () => [...this.#living.values()].reduce((sum, { memoryBytes }) => sum + memoryBytes, 0)
    for (const other of this.#living.keys()) {
      if (this.#living.size <= mostLiving && bytes() <= this.#mostBytes) return
      if (other !== process) await this.#end(other)
    }
  }

  async #end(process: string): Promise<void> {
    const living = this.#living.get(process)
    this.#living.delete(process)
    await living?.process.end()
  }
}

/** The longest possible timer. */
export const longestTimerMs = 2 ** 31 - 1
