import { add, divide, floorOf, isAtLeast, isSame, isWhole, maximum, minimum, multiply, ofRows, opaque, subtract, type Dim } from '../dims.ts'
import { broadcast, isInteger, type Operation, type Rule, type Rules } from '../operation.ts'
import { countsRows, elementType, mostElements, tensor, type Fault, type Tensor } from '../followed-values.ts'
import { meets, notFollowed } from '../not-proved.ts'

/**
 * Operators that work on each element by itself, with those of other inputs in the same place. They are also what shapes are computed
 * with, so that elements that are known are followed. Source: onnx.ai/onnx/operators/onnx__NAME.html, Multidirectional Broadcasting.
 */

/** Computes an element of the result from those of the inputs; `null` where it is not followed. */
type Calculate = (of: readonly Dim[], type: number, op: Operation) => Dim | null

/** The rule of an operator that works element by element. */
export function elementWise(type: number | null = null, calculate: Calculate | null = null): (op: Operation) => Tensor | Fault {
  return (op) => {
    const known = calculate === null ? null : calculated(op, type, calculate)
    if (known !== null) return known
    const inputs = [...op.inputs.keys()].filter((index) => op.has(index)).map((index) => op.indices(index))
    const { shape, rows } = broadcast(inputs)
    // PyTorch's exporter asks for the shape alone of the largest of several indices, rows' own among them.
    if (inputs.some(({ place, columns }) => place !== null || columns !== null)) return { ...op.fault('meets', 'a value depends on the places of rows in the batch'), shape }
    return tensor(type ?? op.raw(0).type, shape, { rows })
  }
}

/** The result with its elements; `null` where they are not known, or too many. */
function calculated(op: Operation, type: number | null, calculate: Calculate): Tensor | null {
  const inputs = op.inputs.map((_, index) => (op.has(index) ? op.raw(index) : null)).filter((input) => input !== null)
  if (inputs.length === 0 || inputs.some(({ elements, shape }) => elements === null || shape.some((dim) => typeof dim !== 'number'))) return null
  const { shape } = broadcast(inputs)
  if ((shape as number[]).reduce((count, dim) => count * dim, 1) > mostElements) return null
  if (!inputs.every((input) => isExact(input.type) && input.elements!.every((element) => isFloat(input.type) || isWithin(element, input.type)))) return null
  const own = type ?? inputs[0]!.type
  const places = inputs.map((input) => broadcastPlaces(input.shape as number[], shape as number[]))
  const elements = Array.from({ length: (shape as number[]).reduce((count, dim) => count * dim, 1) }, (_, at) => {
    const element = calculate(inputs.map((input, index) => input.elements![places[index]![at]!]!), inputs[0]!.type, op)
    if (element === null || !(isFloat(own) ? isExactAsFloat(element) : isWithin(element, own))) return null
    return typeof element === 'number' && own === float32 ? Math.fround(element) : element
  })
  return elements.every((element) => element !== null) ? withElements(own, shape, elements) : null
}

/** A tensor with known elements, and what follows from them. */
export function withElements(type: number, shape: readonly Dim[], elements: readonly Dim[]): Tensor {
  const areNumbers = elements.every((element) => typeof element === 'number')
  const isIndex = areNumbers && isInteger(type) && elements.every((element) => element >= 0)
  return tensor(type, shape, { elements, nonZero: areNumbers && elements.every((element) => element !== 0), bound: isIndex ? Math.max(-1, ...(elements as number[])) + 1 : null })
}

/** Of each element of a shape, which one of a tensor stands there. */
export function broadcastPlaces(from: readonly number[], to: readonly number[]): number[] {
  const count = to.reduce((product, dim) => product * dim, 1)
  const offset = to.length - from.length
  return Array.from({ length: count }, (_, at) => {
    let [rest, place, stride] = [at, 0, 1]
    for (let axis = to.length - 1; axis >= 0; axis--) {
      const index = rest % to[axis]!
      rest = Math.floor(rest / to[axis]!)
      const own = axis < offset ? 1 : from[axis - offset]!
      if (axis >= offset && own !== 1) place += index * stride
      stride *= own
    }
    return place
  })
}

