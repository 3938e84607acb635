import { add, divide, floorOf, isSame, multiply, ofRows, opaque, subtract, type Dim } from '../dims.ts'
import { apart, broadcast, checkRank, rowsOnly, together, type Operation, type Rule, type Rules } from '../operation.ts'
import { elementType, tensor, type Rows, type Tensor } from '../followed-values.ts'
import { meets, notFollowed } from '../not-proved.ts'

/**
 * Products, convolutions, pools and what samples images. Source: onnx.ai/onnx/operators/onnx__NAME.html, com.microsoft:
 * ContribOperators.md.
 */

const range = (from: number, to: number) => Array.from({ length: Math.max(0, to - from) }, (_, index) => from + index)
const { float32, int32, int64 } = elementType

/** The product of two tensors as `numpy.matmul` has it: rows of the first, or columns of the second, or batches of both stay apart. */
export function matMul(a: Tensor, b: Tensor, type = a.type): Tensor {
  const [isVectorA, isVectorB] = [a.shape.length === 1, b.shape.length === 1]
  const [left, right] = [isVectorA ? withFront(a) : a, isVectorB ? withBack(b) : b]
  const [m, k] = [left.shape.length - 2, left.shape.length - 1]
  const [inner, n] = [right.shape.length - 2, right.shape.length - 1]
  apart(left, [k], 'sums up')
  apart(right, [inner], 'sums up')
  // What is before the matrices fits as in an element-wise operator; a matrix of rows has one of its own there.
  const batch = (of: Tensor, matrix: number) => tensor(of.type, of.shape.slice(0, -2), { rows: of.rows !== null && of.rows.axis < matrix ? of.rows : null })
  const { shape, rows } = broadcast([batch(left, m), batch(right, inner)])
  const rank = shape.length + 2
  let own: Rows | null = rows
  for (const [of, axis, place] of [[left, m, rank - 2], [right, n, rank - 1]] as const) {
    if (of.rows?.axis !== axis) continue
    if (own !== null) meets('each row meets all others in a product')
    own = { ...of.rows, axis: place }
  }
  const full = [...shape, left.shape[m]!, right.shape[n]!]
  const dims = full.filter((_, axis) => !(isVectorA && axis === rank - 2) && !(isVectorB && axis === rank - 1))
  return tensor(type, dims, { rows: own && { ...own, axis: own.axis - (isVectorA && own.axis > rank - 2 ? 1 : 0) } })
}

function withFront(of: Tensor): Tensor {
  return tensor(of.type, [1, ...of.shape], { rows: of.rows && { ...of.rows, axis: of.rows.axis + 1 } })
}

function withBack(of: Tensor): Tensor {
  return tensor(of.type, [...of.shape, 1], { rows: of.rows })
}

function swapped(of: Tensor, isSwapped: boolean): Tensor {
  const rank = of.shape.length
  if (!isSwapped || rank < 2) return of
  const shape = [...of.shape.slice(0, -2), of.shape[rank - 1]!, of.shape[rank - 2]!]
  const axis = of.rows?.axis === rank - 1 ? rank - 2 : of.rows?.axis === rank - 2 ? rank - 1 : of.rows?.axis
  return tensor(of.type, shape, { rows: of.rows && { ...of.rows, axis: axis! } })
}

/** The product of matrices, one or both of which are given with rows and columns swapped. */
export function swappedMatMul(a: Tensor, b: Tensor, isSwappedA: boolean, isSwappedB: boolean, type = a.type): Tensor {
  return matMul(swapped(a, isSwappedA), swapped(b, isSwappedB), type)
}

const MatMul: Rule = (op) => matMul(op.data(0), op.data(1))

/** `transBatchA` swaps the first and the last but one dimension, which is not followed. */
const FusedMatMul: Rule = (op) => {
  if (op.int('transBatchA', 0) !== 0 || op.int('transBatchB', 0) !== 0) return notFollowed('it swaps batches')
  return swappedMatMul(op.data(0), op.data(1), op.int('transA', 0) !== 0, op.int('transB', 0) !== 0)
}

const Gemm: Rule = (op) => {
  const product = swappedMatMul(op.data(0), op.data(1), op.int('transA', 0) !== 0, op.int('transB', 0) !== 0)
  const added = op.optional(2)
  if (added === null) return product
  const { shape, rows } = broadcast([product, added])
  if (product.rows === null && rows !== null) return meets('rows are added to a product of none')
  return tensor(product.type, shape, { rows })
}

