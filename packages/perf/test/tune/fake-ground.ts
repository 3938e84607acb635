import { configurationKey, type Configuration, type Load } from '../../src/tune/configuration.ts'
import type { ModelConfig } from '../../../../src/index.ts'
import type {
  FailedWord,
  LoadedWord,
  MeasuredWord,
  MeasureTask,
  Measuring,
  MeasuringGround,
  MeasuringTask,
  UnloadedWord,
} from '../../src/tune/measuring-process.ts'
import { simulate } from '../../src/simulation/simulate.ts'
import { FakeClock } from '../../../../test/fake-clock.ts'
import { mulberry32, type Random } from '../../../../test/models/random.ts'
import { repetitions } from '../../../../test/support/full.ts'

/** A machine with a model, as it would be without noise. */
export interface FakeMachine {
  /** What a run takes, with all instances at work. */
  runMs(configuration: Configuration): number
  memoryBytes?(configuration: Configuration): number
  /** How a configuration goes wrong. */
  fails?(configuration: Configuration): 'crash' | 'hang' | null
  /** What is loaded where nothing is said of it. */
  readonly byDefault: Configuration
  readonly loadMs: number
  /** Why no request is answered. */
  readonly refusal?: string
}

/** What else the machine does. */
export interface Noise {
  /** By how much measurements differ: 0.02 for about 2 %. */
  readonly scatter: number
  /** How often something else takes half of the machine while one is measured. */
  readonly disturbed: number
  /** By how much the machine's speed changes from one measurement to the next. */
  readonly drift: number
  readonly seed: number
}

export const quiet: Noise = { scatter: 0, disturbed: 0, drift: 0, seed: 1 }

interface Truth {
  readonly rowsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** What was simulated of machines whose runs take the same. */
const truths = new WeakMap<FakeMachine['runMs'], Map<string, Truth>>()

/** Measures a {@link FakeMachine} on a clock that moves by what it would take. */
export class FakeGround implements MeasuringGround {
  readonly clock = new FakeClock()
  readonly tasks: MeasuringTask[] = []
  living = 0
  readonly #machine: FakeMachine
  readonly #noise: Noise
  readonly #random: Random
  #speed = 1

  constructor(machine: FakeMachine, noise: Noise = quiet) {
    this.#machine = machine
    this.#noise = noise
    this.#random = mulberry32(noise.seed)
  }

  start(): Measuring {
    this.living++
    const models = new Map<string, Configuration>()
    let ended: FailedWord | null = null
    let mostBytes = 0 // what a process has taken it keeps
    const end = (message: string, code: FailedWord['code']): FailedWord => {
      if (ended === null) this.living--
      return (ended ??= { type: 'failed', code, message })
    }
    const answer = (
      task: MeasuringTask,
      limitMs: number,
    ): LoadedWord | MeasuredWord | UnloadedWord | FailedWord => {
      if (ended !== null) return ended
      this.tasks.push(task)
      if (task.type === 'unload') return { type: 'unloaded' }
      if (task.type === 'load') models.set(task.name, this.#configuration(task.config))
      const configuration = models.get(task.name)!
      const wrong = this.#machine.fails?.(configuration) ?? null
      if (wrong === 'crash') return end('its process ended with SIGABRT', 'ERR_CRASHED')
      const tookMs =
        wrong === 'hang'
          ? Infinity
          : task.type === 'load'
            ? this.#machine.loadMs
            : task.warmupMs + task.windowMs + 3 * this.#machine.runMs(configuration)
      this.clock.advanceBy(Math.min(tookMs, limitMs))
      if (tookMs > limitMs) return end(`it did not come to an end within ${limitMs} ms`, 'ERR_TOO_LONG')
      if (task.type === 'load') return this.#loaded(configuration)
      mostBytes = Math.max(mostBytes, this.#machine.memoryBytes?.(configuration) ?? 1e8)
      return this.#measured(configuration, task, mostBytes)
    }
    const ask = (async (task: MeasuringTask, limitMs: number) => answer(task, limitMs)) as Measuring['ask']
    return { ask, end: async () => void end('it was ended', 'ERR_CRASHED') }
  }

  /** What a configuration gives under a load, without noise. */
  truth(configuration: Configuration, load: Load): Truth {
    const { runMs } = this.#machine
    const known = truths.get(runMs) ?? new Map<string, Truth>()
    truths.set(runMs, known)
    const key = `${configurationKey(configuration)} ${JSON.stringify(load)}`
    const found = known.get(key) ?? this.#simulated(configuration, load)
    known.set(key, found)
    return found
  }

  #simulated(configuration: Configuration, load: Load): Truth {
    const { instances, maxBatchSize, maxQueueDelayMs } = configuration
    const limit = Math.max(1, maxBatchSize)
    const serviceTimes = [1, 2, 4, 8, 16, 32, 64, 128]
      .filter((rows) => rows <= limit)
      .map((rows) => ({ rows, ms: this.#machine.runMs({ ...configuration, maxBatchSize: rows }) }))
    const arrivals =
      load.rate === undefined
        ? { kind: 'closed' as const, callers: load.concurrency }
        : { kind: 'poisson' as const, ratePerSecond: load.rate }
    const found = simulate({
      arrivals,
      requests: Math.max(
        repetitions(1000, 500),
        (arrivals.kind === 'closed' ? repetitions(12, 4) : 12) * instances * limit,
      ),
      serviceTimes,
      instances,
      maxBatchSize: limit,
      maxQueueDelayMs,
      jitter: 0.03,
    })
    return { rowsPerSecond: found.rowsPerSecond, p50Ms: found.p50Ms!, p99Ms: found.p99Ms! }
  }

  #measured(configuration: Configuration, { load }: MeasureTask, memoryBytes: number): MeasuredWord {
    const { rowsPerSecond, p50Ms, p99Ms } = this.truth(configuration, load)
    const { scatter, disturbed, drift } = this.#noise
    this.#speed *= Math.exp(drift * this.#gaussian() - 0.02 * Math.log(this.#speed))
    const factor = this.#speed * Math.exp(scatter * this.#gaussian()) * (this.#random() < disturbed ? 0.5 : 1)
    const failure = this.#machine.refusal ?? null
    const measurement = {
      rowsPerSecond: rowsPerSecond * factor,
      p50Ms: p50Ms / factor,
      p99Ms: p99Ms / factor,
      memoryBytes,
      meanBatchRows: Math.max(1, configuration.maxBatchSize),
      failures: failure === null ? 0 : 1,
    }
    return {
      type: 'measured',
      measurement,
      failure,
      runMs: this.#machine.runMs(configuration) / factor,
    }
  }

  #loaded({ instances, maxBatchSize }: Configuration): LoadedWord {
    return {
      type: 'loaded',
      instances,
      maxBatchSize,
      joining: 'rows gave the same alone and beside others',
      isOnCpu: true,
    }
  }

  #configuration({
    maxBatchSize,
    instanceGroup,
    sessionOptions,
    dynamicBatching,
  }: ModelConfig): Configuration {
    const { byDefault } = this.#machine
    return {
      instances: instanceGroup?.[0]?.count ?? byDefault.instances,
      threads: sessionOptions?.intraOpNumThreads ?? byDefault.threads,
      maxBatchSize: maxBatchSize ?? byDefault.maxBatchSize,
      maxQueueDelayMs:
        dynamicBatching === undefined || dynamicBatching === false
          ? 0
          : (dynamicBatching.maxQueueDelayMs ?? 0),
    }
  }

  #gaussian(): number {
    return Math.sqrt(-2 * Math.log(1 - this.#random())) * Math.cos(2 * Math.PI * this.#random())
  }
}
