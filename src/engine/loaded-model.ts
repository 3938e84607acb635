import { servable, type Carrier, type ModelMetadata, type ValueMetadata } from '../tensor/metadata.ts'
import { warnOfLabels } from './classification.ts'
import { availableMemory } from '../base/available-resources.ts'
import type { ModelOrigin } from '../options/engine-options.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import { checkScaleOptions, type ScaleOptions } from '../options/method-options.ts'
import { inputsOfSequence } from '../options/sequence-config.ts'
import type { InferenceError } from '../errors.ts'
import { ThreadEndedError, type OpenedSession } from '../run/executors/executor.ts'
import { SampleFailed, WarmUp } from '../models/warm-up.ts'
import { RunTimes } from '../schedule/estimates.ts'
import { warmDecoder } from '../features/image/decode-image.ts'
import type { Leases } from '../features/leases/leases.ts'
import { ServedModel } from '../features/served-model.ts'
import {
  checkModelFile,
  checkOverridden,
  checkRowBytes,
  closedWhileLoading,
  loadFailure,
  lostWhileLoading,
  noDecoder,
  notAModel,
  unfitSample,
} from './load-failure.ts'
import type { Loaded, Opened } from './loaded.ts'
import { readModelProperties, type SaidOfModel } from '../onnx/model-properties.ts'
import { FeedParser } from '../request/feeds.ts'
import { Padding } from '../request/padding.ts'
import { RequestCosts } from '../request/request-costs.ts'
import { asksGraph, joiningAtLoad, readsGraph } from '../models/row-check/joining-at-load.ts'
import type { Joining } from '../schedule/joining.ts'
import { ModelRowCheck } from '../models/row-check/model-row-check.ts'
import { calibrateModel } from '../schedule/calibration.ts'
import { batchingOf, ObservedRequests } from '../schedule/observed-requests.ts'
import { Scheduler } from '../schedule/scheduler.ts'
import { SequenceInputs } from '../features/sequences/sequence-inputs.ts'
import { Sequences } from '../features/sequences/sequences.ts'
import { ModelInstances, OpenFailed } from '../models/scaling/model-instances.ts'
import { ScaleWatch, Scaling } from '../models/scaling/scaling.ts'
import { prove } from '../run/prover.ts'
import type { WorkerSession } from '../run/worker-session.ts'
import type { Worker } from '../run/worker.ts'
import { warn } from '../base/warnings.ts'

/** The sessions of a model: opens them, watches their state, and releases everything. */
export class LoadedModel implements Opened {
  readonly #loaded: Loaded
  readonly #name: string
  readonly #config: ResolvedConfig
  readonly #instances: ModelInstances
  #served: ServedModel | null = null
  #scaling: Scaling | null = null

  constructor(loaded: Loaded, config: ResolvedConfig) {
    const { name, engine, loadFor } = loaded
    this.#loaded = loaded
    this.#name = name
    this.#config = config
    const isWanted = () => loaded.state === 'loading' || loaded.state === 'ready'
    this.#instances = new ModelInstances(name, config, engine.host, isWanted, loadFor)
  }

  get origin(): ModelOrigin | null {
    return this.#instances.origin
  }

