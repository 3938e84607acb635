import { add, areNumbers, product as productOf, type Dim } from '../dims.ts'
import {
  along,
  apart,
  axisIn,
  broadcast,
  forEach,
  isInteger,
  like,
  oneToOne,
  range,
  rowsOnly,
  type Rule,
  type Rules,
} from '../operation.ts'
import { elementType, tensor, type Tensor } from '../followed-values.ts'
import { dependent, notFollowed } from '../not-proved.ts'
import { isWithin, withElements } from './arithmetic.ts'

/**
 * Operators that combine entries along some axes: reductions, normalisations, running sums. Rows stay
 * separate if those axes are not theirs. Source: onnx.ai/onnx/operators/onnx__NAME.html, com.microsoft:
 * ContribOperators.md.
 */

/** A tensor without some axes, or with length 1 there. */
export function reduced(of: Tensor, given: readonly number[], keeps: boolean, type = of.type): Tensor {
  const axes = [...new Set(given)] // one may be named twice, as -1 and as what that is
  apart(of, axes, 'puts entries together')
  const shape = keeps
    ? of.shape.map((dim, axis) => (axes.includes(axis) ? 1 : dim))
    : of.shape.filter((_, axis) => !axes.includes(axis))
  return tensor(type, shape, {
    rows: of.rows && {
      ...of.rows,
      axis: keeps ? of.rows.axis : of.rows.axis - axes.filter((axis) => axis < of.rows!.axis).length,
    },
  })
}

/**
 * @param sinceInput the version from which on axes are an input. @param fold computes an element of a shape;
 * `null` if it is not followed.
 */
function reduce(sinceInput: number, fold: ((all: readonly Dim[]) => Dim | null) | null = null): Rule {
  return (op) => {
    const raw = op.raw(0)
    const keeps = op.int('keepdims', 1) !== 0
    const isNoop = op.int('noop_with_empty_axes', 0) !== 0
    const isFlat = raw.shape.length === 1 && raw.elements !== null && raw.elements.length > 0
    if (isFlat && isInteger(raw.type) && fold !== null && !isNoop) {
      const folded = fold(raw.elements)
      if (folded !== null && [...raw.elements, folded].every((element) => isWithin(element, raw.type)))
        return withElements(raw.type, keeps ? [1] : [], [folded])
    }
    const of = op.data(0)
    const axes = op.axes(of.shape.length, sinceInput) ?? []
    if (axes.length > 0) return reduced(of, axes, keeps)
    return isNoop ? like(of) : reduced(of, range(0, of.shape.length), keeps)
  }
}

/** Folds numbers as the element-wise operator of that name does with two. */
const folding = (of: (...all: number[]) => number) => (all: readonly Dim[]) =>
  areNumbers(all) ? of(...all) : null
/** `null` if a part of it would be rounded. */
const sum = (all: readonly Dim[]) =>
  all.reduce<Dim | null>(
    (total, each) => (total === null || !isWithin(total, elementType.int64) ? null : add(total, each)),
    0,
  )

/**
 * An operator along `axis`: that axis alone, or, as in early versions of softmax, all from it on.
 *
 * @param sinceSingle the version from which it is that axis alone.
 */
const alongAxis = (sinceSingle: number): Rule =>
  along((rank, op) => {
    const isSingle = op.version >= sinceSingle
    const axis = op.axis(rank, isSingle ? -1 : 1)
    return isSingle ? [axis] : range(axis, rank)
  }, 'compares entries')

/** Normalises over the last axes. Mean and deviation have length 1 there. */
function layerNormalization(inputs: number): Rule {
  return (op) => {
    const of = op.data(0)
    const axis = op.axis(of.shape.length, -1)
    apart(of, range(axis, of.shape.length), 'norms entries')
    const { shape, rows } = broadcast([of, ...range(1, inputs).flatMap((index) => op.optional(index) ?? [])])
    if (rows !== null && of.rows === null)
      return dependent('its scale or bias has rows, and the input has none')
    if (shape.length > of.shape.length)
      return notFollowed('its scale or bias has more dimensions than the input')
    const norm = tensor(
      elementType.float32,
      of.shape.map((dim, at) => (at >= axis ? 1 : dim)),
      { rows: of.rows },
    )
    return [tensor(of.type, shape, { rows }), norm, norm]
  }
}

/**
 * Normalises the sum of an input with rows and another, which may be the same for all rows if it has three
 * dimensions. The fourth output is the sum.
 */
