import { createHash } from 'node:crypto'
import { serialize } from 'node:v8'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { ThreadEndedError, type SampleRun } from '../../run/executors/executor.ts'
import { libraryVersion } from '../../base/own-package.ts'
import { elementCount, type TensorData } from '../../tensor/tensor.ts'
import { mailedElements } from '../../tensor/elements.ts'
import { batchAxisOf } from '../../tensor/metadata.ts'
import type { FeedParser } from '../../request/feeds.ts'
import type { InferRequest } from '../../request/infer-request.ts'
import type { Padding } from '../../request/padding.ts'
import type { RowProof, RowQuestion } from '../../onnx/row-proof/prove-rows.ts'
import type { WorkerSession } from '../../run/worker-session.ts'
import type { Worker } from '../../run/worker.ts'
import {
  ask,
  type AskedSession,
  knownElements,
  mostElements,
  questionOf,
  rulesRevision,
} from './joining-at-load.ts'
import { maxBuckets, type Joining, type RowVerdict } from '../../schedule/joining.ts'
import type { PreparedWarmup } from '../warm-up.ts'
import { isMailedTensor } from '../../tensor/values.ts'
import { KeptRequests, type KeptShape } from './kept-requests.ts'
import { checkRequests, checkRows } from './row-check.ts'
import { RowForm, rowsIn, singleRows, type TrialFeeds } from './trial-feeds.ts'

/** A session that runs trials. */
export type TriedSession = AskedSession &
  Pick<WorkerSession, 'runSample'> & { readonly worker: Pick<Worker, 'busyShare'> }

/** The part of a request's input that the proof uses. */
interface GivenInput {
  readonly dims: readonly (number | string)[]
  readonly elements: readonly number[] | null
}

/** The model of a {@link ModelRowCheck}. */
interface CheckedModel {
  readonly joining: Joining
  readonly config: ResolvedConfig
  readonly padding: Padding | null
  readonly parser: FeedParser
  /** Warm-up samples of the model, in the form of trials. */
  readonly samples: readonly Pick<PreparedWarmup, 'feeds' | 'bucketKey'>[]
}

/** Most rows of warm-up samples that take part. */
const maxSamples = 4
/** Trials of requests without a result after which the question stays open. */
const maxTrials = 4
/** Consecutive buckets without a proof after which the graph is asked no more. */
const maxUnknown = 64
/** Requests run alone after which an undecided model gives a warning. */
const patience = 256
/** The first requests that are all kept if they differ; of later ones only a sample is kept. */
const attentiveFor = 64
const lookAtEvery = 16

/**
 * Finds out whether rows of a model are independent, if the graph cannot tell by itself.
 *
 * 1. The graph is asked again with the lengths of each bucket.
 * 2. Generated rows are run, for a limited time of the load and then while the model serves.
 * 3. The first different requests of a shape are run again, alone and batched, one run at a time between other work.
 *
 * Until this is decided, requests run alone.
 */
export class ModelRowCheck {
  readonly #model: CheckedModel
  readonly #joining: Joining
  readonly #form: RowForm
  readonly #runs = new PacedRuns()
  readonly #kept: KeptRequests
  /** The answers of the graph by bucket; `null` while it is asked. */
  readonly #buckets = new Map<string, RowProof['rows'] | null>()
  /** Resolves when the check that needs no requests is over, or has failed. */
  checked: Promise<void> = Promise.resolve()
  #session!: () => TriedSession
  /** Consecutive buckets without an answer. */
  #unknown = 0
  #seen = 0
  #alone = 0
  #trials = 0
  #isAsking = false
  /** Whether a run of the check is in progress, or must come before trials of requests. */
  #busy = false
  /** Whether no further trials are needed. */
  #isOver: boolean

  constructor(model: CheckedModel) {
    const { joining, samples } = model
    this.#model = model
    this.#joining = joining
    this.#form = new RowForm(joining.stacked, samples[0]?.feeds ?? null)
    this.#kept = new KeptRequests(joining.stacked)
    this.#isOver = !joining.isToRun
  }

