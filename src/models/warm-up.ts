import type { ResolvedConfig } from '../options/model-config.ts'
import type { WarmupSample } from '../options/warmup-options.ts'
import {
  byteLengthOf,
  elementCount,
  isElementType,
  isFloatType,
  copyOf,
  plainView,
  type ElementType,
  type MailedTensor,
  type TensorData,
} from '../tensor/tensor.ts'
import { joinTensors, mailed } from '../tensor/elements.ts'
import { batchSizesToTry } from '../schedule/calibration.ts'
import { batchAxisOf, type ModelMetadata, type TensorMetadata } from '../tensor/metadata.ts'
import type { FeedParser } from '../request/feeds.ts'
import type { Padding } from '../request/padding.ts'
import type { WorkerSession } from '../run/worker-session.ts'
import { joinFeeds, RowForm, singleRows, type TrialFeeds } from './row-check/trial-feeds.ts'
import { InferenceError } from '../errors.ts'
import type { MailedValue } from '../tensor/values.ts'
import { warmNote } from './compiled-models/compiled-form.ts'
import type { Feeds } from '../options/model-signature.ts'
import type { ParsedFeeds } from '../request/infer-request.ts'
import { rowRecipes, sampleRow, type RowRecipe } from './row-check/made-up-rows.ts'

/** Most bytes of a run's inputs. A single row may be larger if the user asked for it. */
const maxBytes = 2 ** 27

/** Thrown when a sample of the user's cannot be run. */
export class SampleFailed extends Error {
  override readonly name = 'SampleFailed'
  /** The sample's index among the user's. */
  readonly index: number

  constructor(message: string, index: number) {
    super(message)
    this.index = index
  }
}

/** A session, as far as it can be warmed. */
type WarmSession = Pick<WorkerSession, 'runSample' | 'note' | 'setNote'>

/** What an instance of a model runs before it takes batches: first what the user gave, then what is made up. */
export class WarmUp {
  readonly samples: readonly PreparedWarmup[]
  /** Whether warming up means one run of a made-up row. Any other run of the session does as well. */
  readonly isOneRow: boolean
  /** The form of the samples, and of everything that is run. */
  readonly form: RowForm
  readonly #config: ResolvedConfig
  readonly #joining: { readonly largestBatch: number }
  /** For each shape, candidate rows: the first that the model accepts is run. */
  readonly #shapes: readonly (readonly (() => TrialFeeds)[])[]
  readonly #hasFixedRows: boolean
  /** The name of the note that a session keeps once it is warmed in this way. */
  readonly #note: string
  /** The first warming of each kind of session, for which others of that kind wait. */
  readonly #begun = new Map<string, Promise<void>>()

  /**
   * @param joining tells how many rows a batch may have, once that is known.
   * @throws InferenceError `ERR_MODEL_CONFIG` when a sample does not fit the model.
   */
  constructor(
    model: ModelMetadata,
    config: ResolvedConfig,
    parser: FeedParser,
    padding: Padding | null,
    joining: { readonly largestBatch: number },
  ) {
    const { madeUp, samples, batchSizes } = config.warmup
    this.form = new RowForm(model)
    const { metadata } = this.form
    this.samples = prepareWarmup(model, parser, samples).map((sample) => ({
      ...sample,
      feeds: this.form.rowsOf(sample.feeds),
    }))
    this.#config = config
    this.#joining = joining
    this.#hasFixedRows = isKnown(metadata, null)
    this.#shapes = madeUp === null ? [] : madeUpRows(metadata, padding, config.optionalInputs, madeUp)
    this.isOneRow = madeUp === 'harmless' && this.#shapes.length === 1
    this.#note =
      madeUp === 'harmless' && padding === null
        ? warmNote
        : `warm ${JSON.stringify([madeUp, batchSizes, config.padding, metadata.maxBatchSize])}`
  }

  /** A sample by which runs can be measured; `undefined` if there is none. */
  get calibrationSample(): Pick<PreparedWarmup, 'feeds' | 'bucketKey'> | undefined {
    const [row] = this.#hasFixedRows ? (this.#shapes[0] ?? []) : []
    return this.samples[0] ?? (row && { feeds: row(), bucketKey: '' })
  }

  /**
   * Warms an instance: runs the user's samples on each instance, and made-up rows once for all instances that share the
   * session.
   *
   * @param kind equal for sessions that may turn out to be shared: only the first of a kind is warmed by made-up rows, the others
   *   wait for it.
   * @param check run after the samples and before made-up rows; resolves with true if its runs have warmed the session.
   * @throws SampleFailed
   */
  async run(session: WarmSession, kind: string, check?: () => Promise<boolean>): Promise<void> {
    await this.#runSamples(session)
    const isChecked = check !== undefined && (await check())
    if (isChecked && this.isOneRow) session.setNote(this.#note, 'yes')
    else await this.#runMadeUp(session, kind)
  }

  async #runSamples(session: WarmSession): Promise<void> {
    for (const [index, { feeds, count }] of this.samples.entries()) {
      for (const each of this.#sampleInSizes(feeds)) {
        for (let run = 0; run < count; run++) {
          const { error } = await this.form.run(session, each)
          if (error !== null) throw new SampleFailed(error, index)
        }
      }
    }
  }