/** Inputs of a product of quantised numbers: matrices, and the scales and zero points of each. */
interface Quantised {
  readonly a: number
  readonly b: number
  readonly ofA: readonly number[]
  readonly ofB: readonly number[]
  /** Of the result, and what is added to it. */
  readonly shared?: readonly number[]
  readonly type: (op: Operation) => number
}

/** A product of quantised numbers. Scales and zero points are one for all, by row of the first matrix, or by column of the second. */
function quantisedMatMul({ a, b, ofA, ofB, shared = [], type }: Quantised): Rule {
  return (op) => {
    const [left, right] = [op.data(a), op.data(b)]
    for (const [of, parts] of [[left, ofA], [right, ofB]] as const) {
      for (const index of parts) {
        if (!op.has(index)) continue
        const part = op.shared(index, 'a scale')
        if (of.rows !== null && part.shape.some((dim) => dim !== 1) && (of === left || of.rows.axis !== 0)) return meets('a scale has an entry for each of a fixed number of rows')
      }
    }
    for (const index of shared) if (op.has(index)) op.shared(index)
    return matMul(left, right, type(op))
  }
}

/** Weights in blocks of a few bits, `[N, blocks, bytes]`; attributes say how large they are. */
const MatMulNBits: Rule = (op) => {
  const of = op.data(0)
  apart(of, [of.shape.length - 1], 'sums up')
  for (let index = 1; index < op.inputs.length; index++) if (op.has(index)) op.shared(index, 'the weights')
  return tensor(of.type, [...of.shape.slice(0, -1), op.int('N', 1)], { rows: of.rows })
}

/** Letters stand for axes; one that the result has not is summed up. Source: onnx__Einsum.html, numpy.einsum. */
const Einsum: Rule = (op) => {
  const tensors = op.all()
  const equation = op.string('equation', '').replaceAll(' ', '')
  const [left, right] = equation.split('->')
  const terms = left!.split(',')
  if (terms.length !== tensors.length) return notFollowed(`its equation '${equation}' does not fit ${tensors.length} inputs`)
  const ellipsis = Math.max(0, ...terms.map((term, index) => (term.includes('...') ? tensors[index]!.shape.length - (term.length - 3) : 0)))
  const lettersOf = (term: string, rank: number): string[] => {
    const [head, tail] = term.split('...')
    if (tail === undefined) return [...term]
    const count = rank - head!.length - tail.length
    return [...head!, ...range(ellipsis - count, ellipsis).map((index) => `.${index}`), ...tail]
  }
  const letters = terms.map((term, index) => lettersOf(term, tensors[index]!.shape.length))
  const all = letters.flat()
  const once = [...new Set(all)].filter((letter) => all.filter((other) => other === letter).length === 1 && !letter.startsWith('.')).sort()
  const result = right === undefined ? [...range(0, ellipsis).map((index) => `.${index}`), ...once] : lettersOf(right, ellipsis + right.replace('...', '').length)
  const rowLetters = new Set(tensors.flatMap(({ rows }, index) => (rows === null ? [] : [letters[index]![rows.axis]])))
  if (rowLetters.size > 1) return meets('each row meets all others in a product')
  const [rowLetter] = rowLetters
  let rows: Rows | null = null
  if (rowLetter !== undefined) {
    const places = letters.map((own) => own.flatMap((letter, axis) => (letter === rowLetter ? [axis] : [])))
    if (places.some((own) => own.length > 1) || result.filter((letter) => letter === rowLetter).length > 1) return meets('rows lie along two dimensions of one input')
    const found = together(tensors.flatMap((of, index) => (places[index]!.length === 0 ? [] : [{ of, axis: places[index]![0]!, what: `input ${index}` }])))
    const axis = result.indexOf(rowLetter)
    if (axis === -1) return meets(`it sums up along the dimension '${rowLetter}', which counts the rows`)
    rows = { axis, ...found! }
  }
  const shape = result.map((letter) => {
    const dims = letters.flatMap((own, index) => own.flatMap((other, axis) => (other === letter ? [tensors[index]!.shape[axis]!] : [])))
    return dims.find((dim) => dim !== 1) ?? 1
  })
  if (rows !== null) shape[rows.axis] = tensors.find((of) => of.rows !== null)!.shape[tensors.find((of) => of.rows !== null)!.rows!.axis]!
  return tensor(tensors[0]!.type, shape, { rows })
}

