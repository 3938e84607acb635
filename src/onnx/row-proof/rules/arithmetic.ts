import {
  add,
  areNumbers,
  countOf,
  divide,
  floorOf,
  isAtLeast,
  isSame,
  isWhole,
  maximum,
  minimum,
  multiply,
  ofRows,
  opaque,
  rangeOf,
  rowDim,
  subtract,
  takeSteps,
  type Dim,
  type Range,
} from '../dims.ts'
import {
  apart,
  broadcast,
  dependsOnCount,
  forEach,
  isInteger,
  like,
  type Operation,
  type Rule,
  type Rules,
  dependsOnPlaces,
} from '../operation.ts'
import {
  countsRows,
  elementType,
  mostElements,
  tensor,
  type Fault,
  type Place,
  type Tensor,
} from '../followed-values.ts'
import { dependent, notFollowed } from '../not-proved.ts'

/**
 * Operators that work element by element, on inputs that are broadcast together. Shapes are also computed
 * with them, so known elements are followed. Source: onnx.ai/onnx/operators/onnx__NAME.html, Multidirectional
 * Broadcasting.
 */

/** Computes an element of the result from those of the inputs; `null` if it is not followed. */
type Calculate = (of: readonly Dim[], type: number, op: Operation) => Dim | null

/** The rule of an operator that works element by element. */
export function elementWise(
  type: number | null = null,
  calculate: Calculate | null = null,
): (op: Operation) => Tensor | Fault {
  return (op) => {
    const known = calculate === null ? null : calculated(op, type, calculate)
    if (known !== null) return known
    const inputs = [...op.inputs.keys()].filter((index) => op.has(index)).map((index) => op.indices(index))
    const { shape, rows } = broadcast(inputs)
    // PyTorch's exporter asks for the shape alone of the largest of several indices, rows' own among them.
    if (inputs.some(({ place, columns }) => place !== null || columns !== null))
      return { ...op.fault('dependent', 'a value depends on the places of rows in the batch'), shape }
    return tensor(type ?? op.raw(0).type, shape, { rows })
  }
}

/** The result with its elements; `null` if they are unknown, or too many. */
function calculated(op: Operation, type: number | null, calculate: Calculate): Tensor | null {
  const inputs = op.inputs.flatMap((_, index) => (op.has(index) ? [op.raw(index)] : []))
  if (inputs.length === 0 || inputs.some(({ elements, shape }) => elements === null || !areNumbers(shape)))
    return null
  const shape = broadcast(inputs).shape as readonly number[]
  if (countOf(shape) > mostElements || !inputs.every(({ type }) => isExact(type))) return null
  const outOfType = () => (inputs.some(countsRows) ? mayWrap() : null)
  if (inputs.some(({ elements, type }) => !isFloat(type) && !elements!.every((each) => isWithin(each, type))))
    return outOfType()
  const own = type ?? inputs[0]!.type
  const places = inputs.map((input) => broadcastPlaces(input.shape as readonly number[], shape))
  const elements = Array.from({ length: countOf(shape) }, (_, at) => {
    const of = inputs.map((input, index) => input.elements![places[index]![at]!]!)
    const element = calculate(of, inputs[0]!.type, op)
    if (element === null) return null
    if (!(isFloat(own) ? isExactAsFloat(element, own) : isWithin(element, own))) return outOfType()
    return typeof element === 'number' && own === float32 ? Math.fround(element) : element
  })
  return elements.every((element) => element !== null) ? withElements(own, shape, elements) : null
}

/** With lengths that are known it may be known. */
const mayWrap = () =>
  notFollowed('cannot tell whether numbers that depend on the number of rows stay within their type')

/**
 * A tensor with known elements, and what follows from them. If an element is infinite, or neither 0 nor 1 in
 * a boolean tensor, the elements count as unknown.
 */
export function withElements(type: number, shape: readonly Dim[], elements: readonly Dim[]): Tensor {
  takeSteps(elements.length)
  const numbers = areNumbers(elements) ? elements : null
  const isIndex = isInteger(type) && numbers?.every((element) => element >= 0) === true
  const nonZero = numbers?.every((element) => element !== 0) === true
  const isUsable = elements.every(
    (element) =>
      typeof element !== 'number' ||
      (type === bool ? element === 0 || element === 1 : Number.isFinite(element)),
  )
  if (!isUsable && elements.some(ofRows)) dependsOnCount()
  return tensor(type, shape, {
    elements: isUsable ? elements : null,
    nonZero,
    bound: isIndex ? numbers!.reduce((most, element) => Math.max(most, element), -1) + 1 : null,
  })
}

