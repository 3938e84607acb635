import { noOptions, type CheckedOptions } from '../options/infer-options.ts'
import { resolveImageInput, type ResolvedImageOptions } from '../options/image-options.ts'
import { checkBatchSizes, type ResolvedConfig } from '../options/model-config.ts'
import { invalidConfig, type InferenceError } from '../errors.ts'
import {
  batchAxisOf,
  defaultMaxBatchSize,
  mostRowsOfShortRuns,
  checkBatchDimension,
  notStackable,
  type ModelMetadata,
  type RowJoining,
  type ValueMetadata,
} from '../tensor/metadata.ts'
import type { BatchAxes } from '../request/batch-axes.ts'
import { shapeTensors, type ShapedTensors } from '../request/shaped-tensors.ts'
import { mostRows } from '../onnx/row-proof/dims.ts'
import { severalEntries } from '../onnx/row-proof/not-proved.ts'
import type { RowProof } from '../onnx/row-proof/prove-rows.ts'
import { warn, type WarningCode } from '../base/warnings.ts'
import { byteLengthOf, elementCount, isElementType } from '../tensor/tensor.ts'

/**
 * By how much a float of a row that ran beside others may differ from the same row alone, relative to the largest value
 * of its row. ONNX Runtime chooses kernels by batch size, and they sum in another order, which changes the last digits. A row
 * that depends on others changes by far more, as the rows of a trial have very different scales. Values that are not floats
 * have to be equal.
 */
export const floatTolerance = 1e-3

/** The result of a check by running; a `declared` model is checked like any other. */
export interface RowVerdict extends Pick<RowJoining, 'largestDifference' | 'reason'> {
  readonly rows: 'independent' | 'dependent' | 'unknown'
  /** Runs it took. */
  readonly runs: number
}

/** What a session reports about its model. */
export type Served = Pick<ModelMetadata, 'inputs' | 'outputs' | 'unservableOutputs' | 'executionProviders'> &
  Partial<Pick<ModelMetadata, 'properties'>>

/** What is known of a model's rows before it serves. */
export interface KnownRows {
  /** By how much a float may differ in one run with others, relative to the largest of its row. */
  readonly tolerance?: number
  /** The graph's proof; `null` if the graph was not asked. */
  readonly proof?: RowProof | null
  /** Where its rows are, if the graph shows it. */
  readonly axes?: BatchAxes | null
  /** Why its requests are not joined as long as the graph proves `axes` of no bucket; left out where they are known. */
  readonly unproved?: string
}

/**
 * Most bytes of the rows of a batch, inputs and outputs together, by declared shapes, if neither `maxBatchSize` nor preferred
 * sizes are given. Larger batches are no faster, and take long to gather.
 */
const mostBatchBytes = 2 ** 28

/** Most rows of a batch of a model without `maxBatchSize`. */
function rowsByDefault(
  { defaultMaxBatchSize: rows = defaultMaxBatchSize, preferredBatchSizes, sequence }: ResolvedConfig,
  { inputs, outputs }: Pick<ModelMetadata, 'inputs' | 'outputs'>,
): number {
  const most = Math.min(rows, mostRows)
  if (sequence?.direct !== undefined) return most // as many sequences have slots
  const rowBytes = [...inputs, ...outputs].reduce((sum, value) => sum + rowBytesOf(value), 0)
  const fitting = Math.max(1, preferredBatchSizes.at(-1) ?? 1, Math.floor(mostBatchBytes / rowBytes))
  return Math.min(most, fitting)
}

/** Bytes of a row; variable dimensions count as 1, and what all rows share as nothing. */
function rowBytesOf(value: ValueMetadata): number {
  const { type, shape } = value
  const axisOfRows = batchAxisOf(value)
  if (axisOfRows === -1 || !isElementType(type)) return 0
  const dims = shape.map((dim, axis) => (typeof dim === 'number' && axis !== axisOfRows ? dim : 1))
  return byteLengthOf(type, elementCount(dims))
}

/** Most buckets whose verdicts are kept. */
export const maxBuckets = 1024
/** How a reason ends while the check by running has found nothing. */
const notRunYet = 'nothing has been run yet'
const dependentRows = 'ZEROHOP_DEPENDENT_ROWS'
const dividesEntries =
  'where entries belong to rows otherwise, as the boxes of a detector do, outputs: [{ name, rows }] says how (docs/guide/detectors.md)'
