import type { EngineOptions, InferenceErrorCode, ModelConfig } from 'zerohop'
import { availableMemory, type Clock, OwnProgram, systemClock } from 'zerohop/internals'
import { ownFile } from '../own-files.ts'
import type { Calibration } from './calibrate.ts'
import type { Candidate, Load } from './configuration.ts'
import type { Measurement } from './outcome.ts'
import type { MeasuringTimes } from './tuning.ts'

/** What requests are made of. */
export interface RequestSettings {
  /** Rows of a request. */
  readonly rows: number
  /** Dims of inputs that the model leaves open, without the batch dimension. */
  readonly shapes: readonly (readonly [input: string, dims: readonly number[]])[]
  /** `random`, `zero`, or folders and files of JSON. */
  readonly inputData: readonly string[]
}

/** What a process that measures is started with. */
export interface MeasuringSettings {
  readonly requests: RequestSettings
  readonly engine: EngineOptions
}

/** A model is loaded, beside those that are. */
export interface LoadTask {
  readonly type: 'load'
  readonly name: string
  readonly config: ModelConfig
}

/** One that was loaded is measured. */
export interface MeasureTask {
  readonly type: 'measure'
  readonly name: string
  readonly load: Load
  /** How long requests are sent before what is counted, and how long it is counted, in milliseconds; longer for a run that is under way. */
  readonly warmupMs: number
  readonly windowMs: number
}

interface UnloadTask {
  readonly type: 'unload'
  readonly name: string
}

/** What a process that measures is asked; it answers each task before it is asked the next. */
export type MeasuringTask = LoadTask | MeasureTask | UnloadTask

/** What is known of a model that was loaded. */
export interface LoadedWord {
  readonly type: 'loaded'
  readonly instances: number
  readonly maxBatchSize: number
  /** Why requests share runs, or do not. */
  readonly joining: string
  /** Whether it runs on the CPU alone. */
  readonly isOnCpu: boolean
  readonly loadMs: number
}

export interface MeasuredWord {
  readonly type: 'measured'
  readonly measurement: Measurement
  /** Why requests failed; `null` where all were answered. */
  readonly failure: string | null
  /** What a run took of one instance's time, with all that is around it, in milliseconds; 0 without a run. */
  readonly runMs: number
  readonly tookMs: number
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

/** What is asked to load and measure models; one task at a time. */
export interface Measuring {
  /** Whether it cannot be asked any more. */
  readonly hasEnded: boolean
  /** Asks it something; one that has not answered within the limit is ended, and has failed. */
  ask(task: LoadTask, limitMs: number): Promise<LoadedWord | FailedWord>
  ask(task: MeasureTask, limitMs: number): Promise<MeasuredWord | FailedWord>
  ask(task: UnloadTask, limitMs: number): Promise<UnloadedWord | FailedWord>
  /** Ends it at once; what it was asked fails. Resolves when nothing of it is left. */
  end(): Promise<void>
}

/** Where models are measured; tests have one that does not take its time. */
export interface MeasuringGround {
  readonly clock: Clock
  start(settings: MeasuringSettings): Measuring
}

/** Processes of this machine. */
export const processGround: MeasuringGround = {
  clock: systemClock,
  start: (settings) => new MeasuringProcess(settings),
}

/** A process that loads and measures models, one task after the other: what a configuration does to it, it does to no other. */
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

  get hasEnded(): boolean {
    return this.#ended !== null
  }