/** How long the dimensions of an image are behind a window that slides over it. */
export function windows(op: Operation, of: Tensor, kernel: readonly Dim[], first = 2): Dim[] {
  const spatial = kernel.length
  const list = (name: string, otherwise: number) => op.ints(name) ?? range(0, spatial).map(() => otherwise)
  const [strides, dilations] = [list('strides', 1), list('dilations', 1)]
  const pads = op.ints('pads') ?? range(0, 2 * spatial).map(() => 0)
  const auto = op.string('auto_pad', 'NOTSET')
  return range(0, spatial).map((index) => {
    const dim = of.shape[index + first] ?? notFollowed('it has fewer dimensions than its window')
    const stride = strides[index] ?? 1
    if (auto === 'SAME_UPPER' || auto === 'SAME_LOWER') return floorOf(add(dim, stride - 1), stride)
    const reach = add(multiply(dilations[index] ?? 1, subtract(kernel[index]!, 1)), 1)
    const padded = add(dim, auto === 'VALID' ? 0 : (pads[index] ?? 0) + (pads[index + spatial] ?? 0))
    const room = subtract(padded, reach)
    return add(op.int('ceil_mode', 0) === 1 ? floorOf(add(room, stride - 1), stride) : floorOf(room, stride), 1)
  })
}

/** Images `[N, C, ...]` by weights `[M, C / group, ...]`. @param weight the input that has these. */
function convolution(weight: number, type: (op: Operation) => number, others: readonly number[] = []): Rule {
  return (op) => {
    const of = op.data(0)
    if (of.shape.length < 3) return notFollowed('its input has no dimensions to slide along')
    const isLast = op.int('channels_last', 0) !== 0
    rowsOnly(of, [0], 'slides a window')
    const weights = op.shared(weight, 'the weights')
    for (const index of others) if (op.has(index)) op.shared(index)
    const spatial = windows(op, of, op.ints('kernel_shape') ?? weights.shape.slice(2), isLast ? 1 : 2)
    const shape = isLast ? [of.shape[0]!, ...spatial, weights.shape[0]!] : [of.shape[0]!, weights.shape[0]!, ...spatial]
    return tensor(type(op), shape, { rows: of.rows })
  }
}

const sameType = (op: Operation) => op.data(0).type

/** Also adds a tensor of the result's shape. */
const FusedConv: Rule = (op) => {
  const result = convolution(1, sameType, [2])(op) as Tensor
  if (!op.has(3)) return result
  const added = op.data(3)
  if ((result.rows === null) !== (added.rows === null)) return meets('what it adds is not one to one with its images')
  broadcast([result, added])
  return result
}

const ConvTranspose: Rule = (op) => {
  const of = op.data(0)
  rowsOnly(of, [0], 'slides a window')
  const weights = op.shared(1, 'the weights')
  const [pads_, bias] = op.operator === 'ConvTransposeWithDynamicPads' ? [2, 3] : [-1, 2]
  if (op.has(bias)) op.shared(bias, 'the bias')
  const kernel = op.ints('kernel_shape') ?? weights.shape.slice(2)
  const spatial = kernel.length
  checkRank(of, spatial + 2)
  const list = (name: string, otherwise: number, count = spatial) => op.ints(name) ?? range(0, count).map(() => otherwise)
  const [strides, dilations, extra, pads] = [list('strides', 1), list('dilations', 1), list('output_padding', 0), list('pads', 0, 2 * spatial)]
  const given = op.ints('output_shape')
  const auto = op.string('auto_pad', 'NOTSET')
  const shape = range(0, spatial).map((index): Dim => {
    if (given !== null) return given.at(index - spatial)!
    const dim = of.shape[index + 2]!
    if (pads_ !== -1 && op.has(pads_)) return op.shared(pads_) && opaque(`${op.label} ${index}`, [], 0)
    if (auto === 'SAME_UPPER' || auto === 'SAME_LOWER') return multiply(dim, strides[index]!)
    const reach = add(multiply(dilations[index]!, subtract(kernel[index]!, 1)), 1)
    return subtract(add(add(multiply(subtract(dim, 1), strides[index]!), extra[index]!), reach), pads[index]! + pads[index + spatial]!)
  })
  return tensor(of.type, [of.shape[0]!, multiply(weights.shape[1]!, op.int('group', 1)), ...shape], { rows: of.rows })
}

