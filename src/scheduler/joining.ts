import { noOptions, type CheckedOptions } from '../config/check-infer-options.ts'
import { resolveImageInput } from '../config/image-input.ts'
import type { ResolvedImageOptions } from '../config/image-options.ts'
import { checkBatchSizes, type ResolvedConfig } from '../config/resolve-model-config.ts'
import { invalidArgument, type InferenceError } from '../errors.ts'
import { floatTolerance } from '../instance/compare-rows.ts'
import type { RowVerdict } from '../instance/row-check.ts'
import { checkBatchDimension, notStackable, type ModelMetadata, type RowJoining, type ValueMetadata } from '../metadata.ts'
import { shapeTensors, type ShapedTensors } from '../request/shaped-tensors.ts'

/** What a session says of a model. */
type Served = Pick<ModelMetadata, 'inputs' | 'outputs' | 'unservableOutputs' | 'executionProviders'>

const unchecked = (rows: RowJoining['rows'], reason: string): RowJoining => ({ rows, largestDifference: null, reason })

/**
 * Whether a model's requests may share runs: what the user says of it counts, else what is found by running. It may
 * change while the model serves, and {@link Joining.metadata} is then another object.
 */
export class Joining {
  /** The model as it would be if its requests were joined: for whoever lays out batches. */
  readonly stacked: ModelMetadata
  /** The model's tensors as it has them, and as requests have them. */
  readonly shaped: ShapedTensors
  /** Names of classes by output, of those that have them. */
  readonly labels: ReadonlyMap<string, readonly string[]>
  /** Of inputs that take encoded images, how those become rows; `null` without any. */
  readonly images: ReadonlyMap<string, ResolvedImageOptions> | null
  /** The options of a request that gives none. */
  readonly plainOptions: CheckedOptions
  /** Whether the user said that rows are independent. */
  readonly declared: boolean
  /** By how much a float may differ in one run with others, relative to the largest of its row. */
  readonly tolerance: number
  /** Called when {@link Joining.byRow} changes. */
  onChange: () => void = () => {}
  #metadata: ModelMetadata
  #undecided: boolean
  readonly #never: boolean
  #warned = false
  #refuted = false

  /** @throws InferenceError `ERR_MODEL_CONFIG` when the batch size, or what is said of its tensors, does not fit the model. */
  constructor(name: string, config: ResolvedConfig, opened: Served, tolerance = floatTolerance) {
    this.shaped = shapeTensors(name, config, opened)
    const { served, offered } = this.shaped
    this.plainOptions = offered === null ? noOptions : Object.freeze({ ...noOptions, outputs: offered })
    const obstacle = notStackable(served)
    const maxBatchSize = config.maxBatchSize ?? (obstacle === null ? config.defaultMaxBatchSize : 0)
    checkBatchDimension(name, maxBatchSize, served)
    checkBatchSizes(name, config, maxBatchSize)
    this.labels = new Map(config.outputs?.flatMap(({ name: output, labels }) => (labels === undefined ? [] : [[output, labels] as const])))
    this.images = imagesOf(name, config, this.shaped.shown.inputs, maxBatchSize > 0)
    this.tolerance = tolerance
    this.declared = config.maxBatchSize !== undefined
    const joining = initially(config, obstacle)
    this.stacked = Object.freeze({ name, path: config.path, ...served, executionProviders: opened.executionProviders, maxBatchSize, joining })
    this.#never = !config.joinRequests
    this.#undecided = config.checkRows && config.joinRequests && maxBatchSize > 1 && obstacle === null
    this.#metadata = this.#shown(joining)
  }

  /** The model as its users see it. */
  get metadata(): ModelMetadata {
    return this.#metadata
  }

  /** Whether requests are divided into rows, which may share runs where they are joined at all; else each runs as it is. */
  get byRow(): boolean {
    return this.declared || this.#never || this.#metadata.joining.rows === 'independent'
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
   * Takes note of what a check found. A declared model is joined whatever that is, and a difference is warned about once.
   *
   * @param final whether nothing more is to be tried when the check has shown nothing.
   */
  found({ rows, largestDifference, reason }: RowVerdict, final = false): void {
    if (this.#refuted) return // by a run meanwhile
    if (rows !== 'unknown' || final) this.#undecided = false
    if (this.declared) {
      this.#show({ rows: 'declared', largestDifference, reason: `maxBatchSize was given; ${reason}` })
      if (rows === 'dependent') this.#warn(reason, largestDifference)
    } else this.#show({ rows, largestDifference, reason })
  }

  /** A run has shown that an output cannot be divided among the rows of a batch. */
  refuted(output: string): void {
    if (this.#refuted) return // other batches may have been on their way
    this.#refuted = true
    this.#undecided = false
    process.emitWarning(
      `Output '${output}' of model '${this.stacked.name}' does not have one entry per row, so its requests are run one by one from now on.`,
      { type: 'ZerohopWarning', code: 'ZEROHOP_NOT_BATCHABLE' },
    )
    this.#show(unchecked('dependent', `output '${output}' does not have one entry per row`))
  }

  #show(joining: RowJoining): void {
    const before = this.byRow
    this.#metadata = this.#shown(joining)
    if (this.byRow !== before) this.onChange()
  }

  #shown(joining: RowJoining): ModelMetadata {
    const maxBatchSize = this.declared || joining.rows === 'independent' ? this.stacked.maxBatchSize : 0
    return Object.freeze({ ...this.stacked, ...this.shaped.shown, maxBatchSize, joining: Object.freeze(joining) })
  }

  #warn(reason: string, largestDifference: number | null): void {
    if (this.#warned) return
    this.#warned = true
    const difference = Number.isFinite(largestDifference) ? `up to ${(100 * largestDifference!).toPrecision(2)} % of the row's largest value` : 'not measurable'
    process.emitWarning(
      `Rows of model '${this.stacked.name}' do not give the same alone and in one run with others (${reason}; difference ${difference}, ` +
        `allowed ${100 * this.tolerance} %), but are joined because maxBatchSize says so. Without maxBatchSize every request runs alone.`,
      { type: 'ZerohopWarning', code: 'ZEROHOP_DEPENDENT_ROWS' },
    )
  }
}

function imagesOf(model: string, { inputs = [], sequence }: ResolvedConfig, shown: readonly ValueMetadata[], batched: boolean): Joining['images'] {
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
  return invalidArgument(option, 'to be left out for a model with sequences', image, { code: 'ERR_MODEL_CONFIG', model, hint })
}

function initially({ maxBatchSize, joinRequests, checkRows }: ResolvedConfig, obstacle: string | null): RowJoining {
  if (maxBatchSize === 0) return unchecked('unknown', 'requests are not joined because maxBatchSize is 0')
  if (obstacle !== null && maxBatchSize === undefined) return unchecked('dependent', obstacle)
  if (!joinRequests) return unchecked('unknown', 'requests are not joined because dynamicBatching is false')
  if (maxBatchSize !== undefined) return unchecked('declared', `maxBatchSize was given${checkRows ? '' : '; checkRows is false'}`)
  return unchecked('unknown', checkRows ? 'nothing has been run yet' : 'checkRows is false, and without a check nothing is joined')
}
