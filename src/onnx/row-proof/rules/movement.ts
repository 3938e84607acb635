import {
  add,
  anything,
  areNumbers,
  broadcastDims,
  countOf,
  divide,
  floorOf,
  isAtLeast,
  isSame,
  isWhole,
  lengthOf,
  maximum,
  minimum,
  multiply,
  ofRows,
  opaque,
  perRow,
  product,
  rangeOf,
  rowDim,
  shown,
  shownDims,
  subtract,
  takeSteps,
  type Dim,
} from '../dims.ts'
import {
  apart,
  axisIn,
  checkRank,
  dependsOnCount,
  isInteger,
  like,
  moved,
  ordersDiffer,
  rowsOnly,
  type Rule,
  type Rules,
  dependsOnPlaces,
} from '../operation.ts'
import type { StoredTensor } from '../onnx-model.ts'
import {
  after,
  before,
  checkDims,
  elementType,
  extent,
  findRows,
  mostElements,
  rowsAt,
  sameRows,
  tensor,
  type Place,
  type Rows,
  type Tensor,
} from '../followed-values.ts'
import { dependent, notFollowed } from '../not-proved.ts'
import { boundOfBoth, broadcastPlaces, positionsIn, withElements } from './arithmetic.ts'

/**
 * Operators that only move, repeat or drop elements, and operators on shapes, which these use. Source:
 * onnx.ai/onnx/operators/onnx__NAME.html.
 */

/**
 * A tensor in another shape. Elements keep their order. So rows stay whole if a new dimension covers
 * everything up to them in the old shape: `[N, 12, 64]` is `[N * 12, 64]` as well as `[N, 768]`, but each
 * entry of `[4, N * 192]` has parts of several rows.
 *
 * @param dims -1 stands for the remaining length.
 */
export function reshaped(of: Tensor, dims: readonly Dim[]): Tensor {
  checkDims(dims.length)
  const { rows, shape } = of
  const open = dims.indexOf(-1)
  const given = product(dims.filter((_, axis) => axis !== open))
  if (rows === null) {
    const all = product(shape)
    const rest = open === -1 ? 1 : (divide(all, given) ?? lengthOf('rest', [all, given]))
    return moved(of, open === -1 ? dims : dims.with(open, rest), null, of.elements)
  }
  const all = multiply(multiply(before(shape, rows), rowDim), after(shape, rows))
  const noQuotient = (dim: Dim, by: Dim, what: string): never => {
    if (typeof dim === 'number' && typeof by === 'number')
      return dependent(`${what} shares entries with other rows in the shape ${shownDims(dims)}`)
    return notFollowed(
      `cannot tell whether ${what} shares entries with other rows in the shape ${shownDims(dims)}`,
    )
  }
  const perRowOf = (dim: Dim) =>
    perRow(dim) ?? dependent(`the shape ${shownDims(dims)} is not a multiple of the number of rows`)
  const to = dims.map((dim, axis) => {
    if (axis !== open) return dim
    const rest = divide(all, given)
    if (rest !== null) return rest
    if (ofRows(given)) return lengthOf('rest', [perRowOf(all), perRowOf(given)])
    return noQuotient(perRowOf(all), given, `a row of ${shown(perRowOf(all))} elements`)
  })
  // No such shape fits, but ONNX Runtime may have put a -1 into it before.
  const made = product(to)
  if (
    !isSame(made, all) &&
    (typeof perRow(made) === 'number' ||
      typeof divide(all, made) === 'number' ||
      typeof divide(made, all) === 'number')
  )
    return notFollowed(`the shape ${shownDims(to)} has, or may have, another number of elements`)
  const axis = to.findIndex(ofRows)
  if (axis === -1) dependent(`the shape ${shownDims(to)} fits only one number of rows`)
  if (to.some((dim, other) => other !== axis && ofRows(dim)))
    dependent(`the shape ${shownDims(to)} depends on the number of rows in more than one dimension`)
  const front = product(to.slice(0, axis))
  const outer = divide(before(shape, rows), front) ?? noQuotient(before(shape, rows), front, 'a row')
  const inner = divide(perRowOf(to[axis]!), outer) ?? noQuotient(perRowOf(to[axis]!), outer, 'a row')
  return moved(of, to, { axis, outer, inner })
}