/** Operators whose number of entries depends on the data. */
const givesEntries = /^(NonMaxSuppression|NonZero|Compress|Unique)\b/

/** What is known of the rows of a bucket. */
interface KnownBucket {
  readonly how: 'proved' | 'checked'
  readonly joins: boolean
}

/**
 * Whether a model's requests may share runs. What the user declares counts first, then what its graph proves, then what runs
 * show. The verdict may change while the model serves: {@link Joining.metadata} is a new object then.
 */
export class Joining {
  /** The model as it would be if its requests were joined, by which batches are laid out. */
  readonly stacked: ModelMetadata
  /** The model's tensors as it has them, and as requests have them. */
  readonly shaped: ShapedTensors
  /** Names of classes by output, of those that have them. */
  readonly labels: ReadonlyMap<string, readonly string[]>
  /** Of inputs that take encoded images, how those become rows; `null` without any. */
  readonly images: ReadonlyMap<string, ResolvedImageOptions> | null
  /** The options of a request that gives none. */
  readonly plainOptions: CheckedOptions
  /** Most rows of short runs, if they may be more than others at all. */
  readonly #rowsOfShortRuns: number
  /** Whether the user said that rows are independent. */
  readonly declared: boolean
  readonly tolerance: number
  /** Whether only requests show all lengths (besides the number of rows), or the values that their rows share. */
  readonly isOpen: boolean
  /** Whether a verdict holds for one bucket only. */
  readonly isByBucket: boolean
  /** Whether the graph is asked of each bucket. */
  readonly asksOfBuckets: boolean
  /** Whether runs may decide what the graph leaves open. */
  readonly isToRun: boolean
  /** Called when {@link Joining.byRow}, or {@link Joining.joinedBuckets}, changes. */
  onChange: () => void = () => {}
  /** Called when `metadata.joining.rows` has changed. */
  onKnown: () => void = () => {}
  readonly #proof: RowProof | null
  readonly #never: boolean
  readonly #hasLengths: boolean
  readonly #warned = new Set<string>()
  readonly #buckets = new Map<string, KnownBucket>()
  /** Of the buckets that are joined. */
  readonly #joined = { has: (key: string) => this.#buckets.get(key)?.joins === true }
  #metadata: ModelMetadata
  #undecided: boolean
  #refuted = false

