import { stat } from 'node:fs/promises'
import { InferenceError, invalidArgument } from './errors.ts'
import { servable } from './metadata.ts'
import { ModelInstance } from './instance/model-instance.ts'
import { Joining } from './scheduler/joining.ts'
import { checkAtLoad } from './scheduler/load-check.ts'
import { RealRowCheck } from './scheduler/real-row-check.ts'
import { Scheduler } from './scheduler/scheduler.ts'
import type { Model, ModelLifecycle, ModelState } from './model.ts'
import type { ResolvedConfig } from './config/resolve-model-config.ts'
import type { SchedulerHost } from './instance/scheduler-host.ts'
import { sessionOptions, type Placement } from './config/session-options.ts'
import { calibrate } from './latency/calibration.ts'
import { FeedParser } from './request/feeds.ts'
import { wholeKey } from './request/whole-request.ts'
import { Padding } from './request/padding.ts'
import type { RunTrial } from './instance/row-trials.ts'
import { prepareWarmup, zeros, type PreparedWarmup } from './instance/warm-up.ts'
import { RunTimes } from './latency/run-times.ts'
import type { Clock } from './clock.ts'
import type { KeepAlive } from './workers/keep-alive.ts'
import type { Worker } from './workers/worker.ts'
import type { OpenedSession } from './executor/binding/worker-link.ts'
import type { StagingPool } from './memory/staging-pool.ts'

/** What the engine lends to the models it loads. */
export interface EngineServices {
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  staging(): StagingPool
  nextId(): number
  /** Workers for a group of instances, threads started. */
  place(config: ResolvedConfig): Promise<{ worker: Worker; placement: Placement }[]>
}

interface Opened {
  readonly worker: Worker
  readonly placement: Placement
  readonly sessionId: number
  readonly session: OpenedSession
}

/** One model's life in an engine: opens its sessions, watches its state, reopens what dies, releases it all. */
export class LoadedModel implements ModelLifecycle, SchedulerHost {
  readonly name: string
  state: ModelState = 'loading'
  failure: string | null = null
  scheduler: Scheduler | null = null
  parser: FeedParser | null = null
  readonly splitsOversized: boolean
  /** Set once by the engine; what callers hold. */
  facade!: Model
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  readonly #config: ResolvedConfig
  readonly #services: EngineServices
  readonly #placements = new Map<ModelInstance, Placement>()
  #warmups: readonly PreparedWarmup[] = []
  #pageLocked = false
  #loading: Promise<void> = Promise.resolve()
  #closing: Promise<void> | null = null

  constructor(name: string, config: ResolvedConfig, services: EngineServices) {
    this.name = name
    this.clock = services.clock
    this.keepAlive = services.keepAlive
    this.splitsOversized = config.splitOversized
    this.#config = config
    this.#services = services
  }

  /** Opens every instance and warms it; `ready` afterwards. Rejects with a typed error, with nothing left open. */
  load(): Promise<void> {
    const loading = this.keepAlive.during(this.#load())
    this.#loading = loading.catch(() => {})
    return loading
  }

  async #load(): Promise<void> {
    let opened: Opened[] = []
    try {
      await this.#checkFile()
      const places = await this.#services.place(this.#config).catch((error: Error) => {
        throw error instanceof InferenceError ? error : this.#threadError(error)
      })
      this.#checkStillLoading()
      opened = await this.#openAll(places)
      this.#checkStillLoading()
      const { inputs, outputs } = opened[0]!.session
      const joining = new Joining(this.name, this.#config, servable(this.name, inputs, outputs))
      const padding = this.#parse(joining)
      for (const [index, instance] of opened.entries()) {
        await this.#warmUp(instance, true)
        const warm = index === 0 && (await checkAtLoad(joining, this.#config, padding, this.#warmups, this.#trial(instance)))
        if (!warm) await this.#warmUp(instance, false)
      }
      const runTimes = await this.#calibrated(joining, opened[0]!)
      this.#checkStillLoading()
      this.#serve(joining, padding, runTimes, opened)
    } catch (error) {
      await Promise.all(opened.map(({ worker, sessionId }) => worker.link.close(sessionId)))
      if (this.state === 'loading') {
        this.state = 'failed'
        this.failure = (error as Error).message
      }
      throw error
    }
  }

  async #checkFile(): Promise<void> {
    const { path } = this.#config
    const file = await stat(path).catch((cause: Error) => {
      throw new InferenceError('ERR_MODEL_NOT_FOUND', `Model '${this.name}': expected a file at ${path}, received ${cause.message}`, {
        model: this.name,
        name: 'path',
        expected: 'a readable file',
        received: path,
        cause,
      })
    })
    if (!file.isFile()) throw this.#loadError(`expected a model file at ${path}, received a directory or special file`, path)
  }