const Reshape: Rule = (op) => {
  const of = op.raw(0)
  const given =
    op.version < 5 ? (op.ints('shape') ?? notFollowed('the shape is missing')) : op.counts(1, 'the shape')
  const copies = op.int('allowzero', 0) === 0
  return reshaped(
    of,
    given.map((dim, axis) => {
      if (dim === -1 || isAtLeast(dim, copies ? 1 : 0)) return dim
      const own =
        of.shape[axis] ?? notFollowed(`dimension ${axis} does not exist, so its length cannot be kept`)
      if (dim === 0 || isSame(dim, own)) return own
      // A length that may be 0 stands for that of the input then, and one that may be -1 for what is left.
      if ([dim, own].some(ofRows))
        return notFollowed(`cannot tell whether ${shown(dim)} is 0 and so keeps dimension ${axis}`)
      return isAtLeast(dim, 0) ? lengthOf('length', [dim, own]) : lengthOf(`${op.label} ${axis}`)
    }),
  )
}

const Flatten: Rule = (op) => {
  const of = op.raw(0)
  const given = op.int('axis', 1)
  const axis = given === of.shape.length ? given : axisIn(given, of.shape.length)
  return reshaped(of, [product(of.shape.slice(0, axis)), product(of.shape.slice(axis))])
}

const Squeeze: Rule = (op) => {
  const of = op.raw(0)
  const given = op.axes(of.shape.length, 13)
  const axes =
    given !== null && given.length > 0 ? given : of.shape.flatMap((dim, axis) => (isOne(dim) ? [axis] : []))
  if (of.rows !== null && axes.includes(of.rows.axis))
    dependent(`it removes dimension ${of.rows.axis}, which counts the rows`)
  return without(of, axes)
}

/** Whether a squeeze without axes would remove a dimension. */
function isOne(dim: Dim): boolean {
  if (typeof dim === 'number' || isAtLeast(dim, 2)) return dim === 1
  if (ofRows(dim)) return dependent('it removes the dimension of the rows when there is one row')
  return notFollowed(`cannot tell whether dimension ${shown(dim)} is 1`)
}

/** A tensor with dimensions of length 1 removed. */
export function without(of: Tensor, axes: readonly number[]): Tensor {
  const left = [...of.shape.keys()].filter((axis) => !axes.includes(axis))
  const shape = left.map((axis) => of.shape[axis]!)
  return moved(of, shape, of.rows && { ...of.rows, axis: left.indexOf(of.rows.axis) }, of.elements)
}

const Unsqueeze: Rule = (op) => {
  const of = op.raw(0)
  const given =
    op.version < 13 && op.operator === 'Unsqueeze'
      ? (op.ints('axes') ?? notFollowed('axes are missing'))
      : op.numbers(1, 'axes')
  const rank = of.shape.length + given.length
  return withAxes(
    of,
    given.map((axis) => axisIn(axis, rank)),
  )
}

/** A tensor with dimensions of length 1 inserted at these positions of the result. */
export function withAxes(of: Tensor, axes: readonly number[]): Tensor {
  checkDims(of.shape.length + axes.length)
  const shape: Dim[] = []
  let rows = of.rows
  for (let axis = 0, from = 0; axis < of.shape.length + axes.length; axis++) {
    if (axes.includes(axis)) shape.push(1)
    else {
      if (of.rows?.axis === from) rows = { ...of.rows, axis }
      shape.push(of.shape[from++]!)
    }
  }
  return moved(of, shape, rows, of.elements)
}

const Transpose: Rule = (op) => {
  const of = op.raw(0)
  const perm = op.ints('perm') ?? [...of.shape.keys()].reverse()
  checkDims(perm.length)
  const shape = perm.map((axis) => of.shape[axis] ?? notFollowed(`axis ${axis} is not there`))
  const elements = picked(of, shape, (at) => perm.map((_, axis) => at[perm.indexOf(axis)]!))
  return moved(of, shape, of.rows && { ...of.rows, axis: perm.indexOf(of.rows.axis) }, elements)
}

