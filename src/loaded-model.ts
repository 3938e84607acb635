import { stat } from 'node:fs/promises'
import type { Clock } from './clock.ts'
import { checkBatchSizes, type ResolvedConfig } from './config/resolve-model-config.ts'
import { sessionOptions, type Placement } from './config/session-options.ts'
import { InferenceError, invalidArgument } from './errors.ts'
import { ThreadEndedError, type OpenedSession } from './executor/executor.ts'
import { ModelInstance, type SlotSource } from './instance/model-instance.ts'
import { prepareWarmup, zeros, type PreparedWarmup } from './instance/warm-up.ts'
import { calibrate } from './latency/calibration.ts'
import { RunTimes } from './latency/run-times.ts'
import type { StagingPool } from './memory/staging-pool.ts'
import { checkBatchDimension, defaultMaxBatchSize, isBatchable, servable, type ModelMetadata } from './metadata.ts'
import type { Model, ModelLifecycle, ModelState } from './model.ts'
import { FeedParser } from './request/feeds.ts'
import { Padding } from './request/padding.ts'
import { Scheduler } from './scheduler/scheduler.ts'
import type { KeepAlive } from './workers/keep-alive.ts'
import { WorkerSession } from './workers/worker-session.ts'
import type { Worker } from './workers/worker.ts'

/** What the engine lends to the models it loads. */
export interface EngineServices {
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  staging(): StagingPool
  nextId(): number
  /** Chooses a worker for every instance and calls `place` for each; resolves when their threads have started. */
  place(config: ResolvedConfig, place: (worker: Worker, placement: Placement) => void): Promise<void>
}

/** One model's life in an engine: opens its sessions, watches its state, releases it all. */
export class LoadedModel implements ModelLifecycle {
  readonly name: string
  state: ModelState = 'loading'
  failure: string | null = null
  scheduler: Scheduler | null = null
  parser: FeedParser | null = null
  readonly splitsOversized: boolean
  /** Set once by the engine; what callers hold. */
  facade!: Model
  readonly #config: ResolvedConfig
  readonly #services: EngineServices
  readonly #sessions: WorkerSession[] = []
  #instances: readonly ModelInstance[] = []
  #warmups: readonly PreparedWarmup[] = []
  #pageLocked = false
  #loading: Promise<void> = Promise.resolve()
  #closing: Promise<void> | null = null

  constructor(name: string, config: ResolvedConfig, services: EngineServices) {
    this.name = name
    this.splitsOversized = config.splitOversized
    this.#config = config
    this.#services = services
  }

  /** Opens every instance and warms it; `ready` afterwards. Rejects with a typed error, with nothing left open. */
  load(): Promise<void> {
    const loading = this.#services.keepAlive.during(this.#load())
    this.#loading = loading.catch(() => {})
    return loading
  }

  async #load(): Promise<void> {
    try {
      await this.#checkFile()
      const [opened] = await this.#openAll()
      this.#checkStillLoading()
      const metadata = this.#metadata(opened!)
      const { optionalInputs, rejectNonFinite, warmup } = this.#config
      const padding = Padding.of(metadata, this.#config.padding)
      this.parser = new FeedParser(metadata, { optionalInputs, padding, finiteOnly: rejectNonFinite === 'inputs' })
      this.#warmups = prepareWarmup(metadata, this.parser, warmup)
      for (const session of this.#sessions) await this.#warmUp(session)
      const runTimes = await this.#calibrated(metadata, this.#sessions[0]!)
      this.#checkStillLoading()
      this.#serve(metadata, padding, runTimes)
    } catch (error) {
      await Promise.all(this.#sessions.map((session) => session.close()))
      if (this.state !== 'loading') throw error instanceof ThreadEndedError ? this.#closedWhileLoading() : this.#typed(error as Error)
      this.state = 'failed'
      const failure = this.#typed(error as Error)
      this.failure = failure.message
      throw failure
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
    if (this.state !== 'loading') throw this.#closedWhileLoading()
  }

  #closedWhileLoading(): InferenceError {
    return new InferenceError('ERR_CLOSED', `Model '${this.name}' was closed while it was loading.`, { model: this.name })
  }

  async #openAll(): Promise<OpenedSession[]> {
    const { path } = this.#config
    await this.#services.place(this.#config, (worker, placement) => {
      if (placement.kind === 'cuda') this.#pageLocked = true
      this.#sessions.push(new WorkerSession(this.#services.nextId(), worker, { path, options: sessionOptions(this.#config, placement) }))
    })
    this.#checkStillLoading()
    const results = await Promise.allSettled(this.#sessions.map((session) => session.open()))
    const failed = results.find((result) => result.status === 'rejected')
    if (failed === undefined) return results.map((result) => (result as PromiseFulfilledResult<OpenedSession>).value)
    if (failed.reason instanceof ThreadEndedError) throw failed.reason
    const { message } = failed.reason as Error
    throw /executionprovider/i.test(message) ? this.#providerError(failed.reason) : this.#loadError(message.trim(), path, failed.reason)
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

  #typed(error: Error): InferenceError {
    if (error instanceof InferenceError) return error
    const details = { code: 'ERR_MODEL_LOAD', model: this.name, cause: error } as const
    return invalidArgument('workers', 'a worker thread that stays', error.message, details)
  }