const { bool, int32, int64, float32, float64 } = elementType
/** Types that shapes are computed in: sums and products of lengths stay what they are. */
const isExact = (type: number) => type === int64 || type === int32 || type === float32 || type === float64 || type === bool
/** Small multiples of a length, and halves and quarters of it, are exact in float32 for more than 65 536. */
const isExactAsFloat = (dim: Dim) =>
  typeof dim === 'number' || dim.terms.every(({ coefficient, factors }) => Math.abs(coefficient) <= 256 && Number.isInteger(256 * coefficient) && factors.length <= 1)
/** Numbers that are counted on to be exact here, and to wrap nowhere. */
export const isWithin = (dim: Dim, type: number) => {
  const most = type === int32 ? 2 ** 31 : 2 ** 53
  return typeof dim === 'number' ? Math.abs(dim) < most : dim.terms.every(({ coefficient }) => Math.abs(coefficient) < most)
}
const isFloat = (type: number) => !isInteger(type) && type !== bool

/** Division as ONNX has it: of whole numbers towards 0. */
function quotient(a: Dim, b: Dim, type: number): Dim | null {
  if (typeof a === 'number' && typeof b === 'number') return isFloat(type) ? a / b : b === 0 ? null : Math.trunc(a / b)
  const exact = divide(a, b)
  if (exact !== null) return exact
  if (isFloat(type)) return typeof b === 'number' && b !== 0 ? multiply(a, 1 / b) : null
  if (typeof b === 'number' && b > 0 && isAtLeast(a, 0)) return floorOf(a, b) // where rounding towards 0 is rounding down
  return opaque('quotient', [a, b], isAtLeast(a, 0) && isAtLeast(b, 0) ? 0 : -Infinity)
}

function remainder(a: Dim, b: Dim, op: Operation): Dim | null {
  if (typeof a === 'number' && typeof b === 'number') return b === 0 ? null : op.int('fmod', 0) === 1 ? a % b : ((a % b) + b) % b
  return divide(a, b) === null ? opaque('remainder', [a, b]) : 0
}

function equal(a: Dim, b: Dim): Dim {
  if (isSame(a, b)) return 1
  return isAtLeast(subtract(a, b), 1) || isAtLeast(subtract(b, a), 1) || (typeof a === 'number' && typeof b === 'number') ? 0 : opaque('equal', [a, b], 0)
}

/** @param least by how much the first has to be above the second. */
function above(a: Dim, b: Dim, least: 0 | 1): Dim {
  if (typeof a === 'number' && typeof b === 'number') return Number(least === 1 ? a > b : a >= b)
  if (isAtLeast(subtract(a, b), least)) return 1
  return isAtLeast(subtract(b, a), 1 - least) ? 0 : opaque(least === 1 ? 'above' : 'not below', [a, b], 0)
}

function whole(a: Dim, of: (value: number) => number, name: string): Dim {
  if (typeof a === 'number') return of(a)
  return isWhole(a) ? a : name === 'floor' ? floorOf(a) : opaque(name, [a], isAtLeast(a, 0) ? 0 : -Infinity)
}

const negated = (a: Dim) => subtract(1, a)

/** A row's own place stays one when what is added is its own, or the same for all, and bounded. */
const Add: Rule = (op) => {
  const [a, b] = [op.raw(0), op.raw(1)]
  const plain = elementWise(null, ([x, y]) => add(x!, y!))
  if (a.place === null && b.place === null) return plain(op)
  if (countsRows(a) || countsRows(b)) return meets('a value depends on the number of rows')
  const { shape, rows } = broadcast([a, b])
  const boundOf = (value: Tensor) => value.place?.bound ?? value.bound ?? notFollowed('whether an index stays within its row is not known')
  const stride = a.place !== null && b.place !== null ? add(a.place.stride, b.place.stride) : (a.place ?? b.place)!.stride
  return tensor(a.type, shape, { rows, place: { stride, bound: subtract(add(boundOf(a), boundOf(b)), 1) } })
}

const Mul: Rule = (op) => {
  const [a, b] = [op.raw(0), op.raw(1)]
  if (a.place === null && b.place === null) return elementWise(null, ([x, y]) => multiply(x!, y!))(op)
  const [own, other] = a.place === null ? [b, a] : [a, b]
  const factor = other.elements?.length === 1 ? other.elements[0]! : null
  if (factor === null || ofRows(factor) || !isAtLeast(factor, 0)) return meets('a value depends on the places of rows in the batch')
  const { shape, rows } = broadcast([a, b])
  const { stride, bound } = own.place!
  return tensor(a.type, shape, { rows, place: { stride: multiply(stride, factor), bound: add(multiply(subtract(bound, 1), factor), 1) } })
}