const DeformConv: Rule = (op) => {
  const [of, weights, offset, mask] = [op.data(0), op.shared(1, 'the weights'), op.data(2), op.optional(4)]
  if (op.has(3)) op.shared(3, 'the bias')
  const rows = together([{ of, axis: 0, what: 'the input' }, { of: offset, axis: 0, what: 'offsets' }, { of: mask, axis: 0, what: 'the mask' }]) // prettier-ignore
  if (rows !== null && [of, offset, mask].some((each) => each !== null && each.rows === null)) return meets('images, offsets and masks are not one to one')
  return tensor(of.type, [of.shape[0]!, weights.shape[0]!, ...windows(op, of, weights.shape.slice(2))], { rows: of.rows })
}

/** Each channel of each image by itself. */
const pool = (isGlobal: boolean, isLast = false): Rule => (op) => {
  const of = op.data(0)
  const rank = of.shape.length
  const channels = isLast ? rank - 1 : 1
  rowsOnly(of, [0, channels], 'slides a window')
  for (let index = 1; index < op.inputs.length; index++) if (op.has(index)) op.shared(index)
  const first = isLast ? 1 : 2
  const spatial = isGlobal ? range(0, rank - 2).map(() => 1) : windows(op, of, op.ints('kernel_shape') ?? notFollowed('attribute kernel_shape is missing'), first)
  const shape = isLast ? [of.shape[0]!, ...spatial, of.shape[rank - 1]!] : [of.shape[0]!, of.shape[1]!, ...spatial]
  const result = tensor(of.type, shape, { rows: of.rows })
  if (op.outputCount === 1) return result
  // Places of the largest elements, counted from the first image on.
  const size = of.shape.slice(1).reduce(multiply)
  const isOwn = of.rows === null || (of.rows.axis === 0 && isSame(of.rows.inner, 1) && isSame(of.rows.outer, 1))
  return [result, isOwn ? tensor(int64, shape, { rows: of.rows, place: of.rows && { stride: size, bound: size } }) : op.fault('meets', 'places of elements are counted over all rows')]
}

const GridSample: Rule = (op) => {
  const [of, grid] = [op.data(0), op.data(1)]
  const rows = together([{ of, axis: 0, what: 'the input' }, { of: grid, axis: 0, what: 'the grid' }]) // prettier-ignore
  if (rows !== null && (of.rows === null || grid.rows === null)) return meets('images and grids are not one to one')
  return tensor(of.type, [of.shape[0]!, of.shape[1]!, ...grid.shape.slice(1, -1)], { rows: of.rows })
}

/** Windows along a dimension, each of which becomes the last one. */
const UnfoldTensor: Rule = (op) => {
  const of = op.data(0)
  const axis = op.axis(of.shape.length, -1, 'dim')
  apart(of, [axis], 'slides a window')
  const size = op.int('size', 1)
  const count = add(floorOf(subtract(of.shape[axis]!, size), op.int('step', 1)), 1)
  return tensor(of.type, [...of.shape.map((dim, at) => (at === axis ? count : dim)), size], { rows: of.rows })
}

const AffineGrid: Rule = (op) => {
  const of = op.data(0)
  rowsOnly(of, [0], 'makes a grid')
  const size = op.counts(1, 'the size')
  if (size.slice(1).some(ofRows)) return meets('the size depends on the number of rows')
  if (of.rows !== null && !isSame(size[0]!, of.shape[0]!)) return notFollowed('its size is not known to have all rows')
  return tensor(of.type, [of.shape[0]!, ...size.slice(2), size.length - 2], { rows: of.rows })
}

const Col2Im: Rule = (op) => {
  const of = op.data(0)
  rowsOnly(of, [0], 'puts blocks together')
  const [image, block] = [op.elements(1, 'the image shape'), op.elements(2, 'the block shape')]
  const channels = divide(of.shape[1]!, block.reduce(multiply)) ?? opaque(`${op.label} 1`, [], 0)
  return tensor(of.type, [of.shape[0]!, channels, ...image], { rows: of.rows })
}