  #metadata(session: OpenedSession): ModelMetadata {
    const served = servable(this.name, session.inputs, session.outputs)
    const maxBatchSize = this.#config.maxBatchSize ?? (isBatchable(served) ? defaultMaxBatchSize : 0)
    checkBatchDimension(this.name, maxBatchSize, served)
    checkBatchSizes(this.name, this.#config, maxBatchSize)
    return Object.freeze({ name: this.name, path: this.#config.path, ...served, maxBatchSize })
  }

  async #warmUp(session: WorkerSession): Promise<void> {
    for (const { feeds, count, required } of this.#warmups) {
      for (let run = 0; run < count; run++) {
        const { error } = await session.runSample(feeds)
        if (error === null) continue
        if (required) throw this.#loadError(`a warm-up sample failed: ${error}`, 'a failing sample')
        break
      }
    }
  }

  /** What runs take; measured beforehand where a latency target depends on it. */
  async #calibrated(metadata: ModelMetadata, session: WorkerSession): Promise<RunTimes> {
    const runTimes = new RunTimes()
    const { latencyTargetMs, preferredBatchSizes, joinRequests, warmup } = this.#config
    const sample = this.#warmups[0] ?? (warmup === false ? undefined : zeros(metadata)[0])
    if (latencyTargetMs === 0 || sample === undefined) return runTimes
    const maxBatchSize = joinRequests ? metadata.maxBatchSize : Math.min(1, metadata.maxBatchSize)
    await calibrate(runTimes, sample, maxBatchSize, preferredBatchSizes, latencyTargetMs, (feeds) => session.runSample(feeds))
    return runTimes
  }

  #serve(metadata: ModelMetadata, padding: Padding | null, runTimes: RunTimes): void {
    const { clock, keepAlive } = this.#services
    const gaveUp = (reason: string) => this.#gaveUp(reason)
    const scheduler = new Scheduler({
      metadata, padding, runTimes, clock, keepAlive, gaveUp, config: this.#config, instances: this.#sessions.length,
    }) // prettier-ignore
    this.scheduler = scheduler
    const slots: SlotSource = {
      nextSlotId: () => this.#services.nextId(),
      acquire: (byteLength) => this.#services.staging().acquire(byteLength, this.#pageLocked),
    }
    this.#instances = this.#sessions.map((session, index) => {
      const instance = new ModelInstance(scheduler, `${this.name}_${index}`, session, this.#config.weight, slots)
      scheduler.instances.add(instance)
      session.serve(instance, {
        reopened: () => {
          instance.forgetLayouts()
          return this.#warmUp(session)
        },
        abandoned: (reason) => scheduler.abandoned(instance, reason),
      })
      return instance
    })
    this.state = 'ready'
  }

  #gaveUp(reason: string): void {
    if (this.state === 'closed') return
    this.state = 'failed'
    this.failure = reason
  }

  /** Takes no more requests, finishes those accepted (or rejects those waiting), releases everything. */
  close(dropWaiting: boolean): Promise<void> {
    if (dropWaiting) this.scheduler?.rejectWaiting()
    this.#closing ??= this.#services.keepAlive.during(this.#close())
    return this.#closing
  }

  async #close(): Promise<void> {
    const wasLoading = this.state === 'loading'
    if (this.state !== 'failed') this.state = 'draining'
    if (wasLoading) for (const session of this.#sessions) void session.close()
    await this.#loading
    await this.scheduler?.drained()
    await Promise.all(this.#sessions.map((session) => session.close()))
    for (const instance of this.#instances) instance.release()
    this.state = 'closed'
  }
}
