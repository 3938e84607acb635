import { type HeapItem, IndexedHeap } from '../base/indexed-heap.ts'
import { doAll, type Pieces } from '../base/slices.ts'
import { fromSmallFloat } from '../tensor/small-floats.ts'
import { invalidArgument, listNames } from '../errors.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import { elementCount, isTensorLike, type TensorData } from '../tensor/tensor.ts'
import { warn } from '../base/warnings.ts'

/** A class with its score. */
export interface Classification {
  /** Index of the class, from 0. */
  readonly index: number
  /** The score that the model gave. */
  readonly value: number
  /** The line of the label file; `undefined` without one, or with fewer lines. */
  readonly label: string | undefined
}

/** The output to classify, and how. */
interface Classified {
  readonly outputs: unknown
  readonly count: number
  readonly output: string | undefined
}

/** Scores of an output, row by row. */
interface Scores {
  /** The score at an index of the output's elements. */
  at(index: number): number
  readonly length: number
  readonly dims: readonly number[]
  readonly isBatched: boolean
  readonly rows: number
  readonly labels: readonly string[] | undefined
}

/**
 * The classes with the highest scores, for each row; of equal scores the lower index comes first, and NaN is last.
 *
 * @param labels by output.
 * @param axis the dimension of the output that counts its classes, for the classes of each position of a row: each
 * token, each pixel; negative values count from the last, -1.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function classify(
  metadata: ModelMetadata,
  labels: ReadonlyMap<string, readonly string[]>,
  classified: Classified,
  axis: number | undefined,
): Classification[][] | Classification[][][] {
  return axis === undefined
    ? doAll(classifyPieces(metadata, labels, classified))
    : classifyAlong(axis, metadata, labels, classified)
}

/** Comparisons of one piece. */
const pieceSteps = 2 ** 13

/** As {@link classify} without an axis, in pieces. */
export function* classifyPieces(
  metadata: ModelMetadata,
  labels: ReadonlyMap<string, readonly string[]>,
  classified: Classified,
): Pieces<Classification[][]> {
  const scores = scoresOf(metadata, labels, classified)
  const { rows, length } = scores
  const classes = rows === 0 ? 0 : length / rows
  const pace = { left: pieceSteps }
  const found: Classification[][] = []
  for (let row = 0; row < rows; row++)
    found.push(yield* highest(scores, { first: row * classes, classes, stride: 1 }, classified.count, pace))
  return found
}

function classifyAlong(
  axis: number,
  metadata: ModelMetadata,
  labels: ReadonlyMap<string, readonly string[]>,
  classified: Classified,
): Classification[][][] {
  const scores = scoresOf(metadata, labels, classified)
  const { dims, isBatched, rows } = scores
  const at = axis < 0 ? axis + dims.length : axis
  if (!Number.isSafeInteger(axis) || at < (isBatched ? 1 : 0) || at >= dims.length) {
    throw invalidArgument(
      'axis',
      `a dimension of [${dims.join(', ')}]${isBatched ? ' but the first, which counts rows' : ''}, below 0 from the last on`,
      axis,
      { model: metadata.name },
    )
  }
  const classes = dims[at]!
  const stride = elementCount(dims.slice(at + 1))
  const outer = elementCount(dims.slice(isBatched ? 1 : 0, at))
  return Array.from({ length: rows }, (_, row) =>
    Array.from({ length: outer * stride }, (_, position) => {
      const first = (row * outer + Math.floor(position / stride)) * classes * stride + (position % stride)
      return doAll(highest(scores, { first, classes, stride }, classified.count, { left: Infinity }))
    }),
  )
}

