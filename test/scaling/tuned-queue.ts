import type { InstanceUse } from '../../src/models/scaling/autoscaler.ts'
import type { ThroughputSetting } from '../../src/models/scaling/throughput-search.ts'
import { ThroughputTuner, type Tuned } from '../../src/models/scaling/throughput-tuner.ts'
import { FakeClock } from '../fake-clock.ts'
import { mulberry32 } from '../models/random.ts'

/** What comes: callers who each wait for their answer, or requests at a rate of so many a second at random moments. */
export interface QueueLoad {
  callers?(nowMs: number): number
  rate?(nowMs: number): number
}

interface Server {
  busyMs: number
  idleSinceMs: number | null
  fromMs: number
  untilMs: number
  arrivals: readonly number[]
}

interface QueueOptions {
  readonly seed?: number
  readonly cores?: number
  /** By how much runs differ, as a standard deviation. */
  readonly noise?: number
  readonly timeoutMs?: number
  readonly maxMemoryBytes?: number
}

const callersLookMs = 50

/** A queue of requests before instances whose runs take their time on a fake clock, tuned by a real tuner. */
export class TunedQueue implements Tuned {
  readonly clock = new FakeClock()
  readonly tuner: ThroughputTuner
  readonly maxBatchSize = 32
  readonly changing = false
  readonly haveOwnWorkers = true
  /** Changes of settings, trials too. */
  changes = 0
  /** Longest time from a request to its answer, and the most memory, since the last look. */
  longestMs = 0
  peakBytes = 0
  overloadCount = 0
  bytesPerInstance = 0
  /** How fast all runs are, by the clock and whether the settings are on trial. */
  speed = (_nowMs: number, _isTrial: boolean): number => 1
  readonly #runMs: (setting: ThroughputSetting) => number
  readonly #random: () => number
  readonly #options: Required<Pick<QueueOptions, 'noise' | 'timeoutMs'>>
  #servers: Server[] = []
  #leaving: Server[] = []
  #left: (() => void) | null = null
  #queue: number[] = []
  #batchRows = 32
  #rows = 0
  #runs = 0

  /** @param runMs what a run takes of a full batch, with all instances at work. */
  constructor(
    runMs: (setting: ThroughputSetting) => number,
    { seed = 1, cores = 4, noise = 0.05, timeoutMs = Infinity, maxMemoryBytes = Infinity }: QueueOptions = {},
  ) {
    this.#runMs = runMs
    this.#random = mulberry32(seed)
    this.#options = { noise, timeoutMs }
    this.#begin(1)
    this.tuner = new ThroughputTuner(this, { maxInstances: 256, maxMemoryBytes }, cores, this.clock)
  }

  get done(): Tuned['done'] {
    return { rows: this.#rows, runs: this.#runs }
  }

  get oldestAtMs(): number {
    return this.#queue[0] ?? Infinity
  }

  get uses(): readonly InstanceUse[] {
    const nowMs = this.clock.nowMs()
    return this.#servers.map(({ busyMs, idleSinceMs, fromMs }) => ({
      idleSinceMs,
      busyMs: idleSinceMs === null ? busyMs + nowMs - fromMs : busyMs,
    }))
  }

  capBatches(rows: number): void {
    if (rows !== this.#batchRows) this.changes++
    this.#batchRows = rows
  }

  /** As in the engine: the new ones serve while the others come to their end. */
  divideCores(instances: number): Promise<void> {
    this.changes++
    this.#leaving = this.#servers.filter(({ idleSinceMs }) => idleSinceMs === null)
    this.#begin(instances)
    return this.#leaving.length === 0 ? Promise.resolve() : new Promise((resolve) => (this.#left = resolve))
  }

  memoryBytes(): number {
    const bytes = this.bytesPerInstance * this.#servers.length
    this.peakBytes = Math.max(this.peakBytes, bytes)
    return bytes
  }

  /** Rows a second of full batches. */
  capacity(setting: ThroughputSetting): number {
    return (setting.instances * setting.batchRows * 1000) / this.#runMs(setting)
  }

  async serve(forMs: number, { callers, rate }: QueueLoad): Promise<void> {
    const endMs = this.clock.nowMs() + forMs
    let nextMs = rate === undefined ? Infinity : this.clock.nowMs()
    for (;;) {
      const nowMs = this.clock.nowMs()
      for (let missing = (callers?.(nowMs) ?? 0) - this.#asked; missing > 0; missing--)
        this.#queue.push(nowMs)
      this.#dispatch(nowMs)
      this.tuner.look()
      await this.#settled()
      this.#dispatch(nowMs)
      const busy = [...this.#servers, ...this.#leaving]
      this.clock.advanceTo(
        Math.max(
          nowMs,
          Math.min(
            nextMs,
            endMs,
            this.clock.nextMs,
            nowMs + callersLookMs,
            ...busy.map(({ untilMs }) => untilMs),
          ),
        ),
      )
      await this.#settled()
      const atMs = this.clock.nowMs()
      if (atMs >= endMs) return
      if (atMs >= nextMs) {
        this.#queue.push(atMs)
        nextMs = atMs - (Math.log(1 - this.#random()) * 1000) / rate!(atMs)
      }
      for (const server of busy) if (server.untilMs <= atMs) this.#end(server, atMs)
    }
  }

  get #asked(): number {
    return (
      this.#queue.length +
      [...this.#servers, ...this.#leaving].reduce((sum, { arrivals }) => sum + arrivals.length, 0)
    )
  }

  #begin(instances: number): void {
    const nowMs = this.clock.nowMs()
    this.#servers = Array.from({ length: instances }, () => ({
      busyMs: 0,
      idleSinceMs: nowMs,
      fromMs: 0,
      untilMs: Infinity,
      arrivals: [],
    }))
  }

  #dispatch(nowMs: number): void {
    while (nowMs - this.oldestAtMs > this.#options.timeoutMs) {
      this.#queue.shift()
      this.overloadCount++
    }
    for (const server of this.#servers) {
      if (server.idleSinceMs === null || this.#queue.length === 0) continue
      server.arrivals = this.#queue.splice(0, this.#batchRows)
      const runMs = this.#runMs({ instances: this.#servers.length, batchRows: server.arrivals.length })
      const factor =
        Math.exp(this.#options.noise * this.#gaussian()) /
        this.speed(nowMs, this.tuner.stats.state === 'searching')
      Object.assign(server, { fromMs: nowMs, idleSinceMs: null, untilMs: nowMs + runMs * factor })
    }
  }

  #end(server: Server, nowMs: number): void {
    this.#runs++
    this.#rows += server.arrivals.length
    this.longestMs = Math.max(this.longestMs, nowMs - server.arrivals[0]!)
    Object.assign(server, {
      busyMs: server.busyMs + nowMs - server.fromMs,
      idleSinceMs: nowMs,
      untilMs: Infinity,
      arrivals: [],
    })
    this.#leaving = this.#leaving.filter((other) => other !== server)
    if (this.#leaving.length === 0) this.#left?.()
  }

  async #settled(): Promise<void> {
    for (let turn = 0; turn < 4; turn++) await Promise.resolve()
  }

  #gaussian(): number {
    return Math.sqrt(-2 * Math.log(1 - this.#random())) * Math.cos(2 * Math.PI * this.#random())
  }
}
