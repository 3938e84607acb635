import type { Carrier } from './carriers.ts'
import type { ResolvedConfig } from './config/resolve-model-config.ts'
import { cudaDevice, sessionOptions, type Placement } from './config/session-options.ts'
import { defaultVersion } from './config/version-options.ts'
import type { EngineServices } from './engine-services.ts'
import { ThreadEndedError, type OpenedSession } from './executor/executor.ts'
import { toleranceWith } from './instance/compare-rows.ts'
import { ModelInstance, slotsPerInstance } from './instance/model-instance.ts'
import { SlotsAhead } from './instance/slots-ahead.ts'
import { prepareWarmup, zeros, type PreparedWarmup } from './instance/warm-up.ts'
import { calibrate } from './latency/calibration.ts'
import { RunTimes } from './latency/run-times.ts'
import { checkModelFile, closedWhileLoading, loadFailure, lostWhileLoading, unloadable } from './load-failure.ts'
import { servable } from './metadata.ts'
import type { ModelLifecycle } from './model-target.ts'
import type { ModelState } from './model-state.ts'
import { FeedParser } from './request/feeds.ts'
import { Padding } from './request/padding.ts'
import { wholeKey } from './request/whole-request.ts'
import { ResponseSharing } from './response-cache/response-sharing.ts'
import { Joining } from './scheduler/joining.ts'
import { checkAtLoad } from './scheduler/load-check.ts'
import { RealRowCheck } from './scheduler/real-row-check.ts'
import { Scheduler } from './scheduler/scheduler.ts'
import { isMailedTensor } from './values.ts'
import { WorkerSession } from './workers/worker-session.ts'
import type { Worker } from './workers/worker.ts'

const warmNote = 'warm' // noted of a session that has been

/** One model's life in an engine: opens its sessions, watches its state, releases it all. */
export class LoadedModel implements ModelLifecycle {
  readonly name: string
  readonly version: number
  state: ModelState = 'loading'
  failure: string | null = null
  scheduler: Scheduler | null = null
  parser: FeedParser | null = null
  responses: ResponseSharing | null = null
  readonly splitsOversized: boolean
  readonly #config: ResolvedConfig
  readonly #services: EngineServices
  readonly #sessions: WorkerSession[] = []
  #instances: readonly ModelInstance[] = []
  #warmups: readonly PreparedWarmup[] = []
  readonly #placements: Placement[] = [] // of the sessions
  #tolerance = 0 // the largest of the sessions'
  #loading: Promise<void> = Promise.resolve()
  #closing: Promise<void> | null = null

  constructor(name: string, config: ResolvedConfig, services: EngineServices) {
    this.name = name
    this.version = config.version ?? defaultVersion
    this.splitsOversized = config.splitOversized
    this.#config = config
    this.#services = services
  }

  /** Those of its sessions. */
  get workers(): Worker[] {
    return this.#sessions.map(({ worker }) => worker)
  }

  /** Opens every instance and warms it; `ready` afterwards. Rejects with a typed error, with nothing left open. */
  load(): Promise<void> {
    const loading = this.#services.keepAlive.during(this.#load())
    this.#loading = loading.catch(() => {})
    return loading
  }