const skipLayerNormalization: Rule = (op) => {
  const [of, skip] = [op.data(0), op.data(1)]
  const isRepeated =
    of.shape.length === 3 && of.rows?.axis === 0 && (skip.shape.length === 2 || skip.shape[0] === 1)
  if (of.rows === null ? skip.rows !== null : skip.rows === null && !isRepeated)
    return dependent('what it adds up is not one to one')
  broadcast([of, skip])
  apart(of, [of.shape.length - 1], 'norms entries')
  const norm = tensor(elementType.float32, [...of.shape.slice(0, -1), 1], { rows: of.rows })
  return [like(of), norm, norm, like(of)]
}

const BatchNormalization: Rule = (op) => {
  const of = op.data(0)
  const isTraining =
    op.version >= 14 ? op.int('training_mode', 0) === 1 : op.version < 7 && op.int('is_test', 0) === 0
  if (isTraining) return dependent('it is in training mode, and norms over the batch')
  if (op.version < 14 && op.outputCount > 1) return notFollowed('cannot tell whether it is in training mode')
  const isByPlace = op.version < 9 && op.int('spatial', 1) === 0 // a mean for each entry of a row
  rowsOnly(of, isByPlace ? [0] : [0, ...range(2, of.shape.length)], 'norms entries')
  for (const index of [1, 2, 3, 4]) op.shared(index)
  return like(of)
}

/** Normalises each image, or groups of its channels. */
const perImage: Rule = (op) => {
  const of = op.data(0)
  rowsOnly(of, [0], 'norms entries')
  for (const index of [1, 2]) if (op.has(index)) op.shared(index)
  return like(of)
}

const MeanVarianceNormalization = along((rank, op) => {
  const usual = op.version < 9 && op.int('across_channels', 0) === 1 ? [0, 1, 2, 3] : [0, 2, 3]
  return (op.ints('axes') ?? usual).map((axis) => axisIn(axis, rank))
}, 'norms entries')

const runningSum = along((rank, op) => {
  const axis = op.raw(1).elements?.[0]
  return [axisIn(typeof axis === 'number' ? axis : notFollowed('the axis is not known from the graph'), rank)]
}, 'sums up')

const Dropout: Rule = (op) => {
  const isTraining =
    op.version >= 12
      ? op.has(2) && op.number(2, 'training_mode', 0) !== 0
      : op.version < 7 && op.int('is_test', 0) === 0
  if (isTraining) return dependent('it is in training mode, and draws random numbers')
  const of = op.data(0)
  return [like(of), like(of, elementType.bool)]
}

/** A loss per row, or one for all rows. */
const loss: Rule = (op) => {
  const [of, target] = [op.data(0), op.data(1)]
  if (op.has(2)) op.shared(2, 'weights')
  const rows = oneToOne('inputs and targets', { 'the input': of, 'the target': target })
  const reduction = op.string('reduction', 'mean')
  if (reduction === 'none') return [tensor(of.type, target.shape, { rows: target.rows }), like(of)]
  return rows === null
    ? [tensor(of.type, []), like(of)]
    : [op.fault('dependent', `it gives the ${reduction} of the losses of all rows`), like(of)]
}

const notFolded = ['ReduceMean', 'ReduceL1', 'ReduceL2', 'ReduceLogSum', 'ReduceLogSumExp', 'ReduceSumSquare']
const randoms = ['RandomNormal', 'RandomNormalLike', 'RandomUniform', 'RandomUniformLike', 'Bernoulli', 'Multinomial'] // prettier-ignore

export const reductions: Rules = {
  ReduceMax: reduce(18, folding(Math.max)),
  ReduceMin: reduce(18, folding(Math.min)),
  ReduceProd: reduce(18, productOf),
  ReduceSum: reduce(13, sum),
  ...forEach(notFolded, reduce(18)),
  ...forEach(['Softmax', 'LogSoftmax', 'Hardmax'], alongAxis(13)),
  LpNormalization: alongAxis(1),
  LayerNormalization: layerNormalization(3),
  SimplifiedLayerNormalization: layerNormalization(2),
  RMSNormalization: layerNormalization(2),
  'com.microsoft:SkipLayerNormalization': skipLayerNormalization,
  'com.microsoft:SkipSimplifiedLayerNormalization': skipLayerNormalization,
  BatchNormalization,
  InstanceNormalization: perImage,
  GroupNormalization: perImage,
  MeanVarianceNormalization,
  LRN: along(() => [1], 'norms entries'),
  CumSum: runningSum,
  CumProd: runningSum,
  Det: (op) => {
    const of = op.data(0)
    return reduced(of, range(of.shape.length - 2, of.shape.length), false)
  },
  'com.microsoft:Inverse': along((rank) => [rank - 1, rank - 2], 'inverts a matrix'),
  Dropout,
  NegativeLogLikelihoodLoss: loss,
  SoftmaxCrossEntropyLoss: loss,
  ...forEach(randoms, () => dependent('it draws random numbers, which differ in each run')),
}