/** Fourier transforms along one axis; the last holds real and imaginary parts. */
const DFT: Rule = (op) => {
  const of = op.data(0)
  const rank = of.shape.length
  const given = op.version >= 20 ? op.number(2, 'the axis', -2) : op.int('axis', 1)
  const axis = given < 0 ? given + rank : given
  apart(of, [axis, rank - 1], 'transforms')
  const length = op.has(1) ? (op.shared(1).elements?.[0] ?? opaque(`length of ${op.label}`, [], 0)) : of.shape[axis]!
  const kept = op.int('onesided', 0) === 1 && op.int('inverse', 0) === 0 ? add(floorOf(length, 2), 1) : length
  // A one-sided inverse gives real numbers.
  const parts = op.int('onesided', 0) === 1 && op.int('inverse', 0) === 1 ? 1 : 2
  return tensor(of.type, of.shape.map((dim, at) => (at === axis ? kept : at === rank - 1 ? parts : dim)), { rows: of.rows })
}

const STFT: Rule = (op) => {
  const of = op.data(0)
  rowsOnly(of, [0], 'transforms')
  for (const index of [1, 2, 3]) if (op.has(index)) op.shared(index)
  const dims = [1, 2].map((axis) => opaque(`${op.label} ${axis}`, of.shape.slice(1), 0))
  return tensor(of.type, [of.shape[0]!, ...dims, 2], { rows: of.rows })
}

/** Filters and windows, which are made of numbers. */
const generated = (rank: number): Rule => (op) => {
  for (let index = 0; index < op.inputs.length; index++) if (op.has(index)) op.shared(index)
  return tensor(op.int('output_datatype', float32), range(0, rank).map((axis) => opaque(`${op.label} ${axis}`, [], 0)))
}

/** Distances of each row of the first to each of the second. */
const CDist: Rule = (op) => {
  const [a, b] = [op.data(0), op.data(1)]
  apart(a, [1], 'sums up')
  apart(b, [1], 'sums up')
  if (a.rows !== null && b.rows !== null) return meets('each row meets all others in a distance')
  return tensor(a.type, [a.shape[0]!, b.shape[0]!], { rows: a.rows ?? (b.rows && { ...b.rows, axis: 1 }) })
}

export const linear: Rules = {
  MatMul,
  'com.microsoft:FusedMatMul': FusedMatMul,
  'com.microsoft:TransposeMatMul': FusedMatMul,
  Gemm,
  'com.microsoft:FusedGemm': Gemm,
  MatMulInteger: quantisedMatMul({ a: 0, b: 1, ofA: [2], ofB: [3], type: () => int32 }),
  QLinearMatMul: quantisedMatMul({ a: 0, b: 3, ofA: [1, 2], ofB: [4, 5], shared: [6, 7], type: (op) => op.data(7).type }),
  'com.microsoft:MatMulIntegerToFloat': quantisedMatMul({ a: 0, b: 1, ofA: [2, 4], ofB: [3, 5], shared: [6], type: () => float32 }),
  'com.microsoft:MatMulNBits': MatMulNBits,
  'com.microsoft:MatMulInteger16': (op) => matMul(op.data(0), op.data(1), int32),
  Einsum,
  Conv: convolution(1, sameType, [2]),
  'com.microsoft:FusedConv': FusedConv,
  ConvInteger: convolution(1, () => int32, [2, 3]),
  QLinearConv: convolution(3, (op) => op.data(7).type, [1, 2, 4, 5, 6, 7, 8]),
  'com.microsoft:QLinearConv': convolution(3, (op) => op.data(7).type, [1, 2, 4, 5, 6, 7, 8]),
  ConvTranspose,
  'com.microsoft:ConvTransposeWithDynamicPads': ConvTranspose,
  DeformConv,
  AveragePool: pool(false),
  MaxPool: pool(false),
  LpPool: pool(false),
  GlobalAveragePool: pool(true),
  GlobalMaxPool: pool(true),
  GlobalLpPool: pool(true),
  'com.microsoft:NhwcMaxPool': pool(false, true),
  GridSample,
  'com.microsoft:GridSample': GridSample,
  AffineGrid,
  'com.microsoft:UnfoldTensor': UnfoldTensor,
  Col2Im,
  DFT,
  STFT,
  MelWeightMatrix: generated(2),
  HannWindow: generated(1),
  HammingWindow: generated(1),
  BlackmanWindow: generated(1),
  'com.microsoft:CDist': CDist,
}