/**
 * The elements of a part of a small tensor, or of a reordered one. For each position of the result it takes
 * the source position.
 */
function picked(
  of: Tensor,
  shape: readonly Dim[],
  from: (at: readonly number[]) => readonly number[],
): Dim[] | null {
  const { elements, shape: dims } = of
  if (elements === null || !areNumbers(dims) || !areNumbers(shape)) return null
  return positionsIn(shape).map(
    (at) => elements[from(at).reduce((place, each, axis) => place * dims[axis]! + each, 0)]!,
  )
}

const Concat: Rule = (op) => {
  const parts = op.inputs.map((_, index) => op.raw(index))
  return joined(parts, op.axis(parts[0]!.shape.length, 1))
}

/** Tensors concatenated along an axis. */
export function joined(parts: readonly Tensor[], axis: number): Tensor {
  const first = parts[0]!
  if (parts.length === 1) return first
  for (const part of parts) checkRank(part, first.shape.length)
  takeSteps(parts.length * first.shape.length)
  const rows = parts.find((part) => part.rows !== null)?.rows ?? null
  if (rows !== null) {
    if (rows.axis === axis)
      dependent(`it puts something before or behind the rows along dimension ${axis}, which counts them`)
    const fixed = parts.find((part) => part.rows === null)
    if (fixed !== undefined)
      dependent(
        `one of its inputs has ${shown(fixed.shape[rows.axis]!)} entries where the rows are counted, which fit only one number of rows`,
      )
    if (parts.some((part) => !sameRows(part.rows!, rows))) ordersDiffer()
  }
  // What is empty ONNX Runtime leaves out, whatever its other dimensions are.
  const mayDiffer = (at: number) =>
    at !== axis &&
    at !== rows?.axis &&
    parts.some(
      ({ shape }) =>
        !isSame(shape[at]!, first.shape[at]!) &&
        !(isAtLeast(shape[at]!, 1) && isAtLeast(first.shape[at]!, 1)),
    )
  if (first.shape.some((_, at) => mayDiffer(at)))
    return notFollowed('cannot tell whether one of its inputs is empty')
  const shape = first.shape.map((dim, at) =>
    at === axis
      ? parts.map((part) => part.shape[at]!).reduce(add)
      : at === rows?.axis
        ? extent(rows)
        : parts.reduce((one, { shape: other }) => broadcastDims(one, other[at]!) ?? one, dim),
  )
  const { type } = first
  if (rows === null) {
    const isFlat = first.shape.length === 1 && parts.every(({ elements }) => elements !== null)
    if (isFlat)
      return withElements(
        type,
        shape,
        parts.flatMap(({ elements }) => elements!),
      )
    if (parts.some(({ elements }) => elements?.some(ofRows))) dependsOnCount()
    return tensor(type, shape, { bound: boundOfAll(parts) })
  }
  const columns = columnsOf(parts, axis)
  if (columns !== null) return tensor(type, shape, { rows, columns })
  return tensor(type, shape, {
    rows,
    bound: boundOfAll(parts),
    nonZero: parts.every(({ nonZero }) => nonZero),
  })
}

/** The bound of the elements of all; `null` if unknown. */
function boundOfAll(parts: readonly Tensor[]): Dim | null {
  return parts.reduce((one, other) => ({ ...one, bound: boundOfBoth(one, other) })).bound
}

/** Places by entry of the last dimension, along which the components of indices are concatenated. */
function columnsOf(parts: readonly Tensor[], axis: number): (Place | null)[] | null {
  if (parts.every(({ place, columns }) => place === null && columns === null)) return null
  const ofPart = ({ place, columns, shape }: Tensor): readonly (Place | null)[] => {
    const length = shape[axis]!
    if (axis !== shape.length - 1 || typeof length !== 'number') return dependsOnPlaces()
    return columns ?? Array.from({ length }, () => place)
  }
  return parts.flatMap(ofPart)
}

