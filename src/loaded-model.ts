import { stat } from 'node:fs/promises'
import { InferenceError, invalidArgument } from './errors.ts'
import { checkBatchDimension, defaultMaxBatchSize, isBatchable, servable, type ModelMetadata } from './metadata.ts'
import { ModelInstance, slotsPerInstance } from './instance/model-instance.ts'
import { SlotsAhead } from './instance/slots-ahead.ts'
import { Scheduler } from './scheduler/scheduler.ts'
import type { ModelLifecycle, ModelState } from './model.ts'
import { checkBatchSizes, type ResolvedConfig } from './config/resolve-model-config.ts'
import type { SchedulerHost } from './instance/scheduler-host.ts'
import { cudaDevice, sessionOptions, type Placement } from './config/session-options.ts'
import { calibrate } from './latency/calibration.ts'
import { FeedParser } from './request/feeds.ts'
import { Padding } from './request/padding.ts'
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
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  readonly #config: ResolvedConfig
  readonly #services: EngineServices
  readonly #placements = new Map<ModelInstance, Placement>()
  #warmups: readonly PreparedWarmup[] = []
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
    let ahead: SlotsAhead | null = null
    try {
      await this.#checkFile()
      const places = await this.#services.place(this.#config).catch((error: Error) => {
        throw error instanceof InferenceError ? error : this.#threadError(error)
      })
      this.#checkStillLoading()
      opened = await this.#openAll(places)
      this.#checkStillLoading()
      const metadata = this.#metadata(opened[0]!.session)
      const { optionalInputs, rejectNonFinite, warmup } = this.#config
      const padding = Padding.of(metadata, this.#config.padding)
      this.parser = new FeedParser(metadata, { optionalInputs, padding, finiteOnly: rejectNonFinite === 'inputs' })
      this.#warmups = prepareWarmup(metadata, this.parser, warmup)
      for (const { worker, sessionId } of opened) await this.#warmUp(worker, sessionId)
      const runTimes = await this.#calibrated(metadata, opened[0]!)
      ahead = await SlotsAhead.acquire(this.#services.staging(), metadata, opened, slotsPerInstance)
      this.#checkStillLoading()
      this.#serve(metadata, padding, runTimes, opened, ahead)
    } catch (error) {
      ahead?.release()
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

  #metadata(session: OpenedSession): ModelMetadata {
    const served = servable(this.name, session.inputs, session.outputs)
    const maxBatchSize = this.#config.maxBatchSize ?? (isBatchable(served) ? defaultMaxBatchSize : 0)
    checkBatchDimension(this.name, maxBatchSize, served)
    checkBatchSizes(this.name, this.#config, maxBatchSize)
    return Object.freeze({ name: this.name, path: this.#config.path, ...served, maxBatchSize })
  }

  async #warmUp(worker: Worker, sessionId: number): Promise<void> {
    for (const { feeds, count, required } of this.#warmups) {
      const { error } = await this.#run(worker, sessionId, feeds, count)
      if (error !== null && required) throw this.#loadError(`a warm-up sample failed: ${error}`, 'a failing sample')
    }
  }

  #run(worker: Worker, sessionId: number, feeds: PreparedWarmup['feeds'], count: number) {
    return worker.link.warmup(sessionId, feeds, count, this.#services.nextId()).catch((cause: Error) => {
      throw this.#threadError(cause)
    })
  }

  /** What runs take; measured beforehand where a latency target depends on it. */
  async #calibrated(metadata: ModelMetadata, { worker, sessionId }: Opened): Promise<RunTimes> {
    const runTimes = new RunTimes()
    const { latencyTargetMs, preferredBatchSizes, joinRequests, warmup } = this.#config
    const sample = this.#warmups[0] ?? (warmup === false ? undefined : zeros(metadata)[0])
    if (latencyTargetMs === 0 || sample === undefined) return runTimes
    const maxBatchSize = joinRequests ? metadata.maxBatchSize : Math.min(1, metadata.maxBatchSize)
    await calibrate(runTimes, sample, maxBatchSize, preferredBatchSizes, latencyTargetMs, (feeds, count) =>
      this.#run(worker, sessionId, feeds, count),
    )
    return runTimes
  }

  #serve(metadata: ModelMetadata, padding: Padding | null, runTimes: RunTimes, opened: readonly Opened[], ahead: SlotsAhead): void {
    this.scheduler = new Scheduler(metadata, padding, this.#config, runTimes, opened.length, this)
    for (const [index, { worker, placement, sessionId }] of opened.entries()) {
      const instance = new ModelInstance(this.scheduler, `${this.name}_${index}`, worker, sessionId, this.#config.weight)
      instance.adopt(ahead.byInstance[index]!)
      this.#placements.set(instance, placement)
      this.scheduler.instances.push(instance)
      worker.join(instance)
    }
    this.state = 'ready'
  }

  // ── for the scheduler ──

  acquire(byteLength: number, instance: ModelInstance) {
    return this.#services.staging().acquire(byteLength, cudaDevice(this.#placements.get(instance)!))
  }

  nextSlotId(): number {
    return this.#services.nextId()
  }

  async reopen(instance: ModelInstance): Promise<void> {
    const options = sessionOptions(this.#config, this.#placements.get(instance)!)
    await instance.worker.link.open(instance.sessionId, this.#config.path, options)
    await this.#warmUp(instance.worker, instance.sessionId)
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
    if (this.scheduler !== null) {
      await this.scheduler.drained()
      const instances = [...this.#placements.keys()]
      for (const instance of instances) {
        instance.worker.part(instance)
        instance.release() // before the worker lets go, so that it is the worker's thread that frees the memory
      }
      await Promise.all(instances.map(({ worker, sessionId }) => (worker.threadless ? undefined : worker.link.close(sessionId))))
    }
    this.state = 'closed'
  }
}