/** Steps for each element whose place is computed. */
const stepsOfElement = 16

/** The positions of all elements of a shape, in their order. */
export function positionsIn(shape: readonly number[]): number[][] {
  takeSteps(stepsOfElement * countOf(shape))
  return Array.from({ length: countOf(shape) }, (_, index) => {
    const at: number[] = []
    for (let axis = shape.length - 1, rest = index; axis >= 0; axis--) {
      at.unshift(rest % shape[axis]!)
      rest = Math.floor(rest / shape[axis]!)
    }
    return at
  })
}

/** For each element of a shape, the index of the element that is broadcast to it. */
export function broadcastPlaces(from: readonly number[], to: readonly number[]): number[] {
  const offset = to.length - from.length
  return positionsIn(to).map((at) =>
    from.reduce((place, length, axis) => place * length + (length === 1 ? 0 : at[axis + offset]!), 0),
  )
}

const { bool, int32, int64, float32, float64 } = elementType
/** Types that shapes are computed in: sums and products of lengths are exact in them. */
const isExact = (type: number) =>
  type === int64 || type === int32 || type === float32 || type === float64 || type === bool
/** Whether a number is exact in a type, and does not overflow. */
export const isWithin = (dim: Dim, type: number) => {
  if (typeof dim === 'number') return Math.abs(dim) < (type === int32 ? 2 ** 31 : 2 ** 53)
  const most = type === int32 ? 2 ** 31 : 2 ** 63
  return dim.range.least >= -most && dim.range.most < most
}

/**
 * Whether a float represents the value exactly for all values of its symbols: it is a multiple of a power of
 * 2 with no more bits than a float has.
 */
function isExactAsFloat(dim: Dim, type: number): boolean {
  if (typeof dim === 'number') return true
  if (!dim.terms.every(({ factors }) => factors.every((factor) => factor.isWhole))) return false
  let unit = 256
  while (unit > 1 / 256 && dim.terms.some(({ coefficient }) => !Number.isInteger(coefficient / unit)))
    unit /= 2
  const { least, most } = dim.range
  return (
    dim.terms.every(({ coefficient }) => Number.isInteger(coefficient / unit)) &&
    Math.max(-least, most) / unit <= (type === float32 ? 2 ** 24 : 2 ** 53)
  )
}

/** A place whose numbers do not overflow. */
function placeWithin(place: Place, type: number): Place {
  if ((type === int64 || type === int32) && isWithin(add(multiply(rowDim, place.stride), place.bound), type))
    return place
  return notFollowed('cannot tell whether an index stays within the numbers of its type')
}

const isFloat = (type: number) => !isInteger(type) && type !== bool

/** ONNX's division; for integers it rounds towards 0. */
function quotient(a: Dim, b: Dim, type: number): Dim | null {
  if (typeof a === 'number' && typeof b === 'number')
    return isFloat(type) ? a / b : b === 0 ? null : Math.trunc(a / b)
  const exact = isNever0(b) ? divide(a, b) : null
  if (exact !== null) return exact
  if (isFloat(type)) return typeof b === 'number' && b !== 0 ? multiply(a, 1 / b) : null
  if (typeof b === 'number' && b > 0 && isAtLeast(a, 0)) return floorOf(a, b) // where rounding towards 0 is rounding down
  const most = Math.max(-rangeOf(a).least, rangeOf(a).most)
  return isNever0(b)
    ? opaque('quotient', [a, b], { least: isAtLeast(a, 0) && isAtLeast(b, 0) ? 0 : -most, most })
    : null
}

const isNever0 = (dim: Dim) => rangeOf(dim).least > 0 || rangeOf(dim).most < 0

function remainder(a: Dim, b: Dim, op: Operation): Dim | null {
  const isOfFirst = op.int('fmod', 0) === 1 // it has the sign of the first number, not of the second
  if (typeof a === 'number' && typeof b === 'number')
    return b === 0 ? null : isOfFirst ? a % b : ((a % b) + b) % b
  if (!isNever0(b)) return null
  const most = Math.max(-rangeOf(b).least, rangeOf(b).most)
  return divide(a, b) === null
    ? opaque(isOfFirst ? 'fmod' : 'mod', [a, b], {
        least: isAtLeast(a, 0) && isAtLeast(b, 0) ? 0 : -most,
        most,
      })
    : 0
}

const eitherWay: Range = { least: 0, most: 1 }