const Split: Rule = (op) => {
  const of = op.raw(0)
  const axis = op.axis(of.shape.length, 0)
  const dim = of.shape[axis]!
  const given = op.version < 13 ? op.ints('split') : op.has(1) ? op.elements(1, 'lengths') : null
  const count = op.int('num_outputs', op.outputCount)
  const isEven = divide(dim, count) !== null
  const each =
    typeof dim === 'number' ? Math.ceil(dim / count) : (divide(dim, count) ?? lengthOf('part', [dim, count]))
  let from: Dim = 0
  return Array.from({ length: op.outputCount }, (_, index) => {
    const length =
      given?.[index] ??
      (typeof dim === 'number' && typeof each === 'number'
        ? Math.min(each, dim - index * each)
        : isEven || index < count - 1
          ? each
          : lengthOf('last part', [dim, count]))
    if (!isSame(length, dim)) apart(of, [axis], 'divides')
    const start = from
    from = add(from, length)
    return partOf(of, axis, length, typeof start === 'number' ? start : null)
  })
}

/** Some of the entries along an axis without rows. @param start `null` if unknown. */
function partOf(of: Tensor, axis: number, length: Dim, start: number | null, step = 1): Tensor {
  const shape = of.shape.with(axis, length)
  const elements = start === null ? null : picked(of, shape, (at) => at.with(axis, start + at[axis]! * step))
  if (elements !== null) return withElements(of.type, shape, elements)
  return moved(of, shape, of.rows)
}

const Slice: Rule = (op) => {
  const of = op.raw(0)
  const read = (name: string, index: number) =>
    op.version < 10 ? op.ints(name) : op.has(index) ? op.raw(index) : null
  const dimsOf = (given: readonly number[] | Tensor | null, what: string): readonly (Dim | null)[] | null => {
    if (given === null) return null
    const within = (place: Dim) =>
      typeof place === 'number' ? Math.max(-(2 ** 50), Math.min(place, 2 ** 50)) : place // beyond any length, and counted with exactly
    if (!('kind' in given)) return given.map(within)
    if (given.rows !== null) return dependent(`its ${what} depend on what the rows hold`)
    return (
      given.elements?.map(within) ??
      (typeof given.shape[0] === 'number'
        ? Array.from({ length: given.shape[0] }, () => null)
        : notFollowed(`its ${what} are not known`))
    )
  }
  const starts = dimsOf(read('starts', 1), 'starts') ?? notFollowed('its starts are missing')
  const ends = dimsOf(read('ends', 2), 'ends') ?? notFollowed('its ends are missing')
  const steps = dimsOf(read('steps', 4), 'steps')
  const axes = dimsOf(read('axes', 3), 'axes') ?? starts.map((_, index) => index)
  let result = of
  for (const [index, given] of axes.entries()) {
    if (typeof given !== 'number') return notFollowed('its axes are not known')
    result = sliced(
      result,
      axisIn(given, of.shape.length),
      starts[index]!,
      ends[index]!,
      steps === null ? 1 : steps[index]!,
      `${op.label} ${index}`,
    )
  }
  return result
}

/** @param start `null`, and so are the others, if unknown. */
function sliced(
  of: Tensor,
  axis: number,
  start: Dim | null,
  end: Dim | null,
  step: Dim | null,
  label: string,
): Tensor {
  const dim = of.shape[axis]!
  const isAll =
    start !== null &&
    end !== null &&
    step === 1 &&
    (start === 0 || (typeof start === 'number' && typeof dim === 'number' && start <= -dim)) &&
    isAtLeast(subtract(end, dim), 0)
  // A length that is given as the largest number there is, whatever the tensor's is.
  if (isAll || (start === 0 && step === 1 && typeof end === 'number' && end >= 2 ** 31 - 1)) return of
  apart(of, [axis], 'takes some of the entries')
  if ([start, end, step].some((each) => each !== null && ofRows(each)))
    dependent('which entries it takes depends on the number of rows')
  if (start === null || end === null || typeof step !== 'number')
    return partOf(of, axis, lengthOf('slice', [dim, opaque(label, [], anything)]), null)
  const mayCountFromEnd = [start, end].some((each) => typeof each !== 'number' && !isAtLeast(each, 0))
  // Backwards, ONNX Runtime takes the largest number that there is for an end before the beginning.
  const isEitherEnd = step < 0 && typeof end === 'number' && end >= 2 ** 31 - 1
  if (mayCountFromEnd || isEitherEnd)
    return partOf(of, axis, lengthOf('slice', [dim, start, end, step]), null)
  // What is below 0 counts from the end.
  const own = (place: Dim) => (typeof place === 'number' && place < 0 ? add(dim, place) : place)
  const within = (place: Dim, least: number, most: Dim) =>
    typeof place === 'number' && Math.abs(place) >= 2 ** 31 - 1
      ? place < 0
        ? least
        : most
      : maximum(minimum(own(place), most), least)
  const from = within(start, 0, step > 0 ? dim : subtract(dim, 1))
  const to = within(end, step > 0 ? 0 : -1, dim)
  const count = step > 0 ? subtract(to, from) : subtract(from, to)
  const isInOrder = step > 0 && (isSame(to, dim) || isAtLeast(subtract(own(end), own(start)), 0))
  const length = floorOf(add(isInOrder ? count : maximum(count, 0), Math.abs(step) - 1), Math.abs(step))
  return partOf(of, axis, length, typeof from === 'number' ? from : null, step)
}

