import { availableMemory } from 'zerohop/internals'
import type { ModelConfig } from 'zerohop'
import type { Load } from './configuration.ts'
import type { FailedWord, MeasuredWord, MeasuringSettings } from './measuring-messages.ts'
import type { Measuring, MeasuringGround } from './measuring-process.ts'

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