function equal(a: Dim, b: Dim): Dim {
  if (isSame(a, b)) return 1
  const { least, most } = rangeOf(subtract(a, b))
  return least > 0 || most < 0 ? 0 : opaque('equal', [a, b], eitherWay, { isWhole: true })
}

/**
 * @param least smallest difference of the two numbers that counts as above: 1 for greater, 0 for greater or
 * equal.
 */
function above(a: Dim, b: Dim, least: 0 | 1): Dim {
  if (typeof a === 'number' && typeof b === 'number') return Number(least === 1 ? a > b : a >= b)
  const range = rangeOf(subtract(a, b))
  if (least === 1 ? range.least > 0 : range.least >= 0) return 1
  return (least === 1 ? range.most <= 0 : range.most < 0)
    ? 0
    : opaque(least === 1 ? 'above' : 'not below', [a, b], eitherWay, { isWhole: true })
}

function whole(a: Dim, of: (value: number) => number, name: string): Dim {
  if (typeof a === 'number') return of(a)
  if (isWhole(a) || name === 'floor') return isWhole(a) ? a : floorOf(a)
  const { least, most } = a.range
  return opaque(name, [a], { least: Math.floor(least), most: Math.ceil(most) }, { isWhole: true })
}

const negated = (a: Dim) => subtract(1, a)

/** A power on which all ways of computing it agree. */
function wholePower(a: number, b: number): number | null {
  const power = a ** b
  return Number.isInteger(a) && Number.isInteger(b) && b >= 0 && Math.abs(power) < 2 ** 24 ? power : null
}

/**
 * The sum of a row's place and a number stays a place if the number belongs to the row, or is the same for
 * all, and is bounded.
 */
const Add: Rule = (op) => {
  const [a, b] = [op.raw(0), op.raw(1)]
  const plain = elementWise(null, ([x, y]) => add(x!, y!))
  if (a.place === null && b.place === null) return plain(op)
  if (countsRows(a) || countsRows(b)) return dependsOnCount()
  const { shape, rows } = broadcast([a, b])
  const boundOf = (value: Tensor) =>
    value.place?.bound ?? value.bound ?? notFollowed('cannot tell whether an index stays within its row')
  const stride =
    a.place !== null && b.place !== null ? add(a.place.stride, b.place.stride) : (a.place ?? b.place)!.stride
  return tensor(a.type, shape, {
    rows,
    place: placeWithin({ stride, bound: subtract(add(boundOf(a), boundOf(b)), 1) }, a.type),
  })
}

const Mul: Rule = (op) => {
  const [a, b] = [op.raw(0), op.raw(1)]
  if (a.place === null && b.place === null) return elementWise(null, ([x, y]) => multiply(x!, y!))(op)
  const [own, other] = a.place === null ? [b, a] : [a, b]
  const factor = loneElement(other)
  if (factor === null || ofRows(factor) || !isAtLeast(factor, 0)) return dependsOnPlaces()
  const { shape, rows } = broadcast([a, b])
  const { stride, bound } = own.place!
  return tensor(a.type, shape, {
    rows,
    place: placeWithin(
      { stride: multiply(stride, factor), bound: add(multiply(subtract(bound, 1), factor), 1) },
      a.type,
    ),
  })
}

/** Whether a number divides places by the distance of rows: the quotient is the row, the remainder is in its part. */
function dividesRows({ place }: Tensor, divisor: Dim | null): boolean {
  return (
    place !== null &&
    divisor !== null &&
    isSame(divisor, place.stride) &&
    isAtLeast(subtract(divisor, place.bound), 0)
  )
}

/** The element of a tensor that has one; else `null`. */
const loneElement = ({ elements }: Tensor) => (elements?.length === 1 ? elements[0]! : null)

/** A place modulo the distance of rows is an index within the row's own part. */
const Mod: Rule = (op) => {
  const [a, b] = [op.raw(0), op.raw(1)]
  const divisor = loneElement(b)
  const { shape, rows } = broadcast([a, b])
  if (dividesRows(a, divisor)) return tensor(a.type, shape, { rows, bound: a.place!.bound })
  const plain = elementWise(null, ([x, y]) => remainder(x!, y!, op))(op)
  if (plain.kind === 'fault') return plain
  const isBounded = isInteger(a.type) && typeof divisor === 'number' && divisor > 0 && op.int('fmod', 0) === 0
  return isBounded && plain.bound === null ? { ...plain, bound: divisor } : plain
}