  get workers(): Worker[] {
    return [...this.#instances.serving, ...this.#instances.opening].map(({ session }) => session.worker)
  }

  get leases(): Leases | null {
    return this.#served?.leases ?? null
  }

  /** A serving session if there is one: the first instance may have been lost. */
  get session(): WorkerSession {
    const { serving } = this.#instances
    return (serving.find(({ session }) => session.ready) ?? serving[0]!).session
  }

  /** Opens every instance and warms it up. */
  async open(): Promise<void> {
    const instances = this.#instances
    try {
      await checkModelFile(this.#name, this.#config)
      const reading = this.#readProperties()
      // Nothing is known of its rows, and the process that tries it takes longer.
      if (this.#loaded.engine.host.triesAhead(this.#config) && asksGraph(this.#config))
        void prove(this.#config.path, [])
      const opened = await this.#open()
      await checkOverridden(this.#name, this.#config, opened)
      const tolerance = Math.max(...instances.opening.map((life) => life.tolerance))
      const said = await reading
      const served = {
        ...described(servable(this.#name, opened, opened.carrier), said, this.#config),
        executionProviders: this.#loaded.engine.host.providersOf(this.#config),
        properties: said?.properties ?? null,
      }
      checkRowBytes(this.#name, served, availableMemory().usableBytes)
      const joining = await joiningAtLoad(
        this.#name,
        this.#config,
        served,
        tolerance,
        instances.opening[0]!.session,
      )
      const decoder = this.#warmDecoder(joining)
      decoder.catch(() => {}) // handled when it is awaited
      const padding = Padding.of(joining.stacked, this.#config.padding)
      const parser = this.#parserOf(joining, opened.carrier, padding)
      const sequenceInputs =
        this.#config.sequence === null
          ? null
          : new SequenceInputs(joining.stacked, this.#config.sequence, parser)
      const warmUp = new WarmUp(joining.stacked, this.#config, parser, padding, joining)
      const rowCheck = joining.undecided
        ? new ModelRowCheck({ joining, config: this.#config, padding, parser, samples: warmUp.samples })
        : null
      const learnt = (about: string, value: string) => this.#instances.learnt({ [about]: value })
      await instances.warm(
        warmUp,
        rowCheck === null ? undefined : (session) => rowCheck.atLoad(session, learnt),
      )
      const runTimes = new RunTimes()
      const calibrate = (session: WorkerSession) =>
        calibrateModel(
          runTimes,
          this.#config,
          joining,
          warmUp.calibrationSample,
          (feeds) => {
            instances.checkWanted()
            return warmUp.form.run(session, feeds)
          },
          this.#served !== null,
        )
      await calibrate(instances.opening[0]!.session)
      await instances.reserve(joining.stacked)
      await decoder
      await this.#loaded.loadFor.accept?.()
      instances.checkOpen()
      this.#serve({ joining, parser, sequenceInputs, rowCheck, padding, runTimes, calibrate, warmUp })
      this.#instances.learnt(this.session.noted)
    } catch (error) {
      await instances.closeOpening()
      await instances.close()
      const isUnwanted = this.#loaded.state !== 'loading' && error instanceof ThreadEndedError
      if (isUnwanted) throw closedWhileLoading(this.#name)
      const unparsed =
        error instanceof OpenFailed && (await notAModel(this.#name, this.#config, error.cause as Error))
      throw unparsed || this.#typed(error as Error)
    }
  }

  /** The properties in the model's file, read while it opens; `null` if the file is not ONNX. */
  async #readProperties(): Promise<SaidOfModel | null> {
    const { function: fn, isSmallGraph, bytes, path } = this.#config
    if (fn !== null || isSmallGraph === true) return null
    return readModelProperties(bytes === null ? path : new Uint8Array(bytes))
  }

  /** Opens the instances with the available execution providers. */
  async #open(): Promise<OpenedSession> {
    const instances = this.#instances
    try {
      const [opened] = await instances.open(undefined, (session) => readsGraph(this.#config, session))
      return opened!
    } catch (error) {
      if (
        !(error instanceof OpenFailed) ||
        this.#loaded.state !== 'loading' ||
        !(await this.#loaded.engine.host.lacksProvider(this.#config))
      )
        throw error
    }
    instances.checkWanted()
    await instances.startAgain()
    return this.#open() // without the missing providers
  }

  /** The typed error for instances that could not be opened. */
  #typed(error: Error): InferenceError {
    if (error instanceof OpenFailed) return loadFailure(this.#name, this.#config, error.cause as Error)
    return error instanceof SampleFailed
      ? unfitSample(this.#name, error)
      : lostWhileLoading(this.#name, error)
  }

  /** Samples are parsed as rows, whatever the parser does with requests. */
  #parserOf(joining: Joining, { carriesNul }: Carrier, padding: Padding | null): FeedParser {
    const { optionalInputs, rejectNonFinite, maxBatchSize, sequence } = this.#config
    const options = {
      optionalInputs,
      padding,
      finiteOnly: rejectNonFinite === 'inputs',
      carriesNul,
      limited: maxBatchSize !== undefined,
      shaped: joining.shaped,
      bySequence: inputsOfSequence(sequence),
    }
    return new FeedParser(joining.stacked, options)
  }

  #serve(ready: ReadyModel): void {
    const { joining, parser, sequenceInputs, rowCheck, padding, runTimes, warmUp } = ready
    const loaded = this.#loaded
    const config = this.#config
    const { name, version } = loaded
    const { clock, keepAlive, observers, host, events } = loaded.engine
    const instances = this.#instances.opening.length
    const observed = new ObservedRequests(
      { name, version, metadata: joining.stacked, batching: batchingOf(config, joining, instances) },
      observers,
      config.preserveOrdering,
    )
    const scheduler = new Scheduler({
      joining,
      observed,
      rowCheck,
      padding,
      costs: RequestCosts.of(joining.stacked, config.cost, padding),
      runTimes,
      clock,
      keepAlive,
      config,
      instances,
      gaveUp: (reason) => loaded.fail(reason),
    })
    const sequences =
      sequenceInputs === null
        ? null
        : new Sequences({
            config: config.sequence!,
            inputs: sequenceInputs,
            parser,
            scheduler,
            staging: () => host.stagingOf(config),
            over: (event) => events.emit('sequence', { model: name, version, ...event }),
          })
    const served = new ServedModel(scheduler, parser, sequences, config, loaded.loadFor.ignored)
    loaded.served = this.#served = served
    this.#instances.serve(scheduler)
    rowCheck?.serve(() => this.session)
    this.#scaling = new Scaling(config, this.#instances, scheduler, warmUp)
    warnOfLabels(joining.metadata, joining.labels)
    loaded.become('ready')
    this.#watchScale(served, this.#scaling)
    this.#followJoining(served, ready)
  }

  /**
   * Reports each new verdict on joining, then calibrates and tunes for it. Both measure batches, so they begin only when the
   * check with made-up rows, which would disturb them, is over.
   */
  #followJoining(served: ServedModel, { joining, rowCheck, calibrate }: ReadyModel): void {
    const loaded = this.#loaded
    const { name, version } = loaded
    let settled = rowCheck?.checked ?? Promise.resolve()
    const follow = () => {
      settled = settled
        .then(() => (loaded.state === 'ready' ? calibrate(this.session) : undefined))
        .catch(() => {}) // its worker died, or the model is closing: requests show the same times
        .then(() => served.scaleWatch?.joiningKnown())
    }
    joining.onKnown = () => {
      if (loaded.state !== 'ready') return
      loaded.loadFor.changed({ type: 'joining', model: name, version })
      follow()
    }
    if (rowCheck !== null) follow()
  }

  async #warmDecoder({ images }: Joining): Promise<void> {
    if (images !== null)
      await warmDecoder(images.values()).catch((error: unknown) => {
        throw noDecoder(this.#name, this.#config, error)
      })
  }

  /** Reports changes in the number of instances, and starts autoscaling where configured. */
  #watchScale(served: ServedModel, scaling: Scaling): void {
    const { scheduler } = served
    const { name, version, engine, loadFor } = this.#loaded
    const watch = (served.scaleWatch = new ScaleWatch(
      this.#config,
      scaling,
      scheduler,
      engine.clock,
      (error) => this.#warnOfScaling(error),
    ))
    this.#instances.onGone = () => watch.lost()
    scaling.onChange = (changed) => {
      watch.changed()
      if (changed && this.#loaded.state === 'ready')
        loadFor.changed({ type: 'scaled', model: name, version, instances: scheduler.instances.size })
    }
  }

  #warnOfScaling(error: Error): void {
    if (this.#loaded.state !== 'ready') return
    const message = `Model '${this.#name}' could not be scaled to its load: ${this.#typed(error).message}`
    warn('ZEROHOP_NOT_SCALED', message)
  }

  async scale(options: ScaleOptions): Promise<void> {
    const { kind, count } = checkScaleOptions(this.#name, options)
    try {
      await this.#loaded.engine.keepAlive.during(this.#scaling!.scale(kind, count))
    } catch (error) {
      throw this.#typed(error as Error)
    }
  }

  stopOpening(): void {
    this.#instances.stopOpening()
  }

  stopChanging(): void {
    this.#served?.scaleWatch?.close()
    this.#served?.scheduler.rowCheck?.close()
    void this.#scaling?.stop()
  }

  async release(): Promise<void> {
    await this.#scaling?.stop()
    this.#served?.clear()
    await this.#instances.close()
  }
}

/** The parts that a load has made by the time its model serves. */
interface ReadyModel {
  readonly joining: Joining
  readonly parser: FeedParser
  readonly sequenceInputs: SequenceInputs | null
  readonly rowCheck: ModelRowCheck | null
  readonly padding: Padding | null
  readonly runTimes: RunTimes
  /** Measures runs as requests are joined now, if a latency target needs their times and they are not known. */
  readonly calibrate: (session: WorkerSession) => Promise<void>
  readonly warmUp: WarmUp
}

/**
 * Inputs and outputs with their configuration. The graphs of built-in functions accept the output of classifier heads,
 * `[rows, classes, 1, 1]`, as `[rows, classes]`.
 */
function described<Values extends Pick<ModelMetadata, 'inputs' | 'outputs'>>(
  values: Values,
  said: SaidOfModel | null,
  { isSmallGraph }: ResolvedConfig,
): Values {
  const withDescription = <Value extends ValueMetadata>(value: Value): Value => {
    const description = said?.descriptions.get(value.name)
    return description === undefined ? value : { ...value, description }
  }
  const inputs = values.inputs.map((input) =>
    withDescription(isSmallGraph === true ? { ...input, trailingOnes: true } : input),
  )
  return { ...values, inputs, outputs: values.outputs.map(withDescription) }
}