  /** @throws InferenceError `ERR_MODEL_CONFIG` when the batch size, or what is said of its tensors, does not fit the model. */
  constructor(
    name: string,
    config: ResolvedConfig,
    opened: Served,
    { tolerance = floatTolerance, proof = null, axes = null, unproved }: KnownRows = {},
  ) {
    this.shaped = shapeTensors(name, config, opened, axes)
    const { served, batched, offered } = this.shaped
    this.plainOptions = offered === null ? noOptions : Object.freeze({ ...noOptions, outputs: offered })
    const obstacle = notStackable(batched)
    const maxBatchSize = config.maxBatchSize ?? (obstacle === null ? rowsByDefault(config, batched) : 0)
    checkBatchDimension(name, maxBatchSize, batched)
    checkBatchSizes(name, config, maxBatchSize)
    this.labels = new Map(
      config.outputs?.flatMap(({ name: output, labels }) =>
        labels === undefined ? [] : [[output, labels] as const],
      ),
    )
    this.images = imagesOf(name, config, this.shaped.shown.inputs, maxBatchSize > 0)
    this.tolerance = tolerance
    this.declared = config.maxBatchSize !== undefined
    const isDefault = !this.declared && config.defaultMaxBatchSize === undefined
    this.#rowsOfShortRuns = isDefault
      ? rowsByDefault({ ...config, defaultMaxBatchSize: mostRowsOfShortRuns }, batched)
      : 0
    this.#proof = proof
    const joining = initially(config, maxBatchSize, obstacle, proof, unproved)
    this.stacked = Object.freeze({
      name,
      path: config.path,
      properties: opened.properties ?? null,
      ...served,
      executionProviders: opened.executionProviders,
      maxBatchSize,
      joining,
    })
    this.#never = !config.joinRequests
    const settled = proof !== null && proof.rows !== 'unknown'
    this.#hasLengths = served.inputs.some(({ name: input, shape, ...value }) => {
      const isPadded = (axis: number) =>
        config.padding.some((padded) => padded.input === input && padded.dim === axis)
      return shape.some(
        (dim, axis) => typeof dim === 'string' && axis !== batchAxisOf(value) && !isPadded(axis),
      )
    })
    this.isOpen =
      this.#hasLengths || (maxBatchSize > 0 && served.inputs.some((input) => batchAxisOf(input) === -1))
    const hasEntries = batched.outputs.some(({ rows }) => rows !== undefined) // of which the graph says nothing
    this.isByBucket =
      proof?.rows === 'unknown' && !this.declared && (this.isOpen || config.optionalInputs.length > 0)
    this.asksOfBuckets = this.isByBucket && !hasEntries
    this.isToRun = config.checkRows && unproved === undefined
    this.#undecided =
      (this.isToRun || this.asksOfBuckets) &&
      !settled &&
      config.joinRequests &&
      maxBatchSize > 1 &&
      obstacle === null
    this.#metadata = this.#shown(joining)
    if (joining.rows === 'declared' && proof?.rows === 'dependent') this.#warnOfMeeting(wordsOf(proof))
  }

  /** The model as its users see it. */
  get metadata(): ModelMetadata {
    return this.#metadata
  }

  /**
   * Most rows of short runs, where these may be more than others: no one has said how many, none goes by message, and they are
   * proved independent. A check by running has seen 32 rows at most. 0 where they may not.
   */
  get rowsOfShortRuns(): number {
    const { maxBatchSize, inputs } = this.stacked
    const mayBeMore =
      maxBatchSize === defaultMaxBatchSize &&
      this.#metadata.joining.how === 'proved' &&
      inputs.every(({ type }) => isElementType(type) && type !== 'string')
    return mayBeMore ? this.#rowsOfShortRuns : 0
  }

  /** Whether requests are divided into rows, which may share runs where they are joined at all; else each runs as it is. */
  get byRow(): boolean {
    return this.declared || this.#never || this.#metadata.joining.rows === 'independent'
  }

  /** The buckets whose requests are divided into rows, by their keys; `null` for all. */
  get joinedBuckets(): { has(key: string): boolean } | null {
    return this.isByBucket ? this.#joined : null
  }

  /** Whether it is still to be found out if rows are independent. */
  get undecided(): boolean {
    return this.#undecided
  }

  /** Most rows in one run, now or once it is decided; 0 when requests are never joined. */
  get largestBatch(): number {
    return this.byRow || this.#undecided ? this.stacked.maxBatchSize : 0
  }

  /**
   * Takes note of what a check found by running. A declared model is joined whatever that is, and a difference is warned about once.
   *
   * @param bucket whose requests were run; `null` for generated rows.
   * @param final whether nothing more is to be tried when the check has shown nothing.
   */
  found({ rows, largestDifference, reason }: RowVerdict, bucket: string | null = null, final = false): void {
    if (this.#refuted || !this.#undecided) return // by a run meanwhile
    if (rows === 'independent' && this.isByBucket) {
      if (bucket !== null) return this.#join(bucket, 'checked', largestDifference)
      const madeUp = this.#hasLengths ? 'lengths' : this.isOpen ? 'shared values' : 'optional inputs'
      return this.#leaveOpen(
        largestDifference,
        `${reason}, but with generated ${madeUp}; the first requests decide`,
      )
    }
    if (rows !== 'unknown' || final) this.#undecided = this.asksOfBuckets
    if (this.declared) {
      if (rows !== 'unknown')
        this.#show({
          ...this.#metadata.joining,
          largestDifference,
          reason: `maxBatchSize was given; ${reason}`,
        })
      if (rows === 'dependent') this.#warnOfDependence(reason, largestDifference)
      return
    }
    if (rows === 'unknown') return this.#leaveOpen(largestDifference, reason, final)
    if (rows === 'dependent') this.#dropChecked() // where runs show that rows meet, what they do not show counts no more
    if (rows === 'independent' || !this.#joinsAny)
      this.#show({ rows, how: 'checked', largestDifference, reason })
    else this.#showJoined(null)
    if (this.isByBucket) this.onChange()
  }

  /** The graph, with the lengths of a bucket and the values that its rows share, says something of its rows. */
  foundOfBucket(key: string, { rows, node, reason }: RowProof): void {
    if (this.#refuted || rows === 'unknown' || this.declared) return
    if (rows === 'independent') return this.#join(key, 'proved', null)
    this.#buckets.set(key, { how: 'proved', joins: false })
    if (!this.#joinsAny)
      this.#show({
        rows: 'dependent',
        how: 'proved',
        ...nodeOf({ node }),
        largestDifference: null,
        reason: `${wordsOf({ rows, node, reason })} (for requests of the shapes so far)`,
      })
    this.onChange()
  }

  /** What was found of a bucket is kept no longer. */
  forget(key: string): void {
    if (this.#buckets.delete(key)) this.onChange()
  }

  /** Many requests have run alone, and it is still not known whether they have to. */
  staysUnknown(): void {
    const { rows, reason } = this.#metadata.joining
    if (rows === 'unknown' && this.isToRun && !this.#never) this.#warnOfUnknown(reason)
  }

  /** A run has shown that an output cannot be divided among the rows of a batch. */
  refuted(output: string): void {
    if (this.#refuted) return // other batches may have been on their way
    this.#refuted = true
    this.#undecided = false
    if (!(this.declared && this.#proof?.rows === 'dependent')) {
      // else the warning at load has announced it
      this.#warn(
        'ZEROHOP_NOT_BATCHABLE',
        `Output '${output}' of model '${this.stacked.name}' does not have one entry per row, so its requests are run one by one from now on. ${capital(dividesEntries)}.`,
      )
    }
    this.#show({
      rows: 'dependent',
      how: 'checked',
      largestDifference: null,
      reason: `output '${output}' does not have one entry per row; ${dividesEntries}`,
    })
  }

  /** Whether requests of some bucket are joined. */
  get #joinsAny(): boolean {
    return [...this.#buckets.values()].some(({ joins }) => joins)
  }

  #join(key: string, how: KnownBucket['how'], largestDifference: number | null): void {
    if (this.#buckets.get(key)?.how === 'proved') return // the graph has said it meanwhile
    this.#buckets.set(key, { how, joins: true })
    if (this.#buckets.size > maxBuckets) this.#buckets.delete(this.#buckets.keys().next().value!)
    this.#showJoined(largestDifference)
    this.onChange()
  }

  #showJoined(largestDifference: number | null): void {
    const isChecked = [...this.#buckets.values()].some(({ how }) => how === 'checked')
    const difference = isChecked
      ? Math.max(this.#metadata.joining.largestDifference ?? 0, largestDifference ?? 0)
      : null
    const shown = isChecked
      ? 'requests of some shapes gave the same alone and joined'
      : 'proved from the graph for requests of some shapes and shared values'
    this.#show({
      rows: 'independent',
      how: isChecked ? 'checked' : 'proved',
      largestDifference: difference,
      reason: `${shown}; those of others run alone`,
    })
  }

  #dropChecked(): void {
    for (const [key, { how }] of this.#buckets) if (how === 'checked') this.#buckets.delete(key)
  }

  /** Nothing was shown; what is known of buckets counts all the same. */
  #leaveOpen(largestDifference: number | null, reason: string, final = false): void {
    if (this.#buckets.size > 0) return
    const reasons = this.#proof === null ? reason : `${wordsOf(this.#proof)}; ${reason}`
    this.#show({
      rows: 'unknown',
      how: 'unknown',
      ...nodeOf(this.#proof),
      largestDifference,
      reason: reasons,
    })
    if (final) this.#warnOfUnknown(reasons)
  }

  #show(joining: RowJoining): void {
    const [before, wasByRow] = [this.#metadata.joining.rows, this.byRow]
    this.#metadata = this.#shown(joining)
    if (this.byRow !== wasByRow) this.onChange()
    if (joining.rows !== before) this.onKnown()
  }

  #shown(joining: RowJoining): ModelMetadata {
    const maxBatchSize = this.declared || joining.rows === 'independent' ? this.stacked.maxBatchSize : 0
    return Object.freeze({
      ...this.stacked,
      ...this.shaped.shown,
      maxBatchSize,
      joining: Object.freeze(joining),
    })
  }

  /** By the graph, which may be too careful. */
  #warnOfMeeting(reason: string): void {
    this.#warn(
      dependentRows,
      `Rows of model '${this.stacked.name}' meet in its graph (${reason}), so requests may change each other's answers. ` +
        'They share runs because maxBatchSize is set. Without maxBatchSize every request runs alone.',
    )
  }

  /** By runs. */
  #warnOfDependence(reason: string, largestDifference: number | null): void {
    const difference = Number.isFinite(largestDifference)
      ? `; difference up to ${(100 * largestDifference!).toPrecision(2)} % of the row's largest value, allowed ${100 * this.tolerance} %`
      : ''
    this.#warn(
      dependentRows,
      `Rows of model '${this.stacked.name}' do not give the same alone and in one run with others (${reason}${difference}), ` +
        'but share runs because maxBatchSize is set. Without maxBatchSize every request runs alone.',
    )
  }

  #warnOfUnknown(reason: string): void {
    const lengths = this.#hasLengths ? 'lengths for its variable dimensions (inputs: [{ name, dims }]), ' : ''
    const settles = `${lengths}two or more different warm-up samples (warmup: [{ feeds }]), or maxBatchSize, if you know that rows are independent`
    this.#warn(
      'ZEROHOP_ROWS_UNKNOWN',
      `Whether rows of model '${this.stacked.name}' change each other is unknown (${reason}), so its requests run one by one. To settle it, give ${settles}.`,
    )
  }

  /** Each once. */
  #warn(code: WarningCode, message: string): void {
    if (this.#warned.has(code)) return
    this.#warned.add(code)
    warn(code, message)
  }
}