  /**
   * Starts the check during a load, with generated rows and those of the warm-up samples.
   *
   * @param session of one of the instances. Its notes keep the results, for others that share it.
   * @param learnt called with the results.
   * @returns whether this has warmed up the instance.
   */
  async atLoad(session: TriedSession, learnt: (about: string, value: string) => void): Promise<boolean> {
    this.#session = () => session
    const { samples } = this.#model
    for (const { feeds, bucketKey } of samples) await this.#askOfSample(feeds, bucketKey)
    const isProved =
      samples.length > 0 && samples.every(({ bucketKey }) => this.#buckets.get(bucketKey) === 'independent')
    if (this.#isOver || !this.#joining.undecided || isProved) return false
    const key = this.#noteKey()
    const known = readVerdict(session.note(key))
    if (known !== null) {
      this.#foundAtLoad(known)
      return true
    }
    this.#busy = true
    let hasRun = true
    const done = this.#checkMadeUp().then((verdict) => {
      hasRun = verdict.runs > 0
      this.#foundAtLoad(verdict)
      if (verdict.largestDifference === null) return
      session.setNote(key, writeVerdict(verdict))
      learnt(key, writeVerdict(verdict))
    })
    const over = (): void => {
      this.#busy = false
      this.#tryNext()
    }
    this.checked = done.then(over, over) // a failed load is reported; while the model serves, the first requests may decide
    await Promise.race([done, this.#runs.paused])
    return hasRun
  }

  /** The model serves now; `session` returns one of its sessions. */
  serve(session: () => TriedSession): void {
    this.#session = session
    this.#runs.serve()
  }

  /** The model is closing: gives up the rest of the check, before accepted requests are finished. */
  close(): void {
    this.#isOver = true
    this.#runs.close()
  }

  /** Must be called with answered requests before their callers are notified, who may then change the data. */
  served(requests: readonly InferRequest[]): void {
    if (!this.#joining.undecided) return
    for (const request of requests) if (request.rows > 0) this.#look(request)
  }

  /** A model that stays undecided for long should cost next to nothing. */
  #look(request: InferRequest): void {
    const isLookedAt = ++this.#seen <= attentiveFor || this.#seen % lookAtEvery === 0
    if (request.whole && ++this.#alone % patience === 0 && !this.#busy) this.#joining.staysUnknown()
    if (!this.#joining.asksOfBuckets && (!isLookedAt || this.#isOver)) return
    const key = request.whole ? this.#model.parser.rowKeyOf(request) : request.bucketKey
    if (key === null) return
    const found = this.#ofBucket(key, request)
    if (!isLookedAt || this.#isOver || found === 'independent' || found === 'dependent' || this.#joins(key))
      return
    this.#kept.keep(request, key)
    this.#tryNext()
  }

  /** Whether requests of a bucket may share batches. */
  #joins(key: string): boolean {
    return !this.#joining.declared && this.#joining.byRow && this.#joining.joinedBuckets?.has(key) !== false
  }

  /** The answer of the graph for a bucket. It is asked if the lengths of its rows are new. */
  #ofBucket(key: string, { data, dims }: InferRequest): RowProof['rows'] | null {
    if (!this.#joining.asksOfBuckets) return 'unknown'
    const found = this.#buckets.get(key)
    if (found !== undefined) {
      this.#buckets.delete(key)
      this.#buckets.set(key, found) // moves to the end: the least recently used one is forgotten first
      return found
    }
    if (this.#isAsking) return null
    if (this.#unknown >= maxUnknown) {
      this.#note(key, 'unknown')
      return 'unknown'
    }
    const { inputs } = this.#joining.shaped.served
    const given = data.map((values, index): GivenInput | null => {
      if (values === null) return null
      const { type, shape } = inputs[index]!
      const elements = knownElements(type, values as TensorData | readonly string[]) // other buckets are not batched
      return { dims: dims?.[index] ?? shape, elements }
    })
    this.#isAsking = true // one at a time: the thread may be serving
    const asked = this.#askOfBucket(key, given, (questions) => this.#session().prove(questions)).catch(() =>
      this.#buckets.delete(key),
    ) // its thread has ended
    void asked.then(() => (this.#isAsking = false))
    return null
  }

  async #askOfSample(feeds: PreparedWarmup['feeds'], bucketKey: string): Promise<void> {
    const given = feeds.map((feed, index): GivenInput | null => {
      if (feed === null || !isMailedTensor(feed)) return null
      const dims = this.#ownDims(index, feed.dims)
      const count = elementCount(dims)
      const isShared = batchAxisOf(this.#joining.stacked.inputs[index]!) === -1
      const isUsed = isShared && count <= mostElements
      return {
        dims,
        elements: isUsed ? knownElements(feed.type, mailedElements(feed).slice(0, count)) : null,
      }
    })
    await this.#askOfBucket(bucketKey, given, (questions) => ask(this.#session(), questions))
  }

  async #askOfBucket(
    key: string,
    given: readonly (GivenInput | null)[],
    prove: (questions: readonly RowQuestion[]) => Promise<readonly RowProof[]>,
  ): Promise<void> {
    const { shaped } = this.#joining
    if (!this.#joining.asksOfBuckets || this.#buckets.has(key)) return
    this.#note(key, null)
    const shapeOf = (index: number): readonly (number | string)[] | null => {
      const own = given[index] ?? null
      const { shape } = shaped.served.inputs[index]!
      const axisOfRows = batchAxisOf(shaped.served.inputs[index]!)
      return (
        own &&
        shape.map((dim, axis) => (axis === axisOfRows || this.#isPadded(index, axis) ? dim : own.dims[axis]!))
      )
    }
    const [proof] = await prove([questionOf(shaped, shapeOf, (index) => given[index]?.elements ?? null)])
    if (!this.#buckets.has(key)) return // forgotten meanwhile
    this.#buckets.set(key, proof!.rows)
    this.#unknown = proof!.rows === 'unknown' ? this.#unknown + 1 : 0
    this.#joining.foundOfBucket(key, proof!)
    if (proof!.rows !== 'unknown') this.#kept.drop(key)
    this.#tryNext()
  }

  #note(key: string, found: 'unknown' | null): void {
    this.#buckets.set(key, found)
    if (this.#buckets.size <= maxBuckets) return
    const oldest = this.#buckets.keys().next().value!
    this.#buckets.delete(oldest)
    this.#kept.drop(oldest)
    this.#joining.forget(oldest)
  }

  #isPadded(index: number, axis: number): boolean {
    const { padding } = this.#model
    return padding?.inputs.some((input) => input.index === index && input.axis === axis) === true
  }

  /** Dims in the model's form, from those in the form of trials. */
  #ownDims(index: number, dims: readonly number[]): readonly number[] {
    const axis = batchAxisOf(this.#joining.stacked.inputs[index]!)
    const [rows, ...others] = dims
    return axis === -1 ? others : [...others.slice(0, axis), rows!, ...others.slice(axis)]
  }

  #checkMadeUp(): Promise<RowVerdict> {
    const { inputs, outputs, maxBatchSize } = this.#form.metadata
    const { config, padding, samples } = this.#model
    const setup = {
      maxBatchSize,
      samples: samples
        .flatMap(({ feeds }) => singleRows(feeds as TrialFeeds, maxSamples))
        .slice(0, maxSamples),
      padding,
      tolerance: this.#joining.tolerance,
      isForWarning: this.#joining.declared,
      optionalInputs: config.optionalInputs,
    }
    return checkRows({ inputs, outputs: this.#neededOf(outputs) }, setup, (feeds) =>
      this.#run(this.#form, feeds),
    )
  }

  /** Everything that a check with generated rows depends on, besides the model. */
  #noteKey(): string {
    const { inputs, outputs, maxBatchSize } = this.#form.metadata
    const { tolerance, declared, shaped } = this.#joining
    const { config, samples } = this.#model
    const asked: unknown[] = [
      maxBatchSize,
      declared,
      inputs.map(({ type, shape }) => [type, shape]),
      config.padding,
      config.optionalInputs,
      tolerance,
      shaped.needed,
      this.#form.axes,
      outputs.flatMap(({ rows }, index) => (rows === undefined ? [] : [{ index, rows }])),
    ]
    if (samples.length > 0) {
      const content = serialize(samples.map(({ feeds }) => feeds))
      asked.push(createHash('sha256').update(content).digest('hex'))
    }
    return `checked ${libraryVersion}.${rulesRevision} ${JSON.stringify(asked)}`
  }

  /** Generated rows have the form of the first sample, if there is one. */
  #foundAtLoad(verdict: RowVerdict): void {
    this.#found(verdict, this.#model.samples[0]?.bucketKey ?? null)
  }

  #found(verdict: RowVerdict, bucket: string | null, isLast = false): void {
    if (this.#runs.isClosed) return // it is given up
    this.#isOver ||=
      isLast || verdict.rows === 'dependent' || (verdict.rows === 'independent' && !this.#joining.isByBucket)
    this.#joining.found(verdict, bucket, this.#isOver)
    if (this.#isOver || !this.#joining.undecided) this.#kept.clear()
    else if (bucket !== null) this.#kept.drop(bucket)
  }

  /** Tries requests of a shape that has enough of them, and for which the graph has no proof. */
  #tryNext(): void {
    if (this.#busy || this.#isOver || !this.#joining.undecided) return
    for (const shape of this.#kept.shapes) {
      if (
        shape.isEnough &&
        (!this.#joining.asksOfBuckets || this.#buckets.get(shape.bucketKey) === 'unknown')
      )
        return void this.#try(shape)
    }
  }

  async #try({ requests, bucketKey }: KeptShape): Promise<void> {
    this.#busy = true
    this.#runs.begin()
    const { stacked, tolerance } = this.#joining
    try {
      const inRows = requests.map((feeds) => this.#form.rowsOf(feeds) as TrialFeeds)
      const form = new RowForm(stacked, inRows[0]!) // all of them have equal values in shared inputs
      const { inputs, outputs, maxBatchSize } = form.metadata
      const verdict = await checkRequests(
        { inputs, outputs: this.#neededOf(outputs) },
        inRows,
        maxBatchSize,
        tolerance,
        (feeds) => this.#run(form, feeds),
      )
      this.#found(verdict, bucketKey, verdict.rows === 'unknown' && ++this.#trials >= maxTrials)
    } catch {
      // The worker died in this run, or the model is closing: the next requests may decide.
      this.#isOver ||= ++this.#trials >= maxTrials
    }
    this.#kept.drop(bucketKey)
    this.#busy = false
    this.#tryNext()
  }

  #run(form: RowForm, feeds: TrialFeeds): Promise<SampleRun> {
    const busyShare = () => this.#session().worker.busyShare
    return this.#runs.run(feeds, busyShare, async (own) => {
      const run = await form.run(this.#session(), own, true)
      return run.error === null ? { ...run, outputs: this.#neededOf(run.outputs) } : run
    })
  }

  /** The values of outputs that a batch is split by. */
  #neededOf<T>(values: readonly T[]): T[] {
    return this.#joining.shaped.needed.map((index) => values[index]!)
  }
}

/** As text: the difference may be infinite, which JSON cannot express. */
function writeVerdict({ rows, largestDifference, reason }: RowVerdict): string {
  return JSON.stringify([rows, String(largestDifference), reason])
}

function readVerdict(text: string): RowVerdict | null {
  if (text === '') return null
  const [rows, largestDifference, reason] = JSON.parse(text) as [RowVerdict['rows'], string, string]
  return { rows, largestDifference: Number(largestDifference), reason, runs: 0 }
}

/** Milliseconds of trials that a load waits for; the rest runs while the model serves. */
const budgetMs = 40
/**
 * After this many milliseconds of trials the check pauses for as long as they took, or for less on a worker that is less busy.
 * Between pauses, trials take turns with batches.
 */
const sliceMs = 5
/**
 * The check makes no pauses while it is behind schedule: {@link usualTrials} trials in this many milliseconds, or in
 * {@link dueRuns} runs of one row if those take longer.
 */
const dueMs = 5000
const dueRuns = 20
const usualTrials = 70

/**
 * Runs trials one after the other. During a load there are no pauses until the time budget is spent; after that, trials
 * run between other work.
 */
class PacedRuns {
  /** Resolves when the load need not wait any longer. */
  readonly paused: Promise<void>
  readonly #startMs = performance.now()
  readonly #resumed: Promise<void>
  #pause!: () => void
  #resume!: () => void
  #endPause = (): void => {}
  #isServing = false
  isClosed = false
  #sliceMs = 0
  /** When the model began to serve, or a check of requests began. */
  #fromMs = 0
  #trials = 0
  /** Milliseconds of the shortest run of a row. */
  #rowMs = Infinity

  constructor() {
    this.paused = new Promise((resolve) => (this.#pause = resolve))
    this.#resumed = new Promise((resolve) => (this.#resume = resolve))
  }

  /** The model serves: trials start or continue between other work. */
  serve(): void {
    this.#isServing = true
    this.begin()
    this.#resume()
  }

  close(): void {
    this.isClosed = true
    this.#resume()
    this.#endPause()
  }

  /** A check begins. */
  begin(): void {
    this.#fromMs = performance.now()
    this.#trials = 0
  }

  /** Runs a trial when it is its turn; rejects after `close()`. */
  async run(
    feeds: TrialFeeds,
    busyShare: () => number,
    trial: (feeds: TrialFeeds) => Promise<SampleRun>,
  ): Promise<SampleRun> {
    if (!this.#isServing && performance.now() - this.#startMs > budgetMs) {
      this.#pause()
      await this.#resumed
    }
    if (this.#sliceMs >= sliceMs) await this.#breathe(busyShare())
    if (this.isClosed) throw new ThreadEndedError()
    const startMs = performance.now()
    const result = await trial(feeds)
    this.#trials++
    if (result.error === null) this.#rowMs = Math.min(this.#rowMs, result.runMs / Math.max(1, rowsIn(feeds)))
    if (this.#isServing) this.#sliceMs += result.error === null ? result.runMs : performance.now() - startMs
    return result
  }

  get #isLate(): boolean {
    const withinMs = Math.max(dueMs, dueRuns * this.#rowMs)
    return performance.now() - this.#fromMs > (withinMs * this.#trials) / usualTrials
  }

  async #breathe(busyShare: number): Promise<void> {
    const pauseMs = this.#sliceMs * busyShare
    this.#sliceMs = 0
    if (this.#isLate) return
    await new Promise<void>((resolve) => {
      this.#endPause = resolve
      setTimeout(resolve, pauseMs).unref()
    })
  }
}