/** The rest of a place, divided by how far rows are apart, is what a row has in its own part. */
const Mod: Rule = (op) => {
  const [a, b] = [op.raw(0), op.raw(1)]
  const divisor = b.elements?.length === 1 ? b.elements[0]! : null
  const { shape, rows } = broadcast([a, b])
  if (a.place !== null && divisor !== null && isSame(divisor, a.place.stride) && isAtLeast(subtract(divisor, a.place.bound), 0)) return tensor(a.type, shape, { rows, bound: a.place.bound })
  const plain = elementWise(null, ([x, y]) => remainder(x!, y!, op))(op)
  if (plain.kind === 'fault') return plain
  const isBounded = isInteger(a.type) && typeof divisor === 'number' && divisor > 0 && op.int('fmod', 0) === 0
  return isBounded && plain.bound === null ? { ...plain, bound: divisor } : plain
}

const Div: Rule = (op) => {
  const [a, b] = [op.raw(0), op.raw(1)]
  const divisor = b.elements?.length === 1 ? b.elements[0]! : null
  if (a.place !== null && divisor !== null && isSame(divisor, a.place.stride) && isAtLeast(subtract(divisor, a.place.bound), 0) && isInteger(a.type)) {
    const { shape, rows } = broadcast([a, b])
    return tensor(a.type, shape, { rows, place: { stride: 1, bound: 1 } })
  }
  return elementWise(null, ([x, y], type) => quotient(x!, y!, type))(op)
}

const Where: Rule = (op) => {
  const known = calculated(op, op.raw(1).type, ([condition, x, y]) => (typeof condition === 'number' ? (condition === 0 ? y! : x!) : isSame(x!, y!) ? x! : opaque('where', [condition!, x!, y!], isAtLeast(x!, 0) && isAtLeast(y!, 0) ? 0 : -Infinity)))
  if (known !== null) return known
  const { shape, rows } = broadcast(op.all())
  const [x, y] = [op.raw(1), op.raw(2)]
  return tensor(x.type, shape, { rows, bound: boundOfBoth(x, y) })
}

/** Below which all are; `null` where that is not known. */
export function boundOfBoth(a: Tensor, b: Tensor): Dim | null {
  return a.bound === null || b.bound === null ? null : maximum(a.bound, b.bound)
}

const Cast: Rule = (op) => {
  const type = op.operator === 'Cast' ? op.int('to', elementType.undefined) : op.raw(1).type
  const of = op.raw(0)
  const isWide = type === int64 || type === int32
  if (of.place !== null || of.columns !== null) return isWide && isInteger(of.type) ? { ...of, type } : meets('a value depends on the places of rows in the batch')
  const elements = of.elements?.map((element) => castElement(element, type)) ?? null
  if (elements !== null && elements.every((element) => element !== null)) return withElements(type, of.shape, elements)
  const { shape, rows, bound, nonZero } = op.data(0)
  return tensor(type, shape, { rows, bound: isWide ? bound : null, nonZero: nonZero && (isWide || type === bool) && isInteger(of.type) })
}

/** An element in another type; `null` where it may be another number there. Numbers of rows are kept as whole ones alone. */
function castElement(element: Dim, type: number): Dim | null {
  if (type === bool) return typeof element === 'number' ? Number(element !== 0) : isAtLeast(element, 1) ? 1 : null
  if (type === int64 || type === int32) return isWithin(element, type) ? whole(element, Math.trunc, 'trunc') : null
  if (type !== float32 && type !== float64) return null
  if (!isExactAsFloat(element)) return null
  return typeof element === 'number' && type === float32 ? Math.fround(element) : element
}