function imagesOf(
  model: string,
  { inputs = [], sequence }: ResolvedConfig,
  shown: readonly ValueMetadata[],
  batched: boolean,
): Joining['images'] {
  const images = inputs.flatMap(({ name, image }, index) => {
    if (image === undefined) return []
    if (sequence !== null) throw noImages(model, `inputs[${index}].image`, image)
    const input = shown.find((each) => each.name === name)!
    return [[name, resolveImageInput(model, `inputs[${index}].image`, image, input, batched)] as const]
  })
  return images.length === 0 ? null : new Map(images)
}

/** Images of a sequence would overtake each other while they are decoded. */
function noImages(model: string, option: string, image: unknown): InferenceError {
  const hint = 'Decode images with decodeImage() and give the tensors in their order'
  return invalidConfig(model, option, 'to be omitted for a model with sequences', image, hint)
}

function nodeOf(proof: Pick<RowProof, 'node'> | null): { readonly node?: string } {
  return proof === null || proof.node === null ? {} : { node: proof.node }
}

function initially(
  { maxBatchSize, joinRequests, checkRows }: ResolvedConfig,
  largestBatch: number,
  obstacle: string | null,
  proof: RowProof | null,
  unproved?: string,
): RowJoining {
  const joining = (rows: RowJoining['rows'], how: RowJoining['how'], reason: string): RowJoining => ({
    rows,
    how,
    ...nodeOf(proof),
    largestDifference: null,
    reason,
  })
  if (maxBatchSize === 0)
    return joining('unknown', 'unknown', 'requests are not joined because maxBatchSize is 0')
  if (obstacle !== null && maxBatchSize === undefined)
    return { rows: 'dependent', how: 'proved', largestDifference: null, reason: obstacle }
  if (!joinRequests)
    return joining('unknown', 'unknown', 'requests are not joined because dynamicBatching is false')
  if (maxBatchSize !== undefined)
    return joining(
      'declared',
      'declared',
      `maxBatchSize was given${proof === null ? (checkRows ? '' : '; checkRows is false') : `; ${wordsOf(proof)}`}`,
    )
  if (proof?.rows === 'independent') return joining('independent', 'proved', wordsOf(proof))
  if (proof?.rows === 'dependent') return joining('dependent', 'proved', wordsOf(proof))
  if (unproved !== undefined)
    return joining(
      'unknown',
      'unknown',
      `${wordsOf(proof!)}; what requests share decides. Without it: ${unproved}`,
    )
  const toRun = largestBatch === 1 ? 'a batch has one row, so nothing is run to find out' : notRunYet
  const open = checkRows ? toRun : 'checkRows is false, so that only what the graph proves is joined'
  return joining('unknown', 'unknown', proof === null ? open : `${wordsOf(proof)}; ${open}`)
}

function wordsOf({ rows, node, reason }: RowProof): string {
  const words = rows === 'unknown' ? `the graph does not prove that rows are independent: ${reason}` : reason
  const hasEntries = givesEntries.test(node ?? '') || reason.endsWith(severalEntries)
  return rows !== 'independent' && hasEntries ? `${words}; ${dividesEntries}` : words
}

function capital(text: string): string {
  return text[0]!.toUpperCase() + text.slice(1)
}
