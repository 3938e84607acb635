import { InferenceError, type InstanceKind, type ModelConfig } from 'zerohop'
import { availableCores } from 'zerohop/internals'
import { calibrate, Calibration, gapsOf } from './calibrate.ts'
import {
  batchSizesOf,
  type Candidate,
  type Configuration,
  configurationKey,
  defaultConfiguration,
  keyOf,
  layoutsOf,
  type Load,
  measuredOptions,
  saturating,
} from './configuration.ts'
import { Contest, firstContest, furtherContests, type Place, placesOf } from './contest.ts'
import {
  firstWarmupMs,
  type MeasuringGround,
  MeasuringPlan,
  ModelProcesses,
  processGround,
} from './measuring-process.ts'
import { outcomeOf, type TuneResult, unconfirmedNote } from './outcome.ts'
import { prospectsOf } from './prune.ts'
import {
  type DefaultFacts,
  fingerprintOf,
  KeptState,
  newState,
  type RecordedContest,
  type TuneState,
} from './state-file.ts'
import {
  type Goal,
  goalOf,
  leastBudgetSeconds,
  TimeBudget,
  type TuneListener,
  type TuneSettings,
} from './tune-settings.ts'

/** Share of the remaining time for calibration and simulation. */
const calibrationShare = 0.4
const simulationShare = 0.15
/** A call with this fraction of an earlier call's time has nothing more to find out. */
const nearlyAsLong = 0.9
/** Most contests: the default alone, the first one, and those that follow with other loads. */
const mostContests = 7

/**
 * Finds the best configuration of a model: measures the default, calibrates, prunes with the simulator, and
 * confirms the best by measurement.
 */
export async function tune(
  settings: TuneSettings,
  listener: TuneListener,
  signal: AbortSignal,
  ground = processGround,
): Promise<TuneResult> {
  return new Tuning(settings, listener, signal, ground).run()
}

class Tuning {
  readonly #settings: TuneSettings
  readonly #listener: TuneListener
  readonly #signal: AbortSignal
  readonly #ground: MeasuringGround
  readonly #budget: TimeBudget
  readonly #goal: Goal
  readonly #notes: string[] = []
  #kept: KeptState | null = null
  /** Time from the start of a process until its model is loaded. */
  #startMs = 1000

  constructor(settings: TuneSettings, listener: TuneListener, signal: AbortSignal, ground: MeasuringGround) {
    this.#settings = settings
    this.#listener = listener
    this.#signal = signal
    this.#ground = ground
    this.#budget = new TimeBudget(ground.clock, settings.budgetMs, settings.startedAtMs)
    this.#goal = goalOf(settings)
  }

  async run(): Promise<TuneResult> {
    try {
      await this.#open()
      return await this.#find()
    } finally {
      this.#kept?.removeIfEmpty()
    }
  }