/** Broadcasts a tensor to a shape. */
const Expand: Rule = (op) => {
  const [of, target] = [op.raw(0), op.counts(1, 'the shape')]
  checkDims(target.length)
  const rank = Math.max(of.shape.length, target.length)
  const ownAt = (axis: number) => of.shape[axis - rank + of.shape.length] ?? 1
  const targetAt = (axis: number) => target[axis - rank + target.length] ?? 1
  let rows: Rows | null = of.rows && { ...of.rows, axis: of.rows.axis + rank - of.shape.length }
  const shape = Array.from({ length: rank }, (_, axis) => {
    const [own, to] = [ownAt(axis), targetAt(axis)]
    if (axis === rows?.axis)
      return isSame(to, 1) || isSame(own, to)
        ? own
        : typeof to === 'number' || ofRows(to)
          ? dependent(`the rows get the length ${shown(to)}`)
          : notFollowed(`cannot tell whether the rows get the length ${shown(to)}`)
    // ONNX Runtime gives what is to become no entry at all one.
    if (!isSame(own, to) && !isAtLeast(to, 1))
      return typeof to === 'number' || ofRows(to)
        ? notFollowed(`cannot tell whether a length of ${shown(to)} is 0`)
        : lengthOf('expanded', [own, to])
    if (ofRows(to)) {
      if (own !== 1) return dependent(`${shown(own)} entries get a length that depends on the number of rows`)
      if (of.rows !== null) return dependent('each row is repeated for every other row')
      return to
    }
    return broadcastDims(own, to) ?? notFollowed(`a length of ${shown(own)} cannot become ${shown(to)}`)
  })
  if (rows === null && shape.some(ofRows)) rows = rowsOfShape(shape)
  const { elements } = of
  if (elements !== null && areNumbers(shape) && areNumbers(of.shape) && countOf(shape) <= mostElements) {
    const places = broadcastPlaces(of.shape, shape)
    return withElements(
      of.type,
      shape,
      places.map((place) => elements[place]!),
    )
  }
  return moved(of, shape, rows)
}

/** The rows of a shape that depends on their number. */
function rowsOfShape(shape: readonly Dim[]): Rows {
  return findRows(shape) ?? dependent(`the shape ${shownDims(shape)} is not a multiple of the number of rows`)
}

const Tile: Rule = (op) => {
  const of = op.raw(0)
  const repeats = op.counts(1, 'repeats')
  const [copies] = repeats
  const { elements } = of
  const isFlat = elements !== null && of.shape.length === 1
  if (isFlat && typeof copies === 'number' && copies * elements.length <= mostElements) {
    const repeated = Array.from({ length: copies }, () => elements).flat()
    return withElements(of.type, [repeated.length], repeated)
  }
  let rows = of.rows
  const shape = of.shape.map((dim, axis) => {
    const times = repeats[axis] ?? 1
    if (!ofRows(times)) {
      if (axis === of.rows?.axis) rows = { ...of.rows, outer: multiply(of.rows.outer, times) }
      return multiply(dim, times)
    }
    const own = perRow(times)
    if (rows !== null || own !== 1)
      return dependent('how often it repeats its input depends on the number of rows')
    rows = { axis, outer: 1, inner: dim }
    return multiply(dim, times)
  })
  return moved(of, shape, rows)
}