const Div: Rule = (op) => {
  const [a, b] = [op.raw(0), op.raw(1)]
  if (dividesRows(a, loneElement(b)) && isInteger(a.type)) {
    const { shape, rows } = broadcast([a, b])
    return tensor(a.type, shape, { rows, place: { stride: 1, bound: 1 } })
  }
  return elementWise(null, ([x, y], type) => quotient(x!, y!, type))(op)
}

const Where: Rule = (op) => {
  const known = calculated(op, op.raw(1).type, ([condition, x, y]) =>
    typeof condition === 'number'
      ? condition === 0
        ? y!
        : x!
      : isSame(x!, y!)
        ? x!
        : eitherOf(condition!, x!, y!),
  )
  if (known !== null) return known
  const { shape, rows } = broadcast(op.all())
  const [x, y] = [op.raw(1), op.raw(2)]
  return tensor(x.type, shape, { rows, bound: boundOfBoth(x, y) })
}

function eitherOf(condition: Dim, x: Dim, y: Dim): Dim {
  const [one, other] = [rangeOf(x), rangeOf(y)]
  return opaque('where', [condition, x, y], {
    least: Math.min(one.least, other.least),
    most: Math.max(one.most, other.most),
  })
}

/** The bound of all elements of both; `null` if unknown. */
export function boundOfBoth(a: Tensor, b: Tensor): Dim | null {
  return a.bound === null || b.bound === null ? null : maximum(a.bound, b.bound)
}

const Cast: Rule = (op) => {
  const type = op.operator === 'Cast' ? op.int('to', elementType.undefined) : op.raw(1).type
  const of = op.raw(0)
  const isWide = type === int64 || type === int32
  if (of.place !== null || of.columns !== null) {
    if (!isWide || !isInteger(of.type)) return dependsOnPlaces()
    for (const place of [of.place, ...(of.columns ?? [])]) if (place !== null) placeWithin(place, type)
    return { ...of, type }
  }
  const elements = of.elements?.map((element) =>
    isInteger(of.type) && !isWithin(element, of.type) ? null : castElement(element, type),
  )
  if (elements?.every((element) => element !== null)) return withElements(type, of.shape, elements)
  if (countsRows(of) && (type === int32 || type === int64 || type === float32 || type === float64))
    return mayWrap()
  const { shape, rows, bound, nonZero } = op.data(0)
  // What does not fit becomes one number or another by where in the tensor it stands.
  if (rows !== null && isFloat(of.type) && (type === elementType.uint32 || type === elementType.uint64))
    return notFollowed('what it makes of negative numbers depends on their places')
  const keepsBound = isWide && bound !== null && isWithin(bound, type)
  const wraps = type === int32 && (of.type === int64 || of.type === elementType.uint64) && !keepsBound
  return tensor(type, shape, {
    rows,
    bound: keepsBound ? bound : null,
    nonZero: nonZero && isInteger(of.type) && (type === bool || (isWide && !wraps)),
  })
}

/**
 * An element cast to another type; `null` if its value may change. Values that depend on the number of rows
 * are kept only as integers.
 */
function castElement(element: Dim, type: number): Dim | null {
  if (type === bool)
    return typeof element === 'number' ? Number(element !== 0) : isAtLeast(element, 1) ? 1 : null
  if (type === int64 || type === int32)
    return isWithin(element, type) ? whole(element, Math.trunc, 'trunc') : null
  if (type !== float32 && type !== float64) return null
  if (!isExactAsFloat(element, type)) return null
  return typeof element === 'number' && type === float32 ? Math.fround(element) : element
}

/** Limits the elements of the first input. The limits may be omitted. */
const Clip: Rule = (op) => {
  const [low, high] =
    op.version < 11
      ? [op.float('min', -Infinity), op.float('max', Infinity)]
      : [1, 2].map((index) =>
          op.has(index) ? (op.raw(index).elements?.[0] ?? null) : index === 1 ? -Infinity : Infinity,
        )
  const of = op.raw(0)
  // Its limits are single numbers, whatever their shape is.
  const areKnown = typeof low === 'number' && typeof high === 'number'
  if (areKnown && of.elements !== null && areNumbers(of.elements) && isExact(of.type)) {
    const clipped = of.elements.map((element) => Math.min(Math.max(element, low), high))
    return withElements(of.type, of.shape, clipped)
  }
  for (const index of [1, 2]) if (op.has(index)) op.shared(index, 'a limit')
  const plain = like(op.data(0))
  const isBounded = isInteger(plain.type) && areKnown && low >= 0 && high >= low && Number.isFinite(high)
  return isBounded ? { ...plain, bound: high + 1 } : plain
}