  async #load(): Promise<void> {
    let ahead: SlotsAhead | null = null
    try {
      await checkModelFile(this.name, this.#config)
      const [opened] = await this.#openAll()
      this.#checkStillLoading()
      const served = { ...servable(this.name, opened!, opened!.carrier), executionProviders: this.#services.providers.opened(this.#config) }
      const joining = new Joining(this.name, this.#config, served, this.#tolerance)
      const padding = this.#parse(joining, opened!.carrier)
      for (const [index, session] of this.#sessions.entries()) {
        await this.#warmUp(session, true)
        const warm = index === 0 && (await checkAtLoad(joining, this.#config, padding, this.#warmups, session))
        if (warm) session.setNote(warmNote, 'yes')
        else await this.#warmUp(session, false)
      }
      const runTimes = await this.#calibrated(joining, this.#sessions[0]!)
      ahead = await SlotsAhead.acquire(this.#services.staging(), joining.stacked, this.#placements.map((placement) => ({ placement })), slotsPerInstance)
      await this.#services.accept?.()
      this.#checkStillLoading()
      // Nobody was told of a thread that died while nothing was asked of it.
      if (!this.#sessions.every(({ isOpen }) => isOpen)) throw new ThreadEndedError()
      this.#serve(joining, padding, runTimes, ahead, opened!.carrier)
    } catch (error) {
      ahead?.release()
      await Promise.all(this.#sessions.map((session) => session.close()))
      if (this.state !== 'loading') throw error instanceof ThreadEndedError ? closedWhileLoading(this.name) : lostWhileLoading(this.name, error as Error)
      const failure = lostWhileLoading(this.name, error as Error)
      this.gaveUp(failure.message)
      throw failure
    }
  }

  #checkStillLoading(): void {
    if (this.state !== 'loading') throw closedWhileLoading(this.name)
  }

  async #openAll(): Promise<OpenedSession[]> {
    const { path, bytes, memory } = this.#config
    const { nextId, place, useProvider, providers, clock } = this.#services
    await place(this.name, this.#config, (worker, placement) => {
      this.#placements.push(placement)
      const options = sessionOptions(this.#config, placement, useProvider(this.name))
      this.#tolerance = Math.max(this.#tolerance, toleranceWith(options))
      this.#sessions.push(new WorkerSession(nextId(), worker, { model: bytes ?? path, options, memory }, clock))
    })
    this.#checkStillLoading()
    const results = await Promise.allSettled(this.#sessions.map((session) => session.open()))
    const failed = results.find((result) => result.status === 'rejected')
    if (failed === undefined) return results.map((result) => (result as PromiseFulfilledResult<OpenedSession>).value)
    if (failed.reason instanceof ThreadEndedError) throw failed.reason
    if (this.state !== 'loading' || !(await providers.lacking(this.#config))) throw loadFailure(this.name, this.#config, failed.reason as Error)
    this.#checkStillLoading()
    await Promise.all(this.#sessions.map((session) => session.close()))
    this.#sessions.length = this.#placements.length = this.#tolerance = 0
    return this.#openAll() // without what was lacking
  }

  /** Makes ready to read requests; samples are read as rows, whatever becomes of the requests. */
  #parse(joining: Joining, { carriesNul }: Carrier): Padding | null {
    const { optionalInputs, rejectNonFinite, warmup, maxBatchSize, sequence } = this.#config
    const padding = Padding.of(joining.stacked, this.#config.padding)
    const options = { optionalInputs, padding, finiteOnly: rejectNonFinite === 'inputs', carriesNul, limited: maxBatchSize !== undefined, shaped: joining.shaped, sequence }
    const parser = new FeedParser(joining.stacked, options)
    this.parser = parser
    this.#warmups = prepareWarmup(joining.stacked, parser, warmup)
    return padding
  }

  /** Runs the samples that the user gave, or else our own, on an instance; our own once for all that share the session. */
  async #warmUp(session: WorkerSession, own: boolean): Promise<void> {
    if (!own && session.note(warmNote) !== '') return
    for (const { feeds, count, required } of this.#warmups) {
      for (let run = 0; run < count && required === own; run++) {
        const { error } = await session.runSample(feeds)
        if (error === null) continue
        if (required) throw unloadable(this.name, this.#config, `a warm-up sample failed: ${error}`, { received: 'a failing sample' })
        break
      }
    }
    if (!own) session.setNote(warmNote, 'yes')
  }

  /** What runs take; measured beforehand where a latency target depends on it. */
  async #calibrated({ byRow, stacked, largestBatch }: Joining, session: WorkerSession): Promise<RunTimes> {
    const runTimes = new RunTimes()
    const { latencyTargetMs, preferredBatchSizes, joinRequests, warmup } = this.#config
    const sample = this.#warmups[0] ?? (warmup === false ? undefined : zeros(stacked)[0])
    if (latencyTargetMs === 0 || sample === undefined) return runTimes
    const bucketKey = byRow ? sample.bucketKey : wholeKey(sample.feeds.map((feed) => (feed && isMailedTensor(feed) ? feed.dims : null)))
    const maxBatchSize = joinRequests && byRow ? largestBatch : Math.min(1, largestBatch)
    await calibrate(runTimes, { ...sample, bucketKey }, maxBatchSize, preferredBatchSizes, latencyTargetMs, (feeds) => session.runSample(feeds))
    return runTimes
  }

  #serve(joining: Joining, padding: Padding | null, runTimes: RunTimes, ahead: SlotsAhead, { movesFromBytes }: Carrier): void {
    const { clock, keepAlive } = this.#services
    joining.onChange = () => void (this.parser!.byRow = joining.byRow)
    joining.onChange()
    const session = () => this.#sessions.find(({ ready }) => ready) ?? this.#sessions[0]! // the first may have been given up since
    const realRows = joining.undecided ? new RealRowCheck(joining, (feeds) => session().runSample(feeds, true)) : null
    const scheduler = new Scheduler({
      joining, realRows, padding, runTimes, clock, keepAlive, config: this.#config, instances: this.#sessions.length, gaveUp: (reason) => this.gaveUp(reason),
    }) // prettier-ignore
    this.scheduler = scheduler
    this.responses = ResponseSharing.of(scheduler, this.#config)
    this.#instances = this.#sessions.map((session, index) => {
      const device = cudaDevice(this.#placements[index]!)
      const instance = new ModelInstance(scheduler, `${this.name}_${index}`, session, this.#config.weight, {
        nextSlotId: () => this.#services.nextId(),
        acquire: (byteLength) => this.#services.staging().acquire(byteLength, device),
        trim: () => this.#services.staging().trim(),
        movesFromBytes,
      })
      instance.adopt(ahead.byInstance[index]!)
      scheduler.instances.add(instance)
      session.serve(instance, {
        reopened: async () => {
          instance.forgetLayouts()
          for (const own of [true, false]) await this.#warmUp(session, own)
        },
        abandoned: (reason) => {
          scheduler.abandoned(instance, reason)
          instance.release()
        },
      })
      return instance
    })
    this.#become('ready')
  }

  /** It cannot serve, or not any more. */
  gaveUp(reason: string): void {
    if (this.state === 'closed') return
    this.failure = reason
    this.#become('failed')
  }

  /** It is not wanted any more while it is being loaded: nothing more of that is begun. */
  abortLoad(reason: string): void {
    this.gaveUp(reason)
    this.#endLoad()
  }

  #endLoad(): void {
    if (this.scheduler === null) for (const session of this.#sessions) void session.close()
  }

  /** Takes no more requests, finishes those accepted (or rejects them and stops what runs), releases everything. */
  close(destroy: boolean): Promise<void> {
    if (destroy) this.scheduler?.destroy()
    this.#closing ??= this.#services.keepAlive.during(this.#close())
    return this.#closing
  }

  async #close(): Promise<void> {
    if (this.state !== 'failed') this.#become('draining')
    this.#endLoad()
    await this.#loading
    await this.scheduler?.drained()
    this.responses?.clear()
    // Before the worker lets go, so that it is the worker's thread that frees the memory.
    for (const instance of this.#instances) instance.release()
    await Promise.all(this.#sessions.map((session) => session.close()))
    this.#become('closed')
  }

  #become(state: Exclude<ModelState, 'loading'>): void {
    if (state === this.state) return
    this.state = state
    const { name: model, version, failure } = this
    this.#services.changed({ type: state, model, version, ...(state === 'failed' ? { reason: failure! } : {}) })
  }
}