  /** Asks it something; one that has not answered within the limit is ended. */
  ask(task: LoadTask, limitMs: number): Promise<LoadedWord | FailedWord>
  ask(task: MeasureTask, limitMs: number): Promise<MeasuredWord | FailedWord>
  ask(task: UnloadTask, limitMs: number): Promise<UnloadedWord | FailedWord>
  ask(task: MeasuringTask, limitMs: number): Promise<MeasuringWord> {
    if (this.#ended !== null) return Promise.resolve(this.#ended)
    return new Promise((resolve) => {
      // Not a fraction of a millisecond before the time is over.
      const timer = setTimeout(
        () => this.#end(`it did not come to an end within ${Math.round(limitMs)} ms`, 'ERR_TOO_LONG'),
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

/** Rounds that there is to be time for, as far as all candidates went through them. */
const rounds = 6
const leastWarmupMs = 80
const leastWindowMs = 250
/** Runs that a window has time for, of each instance. */
const runsInWindow = 4
const mostWindowMs = 2000
const mostStretch = 8

/** How long each candidate is measured at a time: long enough for some runs, and longer where there is time for it. */
export class MeasuringPlan {
  readonly #calibration: Calibration
  readonly #startMs: number
  readonly #stretch: number
  /** What a round of all candidates may take. */
  readonly affordableMs: number

  constructor(calibration: Calibration, candidates: readonly Candidate[], budgetMs: number, startMs: number) {
    this.#calibration = calibration
    this.#startMs = startMs
    this.affordableMs = budgetMs / rounds
    const leastMs = candidates.reduce((sum, candidate) => sum + this.roundCostMs(candidate), 0)
    this.#stretch = leastMs === 0 ? 1 : Math.min(mostStretch, Math.max(1, this.affordableMs / leastMs))
  }

  timesOf(candidate: Candidate): MeasuringTimes {
    const { warmupMs, windowMs, tailMs } = this.#least(candidate)
    const stretched = Math.max(windowMs, Math.min(mostWindowMs, windowMs * this.#stretch))
    return { warmupMs, windowMs: stretched, costMs: warmupMs + stretched + tailMs }
  }

  /** Of one measurement that is as short as can be, with its part of the start of its process. */
  roundCostMs(candidate: Candidate): number {
    const { warmupMs, windowMs, tailMs } = this.#least(candidate)
    return warmupMs + windowMs + tailMs + this.#startMs / rounds
  }

  #least({ configuration }: Candidate): { warmupMs: number; windowMs: number; tailMs: number } {
    const runMs = this.#calibration.runMs(configuration, configuration.maxBatchSize) ?? 0
    // A window ends with the answers after it, and the callers wait for those that they asked for then.
    return {
      warmupMs: Math.max(leastWarmupMs, runMs),
      windowMs: Math.max(leastWindowMs, runsInWindow * runMs),
      tailMs: 3 * runMs,
    }
  }
}

/** What is measured, and where. */
interface MeasuringJob {
  /** Of the process. */
  readonly process: string
  /** Of the model in it. */
  readonly model: string
  readonly config: ModelConfig
  readonly load: Load
  readonly warmupMs: number
  readonly windowMs: number
  /** How long it may take, with the start of a process. */
  readonly limitMs: number
}

interface Living {
  readonly process: Measuring
  model: string | null
  memoryBytes: number
}

/** Of the memory that is free at the start, a container's limit considered, what processes may keep that wait for their next turn. */
const memoryShare = 0.5
const mostLiving = 16
/** JavaScript is compiled, and threads and memory are taken, while the first requests are answered. */
export const firstWarmupMs = 500

/** Processes with a model each, kept for their next turn while there is memory for them: what was warmed stays warm. */
export class ModelProcesses {
  readonly #ground: MeasuringGround
  readonly #settings: MeasuringSettings
  /** Those used longest ago first. */
  readonly #living = new Map<string, Living>()
  readonly #mostBytes = Math.min(process.availableMemory(), availableMemory().usableBytes) * memoryShare
  #ending = false
  /** What one takes from its start until its model is loaded, as the last one did. */
  startMs: number

  constructor(ground: MeasuringGround, settings: MeasuringSettings, startMs: number) {
    this.#ground = ground
    this.#settings = settings
    this.startMs = startMs
  }

  isLiving(process: string): boolean {
    return this.#living.has(process)
  }

  /** Measures a model; a process in which that fails is ended. Another model takes the place of the one that its process has. */
  async measure(job: MeasuringJob): Promise<MeasuredWord | FailedWord> {
    const { clock } = this.#ground
    const startMs = clock.nowMs()
    const leftMs = () => Math.max(1, startMs + job.limitMs - clock.nowMs())
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

  /** Ends those that will not be asked again. */
  async keepOnly(processes: readonly string[]): Promise<void> {
    const others = [...this.#living.keys()].filter((key) => !processes.includes(key))
    await Promise.all(others.map((key) => this.#end(key)))
  }

  /** Ends all, and those that are begun from now on. */
  async end(): Promise<void> {
    this.#ending = true
    await this.keepOnly([])
  }

  /** The new one first: models of one file and the same threads share a session, which would be opened again. */
  async #load(
    living: Living,
    { model, config }: MeasuringJob,
    leftMs: () => number,
  ): Promise<FailedWord | null> {
    const before = living.model
    const loaded = await living.process.ask({ type: 'load', name: model, config }, leftMs())
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

/** No timer is longer. */
export const longestTimerMs = 2 ** 31 - 1