  async #find(): Promise<TuneResult> {
    const defaults = this.#signal.aborted || this.#budget.leftMs === 0 ? null : await this.#defaults()
    const leastSeconds = leastBudgetSeconds(
      this.#budget.spentMs,
      defaults === null ? this.#budget.spentMs : this.#startMs,
      this.#settings.budgetMs,
    )
    const alone = defaults === null ? [] : await this.#measureDefault(defaults)
    if (defaults !== null) await this.#calibrate(defaults)
    const { places, isDecided } =
      defaults === null ? { places: [], isDecided: false } : await this.#confirm(defaults)
    const { best, rows, reason, isConfirmed } = outcomeOf({
      places,
      alone,
      reference: defaults?.configuration ?? null,
      goal: this.#goal,
      leastSeconds,
      isDecided,
    })
    const end = this.#signal.aborted ? 'interrupted' : isDecided ? 'decided' : 'budget'
    if (best !== null && !isConfirmed) this.#notes.push(unconfirmedNote)
    return {
      best,
      judgedBy: this.#goal,
      isConfirmed,
      reason,
      rows,
      kind: this.#kind,
      notes: this.#notes,
      end,
      seconds: this.#budget.spentMs / 1000,
    }
  }

  /** Opens earlier measurements, unless there is no time to compute what they depend on. */
  async #open(): Promise<void> {
    const { statePath, fresh } = this.#settings
    const over = this.#budget.overSignal()
    try {
      const fingerprint = await fingerprintOf(this.#settings, AbortSignal.any([this.#signal, over]))
      this.#kept = new KeptState(statePath, fingerprint, fresh, (text) => this.#notes.push(text))
    } catch (error) {
      if (!this.#signal.aborted && !over.aborted) throw error
    }
  }

  /**
   * Loads the model without tuned options; `null` if time ran out or the tuning was aborted.
   *
   * @throws InferenceError as `engine.load()`.
   */
  async #defaults(): Promise<DefaultFacts | null> {
    if (this.#state.defaults !== null) return this.#state.defaults
    this.#listener.onPhase?.('loading')
    const { clock } = this.#ground
    const config = this.#config(null)
    const startMs = clock.nowMs()
    const process = this.#ground.start(this.#settings.measuring)
    const stop = () => void process.end()
    this.#signal.addEventListener('abort', stop)
    try {
      const word = await process.ask({ type: 'load', name: 'model', config }, this.#budget.leftMs)
      if (this.#signal.aborted) return null
      if (word.type === 'failed') {
        if (word.code === 'ERR_TOO_LONG') return null
        throw new InferenceError(word.code === 'ERR_CRASHED' ? 'ERR_MODEL_LOAD' : word.code, word.message)
      }
      const { instances, maxBatchSize, isOnCpu, joining } = word
      this.#startMs = clock.nowMs() - startMs
      this.#state.defaults = {
        configuration: defaultConfiguration(config, instances, maxBatchSize),
        isOnCpu,
        joining,
      }
      this.#save()
      return this.#state.defaults
    } finally {
      this.#signal.removeEventListener('abort', stop)
      await process.end()
    }
  }

  /** Measures the default alone, before everything else. It is the result if there is no time for more. */
  async #measureDefault({ configuration }: DefaultFacts): Promise<readonly Place[]> {
    const candidate: Candidate = {
      configuration,
      load: this.#load ?? {
        concurrency:
          this.#goal.p99Ms === undefined
            ? saturating(configuration, this.#rowsPerRequest)
            : configuration.instances,
      },
    }
    const [recorded] = (this.#state.contests[this.#goalKey()] ??= [{ candidates: [candidate], showings: [] }])
    this.#listener.onPhase?.('measuring the default')
    return this.#withProcesses(async (processes) =>
      placesOf(await this.#contest(recorded!, processes, this.#budget, 1), recorded!, this.#goal, []),
    )
  }

  async #calibrate({ isOnCpu, joining, configuration }: DefaultFacts): Promise<void> {
    const { space: given, measuring } = this.#settings
    const isJoined = configuration.maxBatchSize > 0 || given.batchSizes !== undefined
    if (!isJoined) this.#notes.push(`batches were not tried: ${joining}`)
    const space = isOnCpu ? given : { ...given, threads: given.threads ?? [configuration.threads] }
    const layouts = layoutsOf(space, availableCores().usable)
    const batchSizes = batchSizesOf(space, isJoined, measuring.requests.rows)
    const { calibration, calibratedInMs, contests } = this.#state
    const key = JSON.stringify([given, this.#goal.memoryBytes])
    // A calibration that did not fit into this much time is not begun again: the next call continues from
    // where the last one stopped.
    if ((calibratedInMs[key] ?? 0) >= this.#settings.budgetMs * nearlyAsLong) return
    const knownPoints = calibration.length
    this.#listener.onPhase?.('calibrating')
    await this.#withProcesses((processes) =>
      calibrate({
        layouts,
        batchSizes,
        rowsPerRequest: measuring.requests.rows,
        processes,
        configOf: (each) => this.#config(each),
        budget: this.#budget.part(calibrationShare),
        wholeBudget: this.#budget,
        memoryBytes: this.#goal.memoryBytes,
        signal: this.#signal,
        points: calibration,
        onPoint: (point) => {
          this.#save()
          this.#listener.onMeasured?.(
            `${point.instances} x ${point.threads} threads, batch ${point.maxBatchSize}`,
          )
        },
      }),
    )
    if (this.#signal.aborted) return
    if (calibration.length > 0) calibratedInMs[key] = this.#settings.budgetMs
    if (calibration.length > knownPoints) contests[this.#goalKey()]!.splice(1)
    this.#save()
    this.#notes.push(...gapsOf(layouts, calibration))
  }

  async #confirm(defaults: DefaultFacts): Promise<{ places: readonly Place[]; isDecided: boolean }> {
    const contests = await this.#contests(defaults.configuration)
    let places: readonly Place[] = []
    let isDecided = false
    await this.#withProcesses(async (processes) => {
      for (let index = 1; index < contests.length && !this.#signal.aborted; index++) {
        const recorded = contests[index]!
        this.#listener.onPhase?.(index === 1 ? 'confirming' : 'confirming with other loads')
        const earlier = places
        const go = async (budget: TimeBudget) => {
          const contest = await this.#contest(recorded, processes, budget)
          isDecided = contest.isDecided
          places = placesOf(contest, recorded, this.#goal, earlier)
          return contest.round
        }
        // Leaves time for other loads, if there may be any.
        const round = await go(
          this.#load === null && this.#goal.p99Ms !== undefined ? this.#budget.part(0.6) : this.#budget,
        )
        const isLast = index === contests.length - 1
        if (isLast && round > 0 && contests.length < mostContests && this.#load === null)
          contests.push(...furtherContests(contests.slice(1), places, this.#goal, this.#rowsPerRequest))
        if (isLast && index === contests.length - 1 && !isDecided && !this.#signal.aborted)
          await go(this.#budget)
      }
    })
    return { places, isDecided }
  }

  /**
   * Measures candidates in rounds until the ranking is clear, or there is no time for another measurement.
   * Recorded measurements of an earlier call count.
   */
  async #contest(
    recorded: RecordedContest,
    processes: ModelProcesses,
    budget: TimeBudget,
    mostRounds = Infinity,
  ): Promise<Contest> {
    const signal = this.#signal
    const plan = this.#plan(recorded.candidates, budget)
    const candidates = new Map(recorded.candidates.map((candidate) => [keyOf(candidate), candidate]))
    const keys = [...candidates.keys()]
    const contest = new Contest(keys, this.#goal, keys[0])
    for (const { key, measurement, affordable } of recorded.showings)
      contest.record(key, measurement, affordable)
    for (
      let key = contest.next();
      key !== null && contest.round < mostRounds && !signal.aborted;
      key = contest.next()
    ) {
      const candidate = candidates.get(key)!
      const { configuration, load } = candidate
      const { warmupMs, windowMs, costMs } = plan.timesOf(candidate)
      const process = configurationKey(configuration) // its own, so that its memory is that of this configuration only
      const wholeMs = costMs + (processes.isLiving(process) ? 0 : processes.startMs + firstWarmupMs)
      if (wholeMs > budget.leftMs) break
      const config = this.#config(configuration)
      const word = await processes.measure({
        process,
        model: 'model',
        config,
        load,
        warmupMs,
        windowMs,
        expectedMs: wholeMs,
        leftMs: budget.leftMs,
      })
      // A measurement that ran out of time, or was aborted, has not failed.
      if (signal.aborted || (word.type === 'failed' && budget.leftMs === 0)) break
      const measurement = word.type === 'measured' ? word.measurement : null
      const failure = word.type === 'failed' ? word.message : word.failure
      const costsMs = contest.left.map((each) => plan.timesOf(candidates.get(each)!).costMs)
      const meanMs = costsMs.reduce((sum, ms) => sum + ms, 0) / costsMs.length
      const affordable = Math.floor(budget.leftMs / meanMs)
      recorded.showings.push({ key, measurement, failure, affordable })
      contest.record(key, measurement, affordable)
      this.#save()
      this.#listener.onMeasured?.(key)
      await processes.keepOnly(
        contest.left.map((each) => configurationKey(candidates.get(each)!.configuration)),
      )
    }
    return contest
  }

  #plan(candidates: readonly Candidate[], budget: TimeBudget): MeasuringPlan {
    return new MeasuringPlan(
      new Calibration(this.#state.calibration),
      candidates,
      budget.leftMs,
      this.#startMs,
    )
  }

  /** Processes that are ended when all is done, or when the user aborts. */
  async #withProcesses<T>(use: (processes: ModelProcesses) => Promise<T>): Promise<T> {
    const processes = new ModelProcesses(this.#ground, this.#settings.measuring, this.#startMs)
    const stop = () => void processes.end()
    this.#signal.addEventListener('abort', stop)
    try {
      return await use(processes)
    } finally {
      this.#signal.removeEventListener('abort', stop)
      await processes.end()
      this.#startMs = processes.startMs
    }
  }

  /** Earlier contests for the same goal, or the default alone and a new first one. */
  async #contests(reference: Configuration): Promise<RecordedContest[]> {
    const known = this.#state.contests[this.#goalKey()]!
    if (known.length > 1) return known
    this.#listener.onPhase?.('simulating')
    const { space } = this.#settings
    const calibration = new Calibration(this.#state.calibration)
    const shared = { goal: this.#goal, rowsPerRequest: this.#rowsPerRequest, load: this.#load }
    const budget = this.#budget.part(simulationShare)
    const prospects = await prospectsOf({ calibration, space, budget, ...shared })
    const plan = this.#plan([], this.#budget)
    const first = firstContest({ prospects, plan, reference, ...shared })
    known.push(first)
    return known
  }

  get #rowsPerRequest(): number {
    return this.#settings.measuring.requests.rows
  }

  /** The load, if it was given. */
  get #load(): Load | null {
    const { rate, concurrency } = this.#settings
    return rate !== undefined ? { rate } : concurrency !== undefined ? { concurrency } : null
  }

  /** Results for the CPU do not apply to another machine's GPU. */
  get #kind(): InstanceKind {
    const { kind } = this.#settings
    return kind === 'auto' && this.#state.defaults?.isOnCpu === true ? 'cpu' : kind
  }

  #goalKey(): string {
    const { space, concurrency, rate } = this.#settings
    return JSON.stringify({ ...this.#goal, concurrency, rate, space })
  }

  #config(configuration: Configuration | null): ModelConfig {
    const { path, options } = this.#settings
    return { ...measuredOptions(configuration, options, this.#kind), path }
  }

  get #state(): TuneState {
    return this.#kept?.state ?? newState({})
  }

  #save(): void {
    this.#kept!.save()
  }
}