  #checkStillLoading(): void {
    if (this.state === 'loading') return
    throw new InferenceError('ERR_CLOSED', `Model '${this.name}' was closed while it was loading.`, { model: this.name })
  }

  async #openAll(places: { worker: Worker; placement: Placement }[]): Promise<Opened[]> {
    const opening = places.map(async ({ worker, placement }): Promise<Opened> => {
      const sessionId = this.#services.nextId()
      const options = sessionOptions(this.#config, placement)
      return { worker, placement, sessionId, session: await worker.link.open(sessionId, this.#config.path, options) }
    })
    const results = await Promise.allSettled(opening)
    const opened = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    const failed = results.find((result) => result.status === 'rejected')
    if (failed === undefined) return opened
    await Promise.all(opened.map(({ worker, sessionId }) => worker.link.close(sessionId)))
    const { message } = failed.reason as Error
    throw /executionprovider/i.test(message) ? this.#providerError(failed.reason) : this.#loadError(message.trim(), this.#config.path, failed.reason)
  }

  #loadError(message: string, received: unknown, cause?: unknown): InferenceError {
    return new InferenceError('ERR_MODEL_LOAD', `Model '${this.name}' cannot be loaded from ${this.#config.path}: ${message}`, {
      model: this.name,
      name: 'path',
      expected: 'a model that ONNX Runtime can load',
      received,
      ...(cause === undefined ? {} : { cause }),
    })
  }

  #providerError(cause: Error): InferenceError {
    const { executionProviders, instanceGroup } = this.#config
    const [name, received] = executionProviders ? ['executionProviders', executionProviders] : ['instanceGroup', instanceGroup]
    const details = { code: 'ERR_MODEL_LOAD', model: this.name, hint: cause.message.trim(), cause } as const
    return invalidArgument(name, 'execution providers that onnxruntime-node has here', received, details)
  }

  #threadError(cause: Error): InferenceError {
    return invalidArgument('workers', 'a worker thread that stays', cause.message, { code: 'ERR_MODEL_LOAD', model: this.name, cause })
  }

  /** Makes ready to read requests; samples are read as rows, whatever becomes of the requests. */
  #parse(joining: Joining): Padding | null {
    const { optionalInputs, rejectNonFinite, warmup, maxBatchSize } = this.#config
    const padding = Padding.of(joining.stacked, this.#config.padding)
    const options = { optionalInputs, padding, finiteOnly: rejectNonFinite === 'inputs', limited: maxBatchSize !== undefined }
    const parser = new FeedParser(joining.stacked, options)
    this.parser = parser
    this.#warmups = prepareWarmup(joining.stacked, parser, warmup)
    return padding
  }

  /** Runs the samples that the user gave, or else our own, on an instance. */
  async #warmUp({ worker, sessionId }: Pick<Opened, 'worker' | 'sessionId'>, own: boolean): Promise<void> {
    for (const { feeds, count, required } of this.#warmups) {
      if (required !== own) continue
      const { error } = await this.#run(worker, sessionId, feeds, count)
      if (error !== null && required) throw this.#loadError(`a warm-up sample failed: ${error}`, 'a failing sample')
    }
  }

  #trial({ worker, sessionId }: Pick<Opened, 'worker' | 'sessionId'>): RunTrial {
    return (feeds) =>
      worker.link.trial(sessionId, feeds, this.#services.nextId()).catch((cause: Error) => {
        throw this.#threadError(cause)
      })
  }

  #run(worker: Worker, sessionId: number, feeds: PreparedWarmup['feeds'], count: number) {
    return worker.link.warmup(sessionId, feeds, count, this.#services.nextId()).catch((cause: Error) => {
      throw this.#threadError(cause)
    })
  }

  /** What runs take; measured beforehand where a latency target depends on it. */
  async #calibrated({ byRow, stacked, largestBatch }: Joining, { worker, sessionId }: Opened): Promise<RunTimes> {
    const runTimes = new RunTimes()
    const { latencyTargetMs, preferredBatchSizes, joinRequests, warmup } = this.#config
    const sample = this.#warmups[0] ?? (warmup === false ? undefined : zeros(stacked)[0])
    if (latencyTargetMs === 0 || sample === undefined) return runTimes
    const bucketKey = byRow ? sample.bucketKey : wholeKey(sample.feeds.map((feed) => feed && feed.dims))
    const maxBatchSize = joinRequests && byRow ? largestBatch : Math.min(1, largestBatch)
    await calibrate(runTimes, { ...sample, bucketKey }, maxBatchSize, preferredBatchSizes, latencyTargetMs, (feeds, count) =>
      this.#run(worker, sessionId, feeds, count),
    )
    return runTimes
  }

  #serve(joining: Joining, padding: Padding | null, runTimes: RunTimes, opened: readonly Opened[]): void {
    this.#pageLocked = opened.some(({ placement }) => placement.kind === 'cuda')
    const parser = this.parser!
    joining.onChange = () => void (parser.byRow = joining.byRow)
    joining.onChange()
    this.scheduler = new Scheduler(joining, padding, this.#config, runTimes, opened.length, this)
    for (const [index, { worker, placement, sessionId }] of opened.entries()) {
      const instance = new ModelInstance(this.scheduler, `${this.name}_${index}`, worker, sessionId, this.#config.weight)
      this.#placements.set(instance, placement)
      this.scheduler.instances.push(instance)
      worker.join(instance)
    }
    if (joining.undecided) this.scheduler.realRows = new RealRowCheck(joining, this.#trial(this.scheduler.instances[0]!))
    this.state = 'ready'
  }

  // ── for the scheduler ──

  acquire(byteLength: number) {
    return this.#services.staging().acquire(byteLength, this.#pageLocked)
  }

  nextSlotId(): number {
    return this.#services.nextId()
  }

  async reopen(instance: ModelInstance): Promise<void> {
    const options = sessionOptions(this.#config, this.#placements.get(instance)!)
    await instance.worker.link.open(instance.sessionId, this.#config.path, options)
    await this.#warmUp(instance, true)
    await this.#warmUp(instance, false)
  }

  gaveUp(reason: string): void {
    if (this.state === 'closed') return
    this.state = 'failed'
    this.failure = reason
  }

  // ── end ──

  /** Takes no more requests, finishes those accepted (or rejects those waiting), releases everything. */
  close(dropWaiting: boolean): Promise<void> {
    if (dropWaiting) this.scheduler?.rejectWaiting()
    this.#closing ??= this.keepAlive.during(this.#close())
    return this.#closing
  }

  async #close(): Promise<void> {
    if (this.state !== 'failed') this.state = 'draining'
    await this.#loading
    const { scheduler } = this
    if (scheduler !== null) {
      await scheduler.drained()
      const instances = [...this.#placements.keys()]
      for (const instance of instances) instance.worker.part(instance)
      const open = instances.filter(({ worker }) => !worker.threadless)
      await Promise.all(open.map(({ worker, sessionId }) => worker.link.close(sessionId)))
      for (const instance of instances) instance.release()
    }
    this.state = 'closed'
  }
}