const Pad: Rule = (op) => {
  const of = op.data(0)
  const given: readonly Dim[] =
    op.version < 11 && op.operator === 'Pad' && !op.has(1)
      ? (op.ints('pads') ?? op.ints('paddings') ?? notFollowed('pads are missing'))
      : op.elements(1, 'pads')
  const axes = op.has(3)
    ? op.numbers(3, 'axes').map((axis) => axisIn(axis, of.shape.length))
    : [...of.shape.keys()]
  if (op.has(2)) op.shared(2, 'the value of padding')
  const shape = [...of.shape]
  for (const [index, axis] of axes.entries()) {
    const [low, high] = [given[index]!, given[index + axes.length] ?? notFollowed('it has too few pads')]
    if (low === 0 && high === 0) continue
    apart(of, [axis], 'pads')
    // ONNX Runtime goes around once, and reads beyond the row where that is not enough.
    const fits = [low, high].every((pad) => isAtLeast(pad, 0) && isAtLeast(subtract(of.shape[axis]!, pad), 0))
    if (op.string('mode', 'constant') === 'wrap' && !fits)
      return notFollowed('cannot tell whether its pads are longer than what they repeat')
    shape[axis] = add(add(shape[axis]!, low), high)
  }
  return tensor(of.type, shape, { rows: of.rows })
}

const Shape: Rule = (op) => {
  const { shape } = op.raw(0)
  const dims = shape.slice(op.int('start', 0), op.hasAttribute('end') ? op.int('end', 0) : undefined)
  return withElements(elementType.int64, [dims.length], dims)
}

const ConstantOfShape: Rule = (op) => {
  const value = op.attribute('value')?.tensor ?? { type: elementType.float32, elements: [0] }
  const given = op.raw(0)
  if (given.elements === null && given.rows === null && typeof given.shape[0] === 'number') {
    const lengths = Array.from({ length: given.shape[0] }, (_, axis) => lengthOf(`${op.label} ${axis}`))
    return tensor(value.type, lengths)
  }
  const shape = op.counts(0, 'the shape')
  const fill = value.elements?.[0] ?? null
  const nonZero = fill !== null && fill !== 0
  if (shape.some(ofRows)) return tensor(value.type, shape, { rows: rowsOfShape(shape), nonZero })
  const count = product(shape)
  if (fill !== null && typeof count === 'number' && count <= mostElements)
    return withElements(value.type, shape, Array<Dim>(count).fill(fill))
  return tensor(value.type, shape, {
    nonZero,
    bound: fill !== null && Number.isInteger(fill) && fill >= 0 ? fill + 1 : null,
  })
}

const Range: Rule = (op) => {
  const parts = [op.raw(0), op.raw(1), ...(op.has(2) ? [op.raw(2)] : [])]
  const { type } = parts[0]!
  if (parts.some(({ rows }) => rows !== null)) dependent('how long it is depends on what the rows hold')
  if (parts.some(({ elements }) => elements === null)) return tensor(type, [lengthOf(`range ${op.label}`)])
  const [start, limit] = [parts[0]!.elements![0]!, parts[1]!.elements![0]!]
  const delta = parts[2] === undefined ? 1 : parts[2].elements![0]!
  if ([start, limit, delta].some(ofRows)) {
    if (!isInteger(type)) return dependsOnCount() // floats are counted up to 2^24
    const per = perRow(limit)
    if (start !== 0 || per === null || !isAtLeast(per, 1)) return dependsOnCount()
    if (delta === 1)
      return tensor(type, [limit], {
        rows: { axis: 0, outer: 1, inner: per },
        place: { stride: per, bound: per },
      })
    return isSame(delta, per)
      ? tensor(type, [rowDim], { rows: rowsAt(0), place: { stride: per, bound: 1 } })
      : dependsOnPlaces()
  }
  if (typeof start === 'number' && typeof limit === 'number' && typeof delta === 'number') {
    const length = Math.max(0, Math.ceil((limit - start) / delta))
    const isInt = type === elementType.int64 || type === elementType.int32
    return length <= mostElements && isInt
      ? withElements(
          type,
          [length],
          Array.from({ length }, (_, index) => start + index * delta),
        )
      : tensor(type, [length])
  }
  const steps = subtract(limit, start)
  const isKnown = delta === 1 && isWhole(steps) && isAtLeast(steps, 0)
  return tensor(type, [isKnown ? steps : lengthOf('range', [start, limit, delta])], {
    bound: delta === 1 && isAtLeast(start, 0) ? limit : null,
  })
}