  async #runMadeUp(session: WarmSession, kind: string): Promise<void> {
    if (this.#shapes.length === 0) return
    const begun = this.#begun.get(kind)
    if (begun !== undefined) await begun.catch(() => {}) // the session that began it reports the failure
    if (session.note(this.#note) !== '') return
    const warming = this.#runShapes(session)
    if (begun === undefined) this.#begun.set(kind, warming)
    await warming
  }

  async #runShapes(session: WarmSession): Promise<void> {
    for (const rows of this.#shapes) {
      for (const row of rows) if (await this.#runRow(session, row())) break
    }
    session.setNote(this.#note, 'yes')
  }

  /** Runs a row in all sizes; false when the first cannot be run. */
  async #runRow(session: WarmSession, row: TrialFeeds): Promise<boolean> {
    let any = false
    for (const feeds of this.#inSizes(row)) {
      for (let run = 0; run < this.#config.warmup.count; run++) {
        const { error } = await this.form.run(session, feeds)
        if (error !== null) return any
        any = true
      }
    }
    return true
  }

  /** A sample as it is, or its first row in all sizes. */
  #sampleInSizes(feeds: PreparedWarmup['feeds']): Iterable<PreparedWarmup['feeds']> {
    if (this.#config.warmup.batchSizes === null || this.#joining.largestBatch === 0) return [feeds]
    const [row] = singleRows(feeds as TrialFeeds, 1) // what has rows is tensors
    return row === undefined ? [feeds] : this.#inSizes(row)
  }

  *#inSizes(row: TrialFeeds): Generator<TrialFeeds> {
    const { warmup, preferredBatchSizes } = this.#config
    const largest = Math.max(1, this.#joining.largestBatch)
    const sizes =
      warmup.batchSizes === 'all' ? batchSizesToTry(largest, preferredBatchSizes) : (warmup.batchSizes ?? [1])
    const rowBytes = row.reduce(
      (sum, feed) => sum + (feed?.data instanceof ArrayBuffer ? feed.data.byteLength : 0),
      0,
    )
    for (const size of sizes) {
      if (size > largest || (size > 1 && size * rowBytes > maxBytes)) continue
      yield size === 1 ? row : joinFeeds(Array.from({ length: size }, () => row))
    }
  }
}

/** Whether a session's note holds in later processes. Warm-ups that the user asked for are run in each process. */
export function holdsLater(note: string): boolean {
  return !note.startsWith('warm ') || note.startsWith('warm ["harmless"')
}

/** A sample ready to be sent to a worker. */
export interface PreparedWarmup {
  /** One per input; `null` for an optional one that is not given. */
  readonly feeds: readonly (MailedValue | null)[]
  /** Where requests like this one are batched. */
  readonly bucketKey: string
  /** How often it is run. */
  readonly count: number
}

/**
 * The samples that a user gave for warming up.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` when a sample does not fit the model.
 */
function prepareWarmup(
  metadata: ModelMetadata,
  parser: FeedParser,
  samples: readonly WarmupSample[],
): PreparedWarmup[] {
  return samples.map(({ feeds, count = 1 }, index) => {
    const { data, dims, rows, bucketKey } = parseSample(parser, feeds, index)
    const values = metadata.inputs.map((input, index): MailedValue | null => {
      const { type, shape } = input
      const value = data[index]!
      if (value === null || !isElementType(type)) return value as MailedValue | null
      const axisOfRows = metadata.maxBatchSize > 0 ? batchAxisOf(input) : -1
      const declared = shape.map((dim, axis) => (axis === axisOfRows ? rows : dim)) as number[]
      const own = type === 'string' ? (value as string[]) : plainView(value as TensorData)
      return mailed(
        type,
        dims?.[index] ?? declared,
        ArrayBuffer.isView(own) ? copyOf(own, 0, own.length) : own,
      )
    })
    return { feeds: values, bucketKey, count }
  })
}

/** Reports errors of feeds as errors of the configuration. */
function parseSample(parser: FeedParser, feeds: Feeds, index: number): ParsedFeeds {
  try {
    return parser.parse(feeds)
  } catch (error) {
    const { message, model, expected, received } = error as InferenceError
    const name = `warmup[${index}].feeds`
    const details = { name, expected, received, cause: error, ...(model === undefined ? {} : { model }) }
    throw new InferenceError('ERR_MODEL_CONFIG', `${name}: ${message}`, details)
  }
}

/** Kinds of made-up values: zeros where they can do no harm, zeros everywhere, or random ones. */
type MadeUp = 'harmless' | 'zeros' | 'random'

type PaddedInputs = Pick<Padding, 'inputs'>

/** Combinations of the sizes of several paddings that are made up. */
const maxShapes = 64

/**
 * Rows to warm up a model without samples, for each of its shapes (one per size to which inputs are padded). The model may
 * reject some of them; the likeliest come first.
 *
 * @param optionalInputs names of inputs that may be left out.
 */
function madeUpRows(
  metadata: ModelMetadata,
  padding: PaddedInputs | null,
  optionalInputs: readonly string[],
  kind: MadeUp,
): (() => TrialFeeds)[][] {
  if (!metadata.inputs.every(({ type }) => isElementType(type))) return []
  const inputs = metadata.inputs as readonly TensorMetadata[]
  if (kind === 'harmless' && !inputs.every(({ type }) => isFloatType(type))) return []
  return paddedShapes(inputs, padding).flatMap((shape) => {
    if (kind === 'harmless' && !isKnown(metadata, shape)) return []
    const recipes = rowRecipes(inputs, null, shape, optionalInputs)
    const chosen =
      kind === 'random'
        ? recipes
        : kind === 'zeros'
          ? ofOtherShapes(recipes)
          : recipes.slice(0, 1).filter((recipe) => bytesOfRow(metadata, recipe) <= maxBytes)
    const row = (recipe: RowRecipe) =>
      kind === 'random' ? sampleRow(inputs, recipe, 0) : zeroRow(inputs, recipe)
    return [
      chosen.map((recipe) => () => (metadata.maxBatchSize > 0 ? row(recipe) : asItIs(inputs, row(recipe)))),
    ]
  })
}

/** Bytes of a request of one row, or of a whole request to a model without a batch dimension. */
function bytesOfRow({ inputs, maxBatchSize }: ModelMetadata, { rowDims }: RowRecipe): number {
  return inputs.reduce((sum, { type, shape }, index) => {
    const first = maxBatchSize === 0 && typeof shape[0] === 'number' ? shape[0] : 1
    return sum + byteLengthOf(type as ElementType, first * elementCount(rowDims[index]!))
  }, 0)
}

/** All combinations of padding sizes. Dimensions of one name have one length. */
function paddedShapes(
  inputs: readonly TensorMetadata[],
  padding: PaddedInputs | null,
): (PaddedInputs | null)[] {
  if (padding === null) return [null]
  const names = padding.inputs.map(({ index, axis }, entry) => inputs[index]!.shape[axis] || `${entry}`)
  const sizesOf = new Map<number | string, readonly number[]>()
  for (const [entry, { sizes }] of padding.inputs.entries())
    if (sizes !== 'longest' && !sizesOf.has(names[entry]!)) sizesOf.set(names[entry]!, sizes)
  let shapes = [new Map<number | string, number>()]
  for (const [name, sizes] of sizesOf)
    shapes = shapes
      .flatMap((shape) => sizes.map((size) => new Map([...shape, [name, size]])))
      .slice(0, maxShapes)
  return shapes.map((lengths) => ({
    inputs: padding.inputs.map((input, entry) => {
      const length = lengths.get(names[entry]!)
      return length === undefined ? input : { ...input, sizes: [length] }
    }),
  }))
}

/** Whether all dimensions of a row have a length. */
function isKnown({ inputs, maxBatchSize }: ModelMetadata, padding: PaddedInputs | null): boolean {
  const firstAxis = maxBatchSize > 0 ? 1 : 0
  return inputs.every(({ shape }, index) =>
    shape.every((dim, at) => {
      const padded = padding?.inputs.some(
        (input) => input.index === index && input.axis === at && input.sizes !== 'longest',
      )
      return at < firstAxis || typeof dim === 'number' || padded === true
    }),
  )
}

/** Drops recipes that differ from an earlier one only in their values. */
function ofOtherShapes(recipes: readonly RowRecipe[]): RowRecipe[] {
  const shapes = recipes.map(({ rowDims, draws }) =>
    JSON.stringify([rowDims, draws.map((draw) => draw === 'absent')]),
  )
  return recipes.filter((_, index) => shapes.indexOf(shapes[index]!) === index)
}

function zeroRow(inputs: readonly TensorMetadata[], { rowDims, draws }: RowRecipe): TrialFeeds {
  return inputs.map(({ type }, index): MailedTensor | null => {
    if (draws[index] === 'absent') return null
    const dims = [1, ...rowDims[index]!]
    const count = elementCount(dims)
    return {
      type,
      dims,
      data:
        type === 'string'
          ? Array.from({ length: count }, () => '')
          : new ArrayBuffer(byteLengthOf(type, count)),
    }
  })
}

/** A row as a request to a model without a batch dimension: the first dimension gets its full length. */
function asItIs(inputs: readonly TensorMetadata[], row: TrialFeeds): TrialFeeds {
  return row.map((tensor, index) => {
    if (tensor === null) return null
    const [first] = inputs[index]!.shape
    if (first === undefined) return { ...tensor, dims: [] }
    return typeof first === 'number' && first > 1
      ? joinTensors(Array.from({ length: first }, () => tensor))
      : tensor
  })
}