/**
 * Several inputs. Before version 8 they had to have one shape, so a tensor that is the same for all rows only
 * fitted a single row.
 */
function variadic(calculate: Calculate | null): Rule {
  const fitting = elementWise(null, calculate)
  return (op) => {
    if (
      op.version < 8 &&
      op.inputs.some((_, index) => op.raw(index).rows !== null) &&
      op.all().some(({ rows }) => rows === null)
    )
      return dependent('one of its inputs has no rows, so it fits only one number of rows')
    return fitting(op)
  }
}

/** Adds a number to each entry of the last dimension. */
const biased: Rule = (op) => {
  const of = op.data(0)
  if (op.has(1)) apart(of, [of.shape.length - 1], 'adds a bias')
  return each(op)
}

const each = elementWise()
/** Operators whose elements are not followed: no shape is computed with them. */
const notCalculated = [
  'Acos', 'Acosh', 'Asin', 'Asinh', 'Atan', 'Atanh', 'BitShift', 'BitwiseAnd', 'BitwiseNot', 'BitwiseOr', 'BitwiseXor',
  'Celu', 'Cos', 'Cosh', 'Elu', 'Erf', 'Exp', 'Gelu', 'HardSigmoid', 'HardSwish', 'LeakyRelu', 'Log', 'Mish', 'PRelu',
  'Reciprocal', 'Relu', 'Selu', 'Shrink', 'Sigmoid', 'Sign', 'Sin', 'Sinh', 'Softplus', 'Softsign', 'StringConcat', 'Swish',
  'Tan', 'Tanh', 'ThresholdedRelu', 'com.microsoft:Gelu', 'com.microsoft:QuickGelu',
] // prettier-ignore

export const arithmetic: Rules = {
  ...forEach(notCalculated, each),
  ...forEach(['IsInf', 'IsNaN', 'RegexFullMatch'], elementWise(bool)),
  ...forEach(['com.microsoft:FastGelu', 'com.microsoft:BiasGelu'], biased),
  Add,
  Sub: elementWise(null, ([a, b]) => subtract(a!, b!)),
  Mul,
  Div,
  Mod,
  Neg: elementWise(null, ([a]) => multiply(a!, -1)),
  Abs: elementWise(null, ([a]) => (isAtLeast(a!, 0) ? a! : typeof a === 'number' ? -a : null)),
  Floor: elementWise(null, ([a]) => whole(a!, Math.floor, 'floor')),
  Ceil: elementWise(null, ([a]) => whole(a!, Math.ceil, 'ceil')),
  Round: elementWise(null, ([a]) =>
    whole(
      a!,
      (value) => (Math.abs(value % 1) === 0.5 ? 2 * Math.round(value / 2) : Math.round(value)),
      'round',
    ),
  ),
  Sqrt: elementWise(null, ([a]) => (typeof a === 'number' ? Math.sqrt(a) : null)),
  Pow: elementWise(null, ([a, b]) =>
    typeof a === 'number' && typeof b === 'number'
      ? wholePower(a, b)
      : b === 1
        ? a!
        : b === 2
          ? multiply(a!, a!)
          : null,
  ),
  Min: variadic((all) => all.reduce(minimum)),
  Max: variadic((all) => all.reduce(maximum)),
  Sum: variadic((all, type) => (isFloat(type) && all.length > 2 ? null : all.reduce(add))), // floats are rounded after each
  Mean: variadic(null),
  BitCast: (op) => elementWise(op.int('to', elementType.undefined))(op),
  Clip,
  Equal: elementWise(bool, ([a, b]) => equal(a!, b!)),
  Greater: elementWise(bool, ([a, b]) => above(a!, b!, 1)),
  GreaterOrEqual: elementWise(bool, ([a, b]) => above(a!, b!, 0)),
  Less: elementWise(bool, ([a, b]) => above(b!, a!, 1)),
  LessOrEqual: elementWise(bool, ([a, b]) => above(b!, a!, 0)),
  And: elementWise(bool, ([a, b]) => multiply(a!, b!)),
  Or: elementWise(bool, ([a, b]) => negated(multiply(negated(a!), negated(b!)))),
  Xor: elementWise(bool, ([a, b]) => subtract(add(a!, b!), multiply(2, multiply(a!, b!)))),
  Not: elementWise(bool, ([a]) => negated(a!)),
  Where,
  Cast,
  CastLike: Cast,
}