/** The indices of nonzero elements are places of rows if no element is 0. */
const NonZero: Rule = (op) => {
  const of = op.data(0)
  const { rows, shape } = of
  if (shape.length === 0)
    return notFollowed('cannot tell whether a single number has dimensions in its result')
  if (rows === null) {
    if (shape.length === 1 && of.elements !== null && areNumbers(of.elements)) {
      const places = of.elements.flatMap((element, index) => (element === 0 ? [] : [index]))
      return withElements(elementType.int64, [1, places.length], places)
    }
    const isFull = of.nonZero && shape.length === 1
    const count = isFull ? shape[0]! : lengthOf(`entries of ${op.label}`)
    const bound = shape.length === 1 ? shape[0]! : null
    return tensor(elementType.int64, [shape.length, count], { bound })
  }
  if (!of.nonZero || shape.length !== 1 || !isSame(rows.outer, 1))
    return dependent('how many entries it gives depends on what the rows hold')
  return tensor(elementType.int64, [1, shape[0]!], {
    rows: { ...rows, axis: 1 },
    place: { stride: rows.inner, bound: rows.inner },
  })
}

/** Rearranges blocks of depth and space in each image, whose dimensions are `[N, C, H, W]`. */
function blocks(isDepth: boolean): Rule {
  return (op) => {
    const of = op.data(0)
    checkRank(of, 4)
    rowsOnly(of, [0], 'moves blocks')
    const size = op.int('blocksize', 1)
    const [n, c, h, w] = of.shape as [Dim, Dim, Dim, Dim]
    const shape = isDepth
      ? [n, floorOf(c, size * size), multiply(h, size), multiply(w, size)]
      : [n, multiply(c, size * size), floorOf(h, size), floorOf(w, size)]
    return tensor(of.type, shape, { rows: of.rows })
  }
}

/**
 * Scales each dimension. That of the rows must have scale 1 and no interpolation: what is multiplied by 0
 * there may be infinite.
 */
const Resize: Rule = (op) => {
  const of = op.data(0)
  const { rows } = of
  const isOld = op.operator === 'Upsample' || op.version < 11
  const axes = op.ints('axes')?.map((axis) => axisIn(axis, of.shape.length)) ?? [...of.shape.keys()]
  const [scaleInput, sizeInput] = isOld ? [1, -1] : [2, 3]
  const keepsRatio = op.string('keep_aspect_ratio_policy', 'stretch') !== 'stretch'
  if (
    rows !== null &&
    axes.includes(rows.axis) &&
    (keepsRatio || op.string('coordinate_transformation_mode', 'half_pixel') === 'tf_crop_and_resize')
  )
    return notFollowed('what it does along the rows depends on other dimensions')
  const hasSizes = sizeInput !== -1 && op.has(sizeInput)
  const given = hasSizes ? op.raw(sizeInput) : op.has(scaleInput) ? op.raw(scaleInput) : null
  if (given !== null && given.rows !== null) return dependent('its scales depend on what the rows hold')
  const listed = given === null ? op.attribute('scales')?.floats : given.elements
  const shape = of.shape.map((dim, axis): Dim => {
    const at = axes.indexOf(axis)
    if (at === -1) return dim
    const isRows = axis === rows?.axis
    const value = listed?.[at]
    if (value === undefined)
      return isRows ? notFollowed('its scales are not known') : lengthOf(`${op.label} ${axis}`)
    if (!isRows && ofRows(value)) return dependent('its scales depend on the number of rows')
    if (isRows && !isSame(value, hasSizes ? dim : 1))
      return dependent(`it scales dimension ${axis}, which counts the rows`)
    if (isRows) return dim
    if (keepsRatio || typeof value !== 'number')
      return hasSizes && !keepsRatio ? value : lengthOf(`${op.label} ${axis}`, [dim])
    if (hasSizes) return value
    // Computed in 32 bits.
    return typeof dim === 'number'
      ? Math.floor(Math.fround(dim * value))
      : Number.isInteger(value) && rangeOf(multiply(dim, value)).most <= 2 ** 24
        ? multiply(dim, value)
        : lengthOf(`${op.label} ${axis}`, [dim])
  })
  if (rows !== null && op.string('mode', 'nearest') !== 'nearest' && (rows.axis !== 0 || of.shape.length < 4))
    return notFollowed('cannot tell whether it interpolates along the rows')
  return tensor(of.type, shape, { rows })
}