function scoresOf(
  { name: model, outputs: known }: ModelMetadata,
  labels: ReadonlyMap<string, readonly string[]>,
  { outputs, count, output }: Classified,
): Scores {
  const wrong = (argument: string, expected: string, received: unknown) =>
    invalidArgument(argument, expected, received, { model })
  if (!Number.isSafeInteger(count) || count < 1) throw wrong('count', 'a whole number of at least 1', count)
  const names = known.map(({ name }) => name)
  const name =
    output ?? (labels.size === 1 ? [...labels.keys()][0]! : names.length === 1 ? names[0]! : undefined)
  if (name === undefined || !names.includes(name))
    throw wrong('output', `the name of an output (${listNames(names)})`, output)
  const value =
    typeof outputs === 'object' && outputs !== null && Object.hasOwn(outputs, name)
      ? (outputs as Record<string, unknown>)[name]
      : undefined
  if (!isTensorLike(value)) throw wrong(`outputs.${name}`, 'a tensor, as infer() answers with it', value)
  const { dims, data, type } = value
  if (
    !ArrayBuffer.isView(data) ||
    (type !== 'float16' && !/^(?:float(?:32|64)|u?int(?:8|16|32|64))$/.test(type))
  ) {
    throw wrong(`outputs.${name}`, 'a tensor of numbers', `one of type ${type}`)
  }
  const isBatched = dims.length > 1 && typeof known.find((each) => each.name === name)!.shape[0] === 'string'
  return {
    at: readerOf(type, data as TensorData),
    length: (data as TensorData).length,
    dims,
    isBatched,
    rows: isBatched ? dims[0]! : 1,
    labels: labels.get(name),
  }
}

/**
 * Warns about each output whose number of labels differs from its number of classes: some classes then have no name, or
 * a wrong one.
 */
export function warnOfLabels(
  { name: model, outputs }: ModelMetadata,
  labels: ReadonlyMap<string, readonly string[]>,
): void {
  for (const { name, shape } of outputs) {
    const own = labels.get(name)
    const classes = classesOf(shape)
    if (own === undefined || classes === null || own.length === classes) continue
    const effect =
      own.length < classes
        ? 'those after them are classified without a label'
        : 'the last ones are never given'
    const message = `Output '${name}' of model '${model}' has ${classes} classes, and ${own.length} labels: ${effect}. Give one label for each class, in their order.`
    warn('ZEROHOP_LABELS', message)
  }
}

/** The number of classes in a row of an output, if the shape has at most one dimension other than 1 per row. */
function classesOf(shape: ModelMetadata['outputs'][number]['shape']): number | null {
  const ofRow = shape.length > 1 && typeof shape[0] === 'string' ? shape.slice(1) : shape
  const [classes = 1, ...others] = ofRow.filter((dim) => dim !== 1)
  return others.length === 0 && typeof classes === 'number' ? classes : null
}

/** One of the best classes so far. */
interface Candidate extends HeapItem {
  index: number
  value: number
}

/** Whether a class goes before another: by its score, then by its index. NaN is last. */
function isHigher(value: number, index: number, other: Candidate): boolean {
  if (value > other.value) return true
  const isEqual = value === other.value || (Number.isNaN(value) && Number.isNaN(other.value))
  return isEqual ? index < other.index : Number.isNaN(other.value)
}

/**
 * The `count` classes with the highest scores, highest first; the scores of one position are `stride` apart.
 *
 * @param pace how many comparisons are left of the piece.
 */
function* highest(
  { at, labels }: Scores,
  { first, classes, stride }: { readonly first: number; readonly classes: number; readonly stride: number },
  count: number,
  pace: { left: number },
): Pieces<Classification[]> {
  const best = new IndexedHeap<Candidate>((a, b) => {
    pace.left--
    return isHigher(b.value, b.index, a) // the lowest first
  })
  for (let index = 0; index < classes; index++) {
    const value = at(first + index * stride)
    const lowest = best.size < count ? null : best.peek()
    if (lowest === null) best.push({ index, value, heapIndex: -1 })
    else if (isHigher(value, index, lowest)) {
      lowest.index = index
      lowest.value = value
      best.update(lowest)
    }
    if (--pace.left <= 0) {
      pace.left = pieceSteps
      yield
    }
  }
  const found: Classification[] = []
  for (let lowest = best.peek(); lowest !== null; lowest = best.peek()) {
    const { index, value } = lowest
    best.remove(lowest)
    found.push({ index, value, label: labels?.[index] })
    if (--pace.left <= 0) {
      pace.left = pieceSteps
      yield
    }
  }
  return found.reverse()
}

/** Newer Node.js returns float16 as numbers, older as bits. Other numbers become what they are in JavaScript as they are read. */
function readerOf(type: string, data: ArrayLike<number | bigint>): (index: number) => number {
  if (type === 'float16' && data instanceof Uint16Array) return (index) => fromSmallFloat(type, data[index]!)
  return (index) => Number(data[index]!)
}