/** @param of for its first input, with limits that may be left out. */
const Clip: Rule = (op) => {
  const [low, high] = op.version < 11 ? [op.float('min', -Infinity), op.float('max', Infinity)] : [1, 2].map((index) => (op.has(index) ? (op.raw(index).elements?.[0] ?? null) : index === 1 ? -Infinity : Infinity))
  const plain = elementWise(null, ([x]) => (typeof x === 'number' && typeof low === 'number' && typeof high === 'number' ? Math.min(Math.max(x, low), high) : null))(op)
  if (plain.kind === 'fault') return plain
  const isBounded = isInteger(plain.type) && typeof low === 'number' && low >= 0 && typeof high === 'number' && high >= low && Number.isFinite(high)
  return isBounded && plain.bound === null ? { ...plain, bound: high + 1 } : plain
}

/** Several inputs, which had to have one shape before version 8: what is the same for all rows fitted a single row alone. */
function variadic(calculate: Calculate | null): Rule {
  const fitting = elementWise(null, calculate)
  return (op) => {
    if (op.version < 8 && op.inputs.some((_, index) => op.raw(index).rows !== null) && op.all().some(({ rows }) => rows === null)) return meets('one of its inputs has no rows, which fits just one number of them')
    return fitting(op)
  }
}

const each = elementWise()
const asked = elementWise(bool)
const unary = ['Acos', 'Acosh', 'Asin', 'Asinh', 'Atan', 'Atanh', 'BitCast', 'BitwiseNot', 'Celu', 'Cos', 'Cosh', 'Elu', 'Erf', 'Exp', 'Gelu', 'HardSigmoid', 'HardSwish', 'LeakyRelu', 'Log', 'Mish', 'Reciprocal', 'Relu', 'Selu', 'Shrink', 'Sigmoid', 'Sign', 'Sin', 'Sinh', 'Softplus', 'Softsign', 'Swish', 'Tan', 'Tanh', 'ThresholdedRelu'] // prettier-ignore

export const arithmetic: Rules = {
  ...Object.fromEntries(unary.map((name) => [name, each])),
  Add,
  Sub: elementWise(null, ([a, b]) => subtract(a!, b!)),
  Mul,
  Div,
  Mod,
  Neg: elementWise(null, ([a]) => multiply(a!, -1)),
  Abs: elementWise(null, ([a]) => (isAtLeast(a!, 0) ? a! : typeof a === 'number' ? -a : null)),
  Floor: elementWise(null, ([a]) => whole(a!, Math.floor, 'floor')),
  Ceil: elementWise(null, ([a]) => whole(a!, Math.ceil, 'ceil')),
  Round: elementWise(null, ([a]) => whole(a!, (value) => (Math.abs(value % 1) === 0.5 ? 2 * Math.round(value / 2) : Math.round(value)), 'round')),
  Sqrt: elementWise(null, ([a]) => (typeof a === 'number' ? Math.sqrt(a) : null)),
  Pow: elementWise(null, ([a, b]) => (typeof a === 'number' && typeof b === 'number' ? a ** b : b === 1 ? a! : b === 2 ? multiply(a!, a!) : null)),
  Min: variadic((all) => all.reduce(minimum)),
  Max: variadic((all) => all.reduce(maximum)),
  Sum: variadic((all) => all.reduce(add)),
  Mean: variadic(null),
  PRelu: each,
  Clip,
  BitShift: each,
  BitwiseAnd: each,
  BitwiseOr: each,
  BitwiseXor: each,
  Equal: elementWise(bool, ([a, b]) => equal(a!, b!)),
  Greater: elementWise(bool, ([a, b]) => above(a!, b!, 1)),
  GreaterOrEqual: elementWise(bool, ([a, b]) => above(a!, b!, 0)),
  Less: elementWise(bool, ([a, b]) => above(b!, a!, 1)),
  LessOrEqual: elementWise(bool, ([a, b]) => above(b!, a!, 0)),
  And: elementWise(bool, ([a, b]) => multiply(a!, b!)),
  Or: elementWise(bool, ([a, b]) => negated(multiply(negated(a!), negated(b!)))),
  Xor: elementWise(bool, ([a, b]) => subtract(add(a!, b!), multiply(2, multiply(a!, b!)))),
  Not: elementWise(bool, ([a]) => negated(a!)),
  IsInf: asked,
  IsNaN: asked,
  Where,
  Cast,
  CastLike: Cast,
  StringConcat: each,
  RegexFullMatch: asked,
  'com.microsoft:Gelu': each,
  'com.microsoft:QuickGelu': each,
  'com.microsoft:FastGelu': each,
  'com.microsoft:BiasGelu': each,
}