const CenterCropPad: Rule = (op) => {
  const of = op.data(0)
  const axes = op.ints('axes')?.map((axis) => axisIn(axis, of.shape.length)) ?? [...of.shape.keys()]
  const to = op.counts(1, 'the shape')
  const shape = [...of.shape]
  for (const [index, axis] of axes.entries()) {
    if (isSame(to[index]!, shape[axis]!)) continue
    apart(of, [axis], 'crops')
    if (ofRows(to[index]!)) dependent('how much it crops depends on the number of rows')
    shape[axis] = to[index]!
  }
  return tensor(of.type, shape, { rows: of.rows })
}

/** Depends on the position in a matrix, so the last two dimensions must belong to one row. */
const triangle: Rule = (op) => {
  const of = op.data(0)
  apart(of, [of.shape.length - 1, of.shape.length - 2], 'keeps a triangle')
  if (op.has(1)) op.shared(1, 'the diagonal')
  return like(of)
}

const Identity: Rule = (op) => op.value(0)!

const Constant: Rule = (op) => {
  const of = op.attribute('value')?.tensor
  if (of !== undefined) return constantOf(of)
  const { int64, float32 } = elementType
  const [int, float] = [op.attribute('value_int')?.i, op.attribute('value_float')?.f]
  if (int !== undefined) return withElements(int64, [], [int])
  if (float !== undefined) return withElements(float32, [], [float])
  for (const [name, type, key] of [
    ['value_ints', int64, 'ints'],
    ['value_floats', float32, 'floats'],
  ] as const) {
    const list = op.attribute(name)
    if (list === null) continue
    const elements = list[key] ?? notFollowed('it has too many numbers')
    return withElements(type, [elements.length], elements)
  }
  const strings = op.attribute('value_strings')?.strings
  if (strings !== undefined) return tensor(elementType.string, [strings.length])
  if (op.hasAttribute('value_string')) return tensor(elementType.string, [])
  return notFollowed('it has no value that can be read')
}

/** A tensor of the file. */
export function constantOf({ type, dims, elements }: StoredTensor): Tensor {
  return elements === null ? tensor(type, dims) : withElements(type, dims, elements)
}

/** Computed from a shape only, and so the same for all rows. */
const EyeLike: Rule = (op) => {
  const of = op.raw(0)
  return tensor(op.int('dtype', of.type), of.shape)
}

export const movement: Rules = {
  Identity,
  Constant,
  Shape,
  Size: (op) => withElements(elementType.int64, [], [product(op.raw(0).shape)]),
  Reshape,
  Flatten,
  Squeeze,
  Unsqueeze,
  'com.microsoft:ExpandDims': (op) => {
    const of = op.raw(0)
    return withAxes(of, [axisIn(op.numbers(1, 'the axis')[0]!, of.shape.length + 1)])
  },
  Transpose,
  Concat,
  Split,
  Slice,
  Expand,
  Tile,
  Pad,
  'com.microsoft:Pad': Pad,
  ConstantOfShape,
  Range,
  'com.microsoft:Range': Range,
  NonZero,
  DepthToSpace: blocks(true),
  SpaceToDepth: blocks(false),
  Resize,
  Upsample: Resize,
  CenterCropPad,
  Trilu: triangle,
  'com.microsoft:Trilu': triangle,
  EyeLike,
}
