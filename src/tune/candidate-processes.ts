import { freemem } from 'node:os'
import type { ModelConfig } from '../index.ts'
import { configurationKey, type Candidate, type Configuration } from './configuration.ts'
import type { FailedWord, MeasuredWord, MeasuringSettings } from './measuring-messages.ts'
import { MeasuringProcess } from './measuring-process.ts'

interface Living {
  readonly process: MeasuringProcess
  memoryBytes: number
}

/** Of the memory that is free at the start, what processes may keep that wait for their next turn. */
const memoryShare = 0.5
const mostLiving = 16
const modelName = 'model'
/** JavaScript is compiled, and threads and memory are taken, while the first requests are answered. */
const firstWarmupMs = 500

/**
 * A process for each configuration, kept for its next turn while there is memory for it: what was warmed stays warm, and no other
 * configuration's memory is counted.
 */
export class CandidateProcesses {
  readonly #settings: MeasuringSettings
  readonly #configOf: (configuration: Configuration) => ModelConfig
  /** Those used longest ago first. */
  readonly #living = new Map<string, Living>()
  readonly #mostBytes = freemem() * memoryShare
  #ending = false

  constructor(settings: MeasuringSettings, configOf: (configuration: Configuration) => ModelConfig) {
    this.#settings = settings
    this.#configOf = configOf
  }

  isLiving(configuration: Configuration): boolean {
    return this.#living.has(configurationKey(configuration))
  }

  /** Measures a candidate, in a process that has nothing else to do; one that fails is ended. */
  async measure({ configuration, load }: Candidate, times: { readonly warmupMs: number; readonly windowMs: number; readonly limitMs: number }): Promise<MeasuredWord | FailedWord> {
    const key = configurationKey(configuration)
    const endMs = performance.now() + times.limitMs
    const leftMs = () => Math.max(1, endMs - performance.now())
    const living = this.#living.get(key)
    const { process, memoryBytes } = living ?? { process: new MeasuringProcess(this.#settings), memoryBytes: 0 }
    this.#living.delete(key)
    this.#living.set(key, { process, memoryBytes })
    if (this.#ending) await process.end()
    await this.#makeRoom(key)
    const loaded = living === undefined ? await process.ask({ type: 'load', name: modelName, config: this.#configOf(configuration) }, leftMs()) : null
    if (loaded?.type === 'failed') return this.#failed(key, process, loaded)
    const warmupMs = loaded === null ? times.warmupMs : Math.max(firstWarmupMs, times.warmupMs)
    const found = await process.ask({ type: 'measure', name: modelName, load, warmupMs, windowMs: times.windowMs }, leftMs())
    if (found.type === 'failed') return this.#failed(key, process, found)
    this.#living.set(key, { process, memoryBytes: found.measurement.memoryBytes })
    return found
  }

  /** Ends those of configurations that will not be measured again. */
  async keepOnly(configurations: readonly Configuration[]): Promise<void> {
    const kept = new Set(configurations.map(configurationKey))
    await Promise.all([...this.#living.keys()].filter((key) => !kept.has(key)).map((key) => this.#end(key)))
  }

  /** Ends all, and those that are begun from now on. */
  async end(): Promise<void> {
    this.#ending = true
    await Promise.all([...this.#living.keys()].map((key) => this.#end(key)))
  }

  async #failed(key: string, process: MeasuringProcess, word: FailedWord): Promise<FailedWord> {
    this.#living.delete(key)
    await process.end()
    return word
  }

  async #makeRoom(key: string): Promise<void> {
    const bytes = () => [...this.#living.values()].reduce((sum, { memoryBytes }) => sum + memoryBytes, 0)
    for (const other of this.#living.keys()) {
      if (this.#living.size <= mostLiving && bytes() <= this.#mostBytes) return
      if (other !== key) await this.#end(other)
    }
  }

  async #end(key: string): Promise<void> {
    const living = this.#living.get(key)
    this.#living.delete(key)
    await living?.process.end()
  }
}
