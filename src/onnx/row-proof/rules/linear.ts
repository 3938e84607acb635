import {
  add,
  broadcastDims,
  divide,
  floorOf,
  isAtLeast,
  isSame,
  lengthOf,
  maximum,
  minimum,
  multiply,
  ofRows,
  subtract,
  type Dim,
} from '../dims.ts'
import {
  apart,
  broadcast,
  checkRank,
  forEach,
  oneToOne,
  range,
  rowsOnly,
  together,
  type Operation,
  type Rule,
  type Rules,
} from '../operation.ts'
import { elementType, tensor, type Rows, type Tensor } from '../followed-values.ts'
import { dependent, notFollowed } from '../not-proved.ts'

/**
 * Products, convolutions, pooling, and sampling of images. Source: onnx.ai/onnx/operators/onnx__NAME.html,
 * com.microsoft: ContribOperators.md.
 */

const { float32, int32, int64 } = elementType

/**
 * The product of two tensors, as in `numpy.matmul`. Rows stay separate if they are rows of the first matrix,
 * columns of the second, or batches of both.
 */
function matMul(a: Tensor, b: Tensor, type = a.type): Tensor {
  const [isVectorA, isVectorB] = [a.shape.length === 1, b.shape.length === 1]
  apart(a, [a.shape.length - 1], 'sums up')
  apart(b, [isVectorB ? 0 : b.shape.length - 2], 'sums up')
  // A vector has no rows from here on.
  const [left, right] = [
    isVectorA ? tensor(a.type, [1, ...a.shape]) : a,
    isVectorB ? tensor(b.type, [...b.shape, 1]) : b,
  ]
  const [m, n] = [left.shape.length - 2, right.shape.length - 1]
  // What is before the matrices fits as in an element-wise operator; a matrix of rows has one of its own there.
  const batch = ({ type, shape, rows }: Tensor) =>
    tensor(type, shape.slice(0, -2), { rows: rows !== null && rows.axis < shape.length - 2 ? rows : null })
  const { shape, rows } = broadcast([batch(left), batch(right)])
  const rank = shape.length + 2
  let own: Rows | null = rows
  for (const [of, axis, place] of [
    [left, m, rank - 2],
    [right, n, isVectorA ? rank - 2 : rank - 1],
  ] as const) {
    if (of.rows?.axis !== axis) continue
    if (own !== null) dependent('each row meets all others in a product')
    own = { ...of.rows, axis: place }
  }
  return tensor(
    type,
    [...shape, ...(isVectorA ? [] : [left.shape[m]!]), ...(isVectorB ? [] : [right.shape[n]!])],
    { rows: own },
  )
}

function swapped(of: Tensor, isSwapped: boolean): Tensor {
  const rank = of.shape.length
  if (!isSwapped || rank < 2) return of
  const perm = [...range(0, rank - 2), rank - 1, rank - 2]
  return tensor(
    of.type,
    perm.map((axis) => of.shape[axis]!),
    { rows: of.rows && { ...of.rows, axis: perm.indexOf(of.rows.axis) } },
  )
}

/** The matrices of a product. Either may be transposed. */
function matricesOf(op: Operation, a = 0, b = 1): readonly [Tensor, Tensor] {
  return [swapped(op.data(a), op.int('transA', 0) !== 0), swapped(op.data(b), op.int('transB', 0) !== 0)]
}

/** `transBatchA` swaps the first dimension and the last but one; it is not followed. */
const MatMul: Rule = (op) => {
  if (op.int('transBatchA', 0) !== 0 || op.int('transBatchB', 0) !== 0) return notFollowed('it swaps batches')
  return matMul(...matricesOf(op))
}

const Gemm: Rule = (op) => withAdded(matMul(...matricesOf(op)), op.optional(2))

function withAdded(product: Tensor, added: Tensor | null): Tensor {
  if (added === null) return product
  const { shape, rows } = broadcast([product, added])
  if (product.rows === null && rows !== null) return dependent('rows are added to a product of none')
  return tensor(product.type, shape, { rows })
}

/**
 * Inputs of a quantised product: the matrices, and their scales and zero points. Those with one number per
 * column are among them.
 */
interface Quantised {
  readonly a: number
  readonly b: number
  readonly ofA: readonly number[]
  readonly ofB: readonly number[]
  readonly added?: number
  readonly type: (op: Operation) => number
}

/**
 * A quantised product. Scales and zero points are single numbers, or per row of the first matrix, or per
 * column of the second.
 */
export function quantisedMatMul({ a, b, ofA, ofB, added = -1, type }: Quantised): Rule {
  return (op) => {
    const [left, right] = matricesOf(op, a, b)
    if (!isAtLeast(left.shape.at(-1)!, 1))
      return notFollowed('cannot tell whether there is anything to sum up') // else nothing is written
    for (const [of, parts, fromEnd] of [
      [left, ofA, 2],
      [right, ofB, 1],
    ] as const) {
      for (const index of parts.filter((each) => op.has(each))) {
        const { shape } = op.shared(index, 'a scale')
        const isOne = shape.length === 0 || (of === left && shape.length === 1 && shape[0] === 1)
        if (isOne || of.rows === null) continue
        if (shape.length > 1 || of.rows.axis === of.shape.length - fromEnd)
          return dependent('a scale has an entry for each of a fixed number of rows')
      }
    }
    return withAdded(matMul(left, right, type(op)), op.optional(added))
  }
}

/** Weights in blocks of a few bits, `[N, blocks, bytes]`. Attributes give their sizes. */
const MatMulNBits: Rule = (op) => {
  const of = op.data(0)
  return matMul(of, tensor(of.type, [op.int('K', 1), op.int('N', 1)]))
}

/**
 * Letters stand for axes; letters that are missing in the result are summed over. Source: onnx__Einsum.html,
 * numpy.einsum.
 */
const Einsum: Rule = (op) => {
  const tensors = op.all()
  const equation = op.string('equation', '').replaceAll(' ', '')
  const [left, right] = equation.split('->')
  const terms = left!.split(',')
  const ellipsis = Math.max(
    0,
    ...terms.map((term, index) =>
      term.includes('...') ? tensors[index]!.shape.length - (term.length - 3) : 0,
    ),
  )
  const lettersOf = (term: string, rank: number): string[] => {
    const [head, tail] = term.split('...')
    if (tail === undefined) return [...term]
    const count = rank - head!.length - tail.length
    return [...head!, ...range(ellipsis - count, ellipsis).map((index) => `.${index}`), ...tail]
  }
  const letters = terms.map((term, index) => lettersOf(term, tensors[index]!.shape.length))
  const all = letters.flat()
  const once = [...new Set(all)]
    .filter((letter) => all.filter((other) => other === letter).length === 1 && !letter.startsWith('.'))
    .sort()
  const result =
    right === undefined
      ? [...range(0, ellipsis).map((index) => `.${index}`), ...once]
      : lettersOf(right, ellipsis + right.replace('...', '').length)
  const rowLetters = new Set(
    tensors.flatMap(({ rows }, index) => (rows === null ? [] : [letters[index]![rows.axis]])),
  )
  if (rowLetters.size > 1) return dependent('each row meets all others in a product')
  const [rowLetter] = rowLetters
  let rows: Rows | null = null
  if (rowLetter !== undefined) {
    const places = letters.map((own) => own.flatMap((letter, axis) => (letter === rowLetter ? [axis] : [])))
    if (places.some((own) => own.length > 1) || result.filter((letter) => letter === rowLetter).length > 1)
      return dependent('rows lie along two dimensions of one input')
    const found = together(
      tensors.flatMap((of, index) =>
        places[index]!.length === 0 ? [] : [{ of, axis: places[index]![0]!, what: `input ${index}` }],
      ),
    )
    const axis = result.indexOf(rowLetter)
    if (axis === -1) return dependent(`it sums up along the dimension '${rowLetter}', which counts the rows`)
    rows = { axis, ...found! }
  }
  const shape = result.map((letter) => {
    const dims = letters.flatMap((own, index) =>
      own.flatMap((other, axis) => (other === letter ? [tensors[index]!.shape[axis]!] : [])),
    )
    return dims.reduce<Dim>((one, other) => broadcastDims(one, other) ?? one, 1)
  })
  return tensor(tensors[0]!.type, shape, { rows })
}

/**
 * The dimensions of an image after a sliding window. @param needsRoom whether it fails if the window is
 * longer than the image.
 */
function windows(op: Operation, of: Tensor, kernel: readonly Dim[], first = 2, needsRoom = true): Dim[] {
  const spatial = kernel.length
  const list = (name: string, otherwise: number) => op.ints(name) ?? range(0, spatial).map(() => otherwise)
  const [strides, dilations] = [list('strides', 1), list('dilations', 1)]
  const pads = op.ints('pads') ?? range(0, 2 * spatial).map(() => 0)
  const auto = op.string('auto_pad', 'NOTSET')
  return range(0, spatial).map((index) => {
    const dim = of.shape[index + first] ?? notFollowed('it has fewer dimensions than its window')
    const stride = strides[index]!
    const roundedUp = (size: Dim) => floorOf(add(size, stride - 1), stride)
    if (auto === 'SAME_UPPER' || auto === 'SAME_LOWER')
      return dilations[index] === 1 ? roundedUp(dim) : lengthOf(`${op.label} ${index}`, [dim])
    const reach = add(multiply(dilations[index]!, subtract(kernel[index]!, 1)), 1)
    const [head, tail] = auto === 'VALID' ? [0, 0] : [pads[index]!, pads[index + spatial]!]
    const room = subtract(add(dim, head + tail), reach)
    if (!needsRoom && !isAtLeast(room, 0))
      return lengthOf(`pooled by ${stride}, ${op.int('ceil_mode', 0)}`, [room, dim])
    // No window begins behind what is not padding.
    return op.int('ceil_mode', 0) === 0
      ? add(floorOf(room, stride), 1)
      : minimum(add(roundedUp(room), 1), roundedUp(add(dim, head)))
  })
}

/** The dimensions of images, with their channels behind or before what they are in space. */
const imageShape = (isLast: boolean, images: Dim, channels: Dim, spatial: readonly Dim[]): Dim[] =>
  isLast ? [images, ...spatial, channels] : [images, channels, ...spatial]

/**
 * Images `[N, C, ...]` by weights `[M, C / group, ...]`. @param weight index of the input with the weights.
 */
function convolution(weight: number, type: (of: Tensor, op: Operation) => number): Rule {
  return (op) => {
    const of = op.data(0)
    const isLast = op.int('channels_last', 0) !== 0
    rowsOnly(of, [0], 'slides a window')
    const weights = op.shared(weight, 'the weights')
    const spatial = windows(op, of, op.ints('kernel_shape') ?? weights.shape.slice(2), isLast ? 1 : 2)
    const shape = imageShape(isLast, of.shape[0]!, weights.shape[0]!, spatial)
    return tensor(type(of, op), shape, { rows: of.rows })
  }
}

const Conv = convolution(1, (of) => of.type)
const typeOfZeroPoint = (op: Operation) => op.shared(7, 'a zero point').type
const QLinearConv = convolution(3, (_, op) => typeOfZeroPoint(op))
/** Operators that slide a window over images without weights, and those that take all of an image. */
const pools = [
  'AveragePool',
  'MaxPool',
  'LpPool',
  'com.microsoft:NhwcMaxPool',
  'com.microsoft:QLinearAveragePool',
]
const globalPools = [
  'GlobalAveragePool',
  'GlobalMaxPool',
  'GlobalLpPool',
  'com.microsoft:QLinearGlobalAveragePool',
]

/** Also adds a tensor of the result's shape. */
const FusedConv: Rule = (op) => {
  const result = Conv(op) as Tensor
  if (!op.has(3)) return result
  const added = op.data(3)
  if ((result.rows === null) !== (added.rows === null))
    return dependent('what it adds is not one to one with its images')
  broadcast([result, added])
  return result
}

const ConvTranspose: Rule = (op) => {
  const of = op.data(0)
  rowsOnly(of, [0], 'slides a window')
  const weights = op.shared(1, 'the weights')
  const kernel = op.ints('kernel_shape') ?? weights.shape.slice(2)
  const spatial = kernel.length
  checkRank(of, spatial + 2)
  const list = (name: string, otherwise: number, count = spatial) =>
    op.ints(name) ?? range(0, count).map(() => otherwise)
  const [strides, dilations] = [list('strides', 1), list('dilations', 1)]
  const [extra, pads] = [list('output_padding', 0), list('pads', 0, 2 * spatial)]
  const given = op.ints('output_shape')
  const auto = op.string('auto_pad', 'NOTSET')
  const shape = range(0, spatial).map((index): Dim => {
    if (given !== null) return given.at(index - spatial)!
    if (op.operator === 'ConvTransposeWithDynamicPads' && op.has(2)) return lengthOf(`${op.label} ${index}`)
    const reach = add(multiply(dilations[index]!, subtract(kernel[index]!, 1)), 1 + extra[index]!)
    const full = add(multiply(subtract(of.shape[index + 2]!, 1), strides[index]!), reach)
    // What is beyond as many strides as there are entries is cut off; nothing is put there where less is.
    const isCut = auto === 'SAME_UPPER' || auto === 'SAME_LOWER'
    return subtract(
      full,
      isCut ? maximum(subtract(reach, strides[index]!), 0) : pads[index]! + pads[index + spatial]!,
    )
  })
  return tensor(of.type, [of.shape[0]!, multiply(weights.shape[1]!, op.int('group', 1)), ...shape], {
    rows: of.rows,
  })
}

const DeformConv: Rule = (op) => {
  const [of, weights, offset, mask] = [op.data(0), op.shared(1, 'the weights'), op.data(2), op.optional(4)]
  oneToOne('images, offsets and masks', { 'the input': of, offsets: offset, 'the mask': mask })
  return tensor(of.type, [of.shape[0]!, weights.shape[0]!, ...windows(op, of, weights.shape.slice(2))], {
    rows: of.rows,
  })
}

/** Operates on each channel of each image. */
const pool =
  (isGlobal: boolean): Rule =>
  (op) => {
    const of = op.data(0)
    const isLast = op.operator === 'NhwcMaxPool' || op.int('channels_last', 0) !== 0
    const rank = of.shape.length
    const channels = isLast ? rank - 1 : 1
    rowsOnly(of, [0, channels], 'slides a window')
    const kernel = () => op.ints('kernel_shape') ?? notFollowed('attribute kernel_shape is missing')
    const spatial = isGlobal
      ? range(0, rank - 2).map(() => 1)
      : windows(op, of, kernel(), isLast ? 1 : 2, false)
    const shape = imageShape(isLast, of.shape[0]!, of.shape[channels]!, spatial)
    const result = tensor(of.type, shape, { rows: of.rows })
    if (op.outputCount === 1) return result
    // Places of the largest elements, counted from the first image on.
    const size = of.shape.slice(1).reduce(multiply)
    const isOwn =
      of.rows === null || (of.rows.axis === 0 && isSame(of.rows.inner, 1) && isSame(of.rows.outer, 1))
    // A window that lies in the padding alone gives a place before the image.
    const isWithinImage = (op.ints('dilations') ?? []).every((dilation) => dilation === 1)
    return [
      result,
      isOwn && isWithinImage
        ? tensor(int64, shape, { rows: of.rows, place: of.rows && { stride: size, bound: size } })
        : op.fault('dependent', 'places of elements are counted over all rows'),
    ]
  }

const GridSample: Rule = (op) => {
  const [of, grid] = [op.data(0), op.data(1)]
  oneToOne('images and grids', { 'the input': of, 'the grid': grid })
  return tensor(of.type, [of.shape[0]!, of.shape[1]!, ...grid.shape.slice(1, -1)], { rows: of.rows })
}

/** Windows along a dimension. Each becomes an entry of a new last dimension. */
const UnfoldTensor: Rule = (op) => {
  const of = op.data(0)
  const axis = op.axis(of.shape.length, -1, 'dim')
  apart(of, [axis], 'slides a window')
  const size = op.int('size', 1)
  const count = add(floorOf(subtract(of.shape[axis]!, size), op.int('step', 1)), 1)
  return tensor(of.type, [...of.shape.with(axis, count), size], { rows: of.rows })
}

const AffineGrid: Rule = (op) => {
  const of = op.data(0)
  rowsOnly(of, [0], 'makes a grid')
  const size = op.counts(1, 'the size')
  if (size.slice(1).some(ofRows)) return dependent('the size depends on the number of rows')
  if (of.rows !== null && !isSame(size[0]!, of.shape[0]!))
    return notFollowed('its size is not known to have all rows')
  return tensor(of.type, [of.shape[0]!, ...size.slice(2), size.length - 2], { rows: of.rows })
}

const Col2Im: Rule = (op) => {
  const of = op.data(0)
  rowsOnly(of, [0], 'puts blocks together')
  const [image, block] = [op.elements(1, 'the image shape'), op.elements(2, 'the block shape')]
  const channels = divide(of.shape[1]!, block.reduce(multiply)) ?? lengthOf(`${op.label} 1`)
  return tensor(of.type, [of.shape[0]!, channels, ...image], { rows: of.rows })
}

/** Fourier transforms along one axis. The last dimension has real and imaginary parts. */
const DFT: Rule = (op) => {
  const of = op.data(0)
  const rank = of.shape.length
  const given = op.version >= 20 ? op.number(2, 'the axis', -2) : op.int('axis', 1)
  const axis = given < 0 ? given + rank : given
  apart(of, [axis, rank - 1], 'transforms')
  const [isOneSided, isInverse] = [op.int('onesided', 0) === 1, op.int('inverse', 0) === 1]
  const dim = of.shape[axis]!
  // A one-sided inverse gives real numbers, of which about half was left out.
  const isReal = isOneSided && isInverse
  const length = op.has(1)
    ? (op.shared(1).elements?.[0] ?? lengthOf(`length of ${op.label}`))
    : isReal
      ? multiply(2, subtract(dim, 1))
      : dim
  const kept = isOneSided && !isInverse ? add(floorOf(length, 2), 1) : length
  return tensor(of.type, of.shape.with(-1, isReal ? 1 : 2).with(axis, kept), { rows: of.rows })
}

const STFT: Rule = (op) => {
  const of = op.data(0)
  rowsOnly(of, [0], 'transforms')
  const dims = [1, 2].map((axis) => lengthOf(`${op.label} ${axis}`, of.shape.slice(1)))
  return tensor(of.type, [of.shape[0]!, ...dims, 2], { rows: of.rows })
}

/** Filters and windows computed from numbers. */
const generated =
  (rank: number): Rule =>
  (op) =>
    tensor(
      op.int('output_datatype', float32),
      range(0, rank).map((axis) => lengthOf(`${op.label} ${axis}`)),
    )

/** Distances between each row of the first tensor and each row of the second. */
const CDist: Rule = (op) => {
  const [a, b] = [op.data(0), op.data(1)]
  apart(a, [1], 'sums up')
  apart(b, [1], 'sums up')
  if (a.rows !== null && b.rows !== null) return dependent('each row meets all others in a distance')
  return tensor(a.type, [a.shape[0]!, b.shape[0]!], { rows: a.rows ?? (b.rows && { ...b.rows, axis: 1 }) })
}

export const linear: Rules = {
  MatMul,
  'com.microsoft:FusedMatMul': MatMul,
  'com.microsoft:TransposeMatMul': MatMul,
  Gemm,
  'com.microsoft:FusedGemm': Gemm,
  MatMulInteger: quantisedMatMul({ a: 0, b: 1, ofA: [2], ofB: [3], type: () => int32 }),
  QLinearMatMul: quantisedMatMul({ a: 0, b: 3, ofA: [1, 2], ofB: [4, 5], type: typeOfZeroPoint }),
  'com.microsoft:MatMulIntegerToFloat': quantisedMatMul({ a: 0, b: 1, ofA: [2, 4], ofB: [3, 5, 6], type: () => float32 }), // prettier-ignore
  'com.microsoft:MatMulNBits': MatMulNBits,
  'com.microsoft:MatMulInteger16': quantisedMatMul({ a: 0, b: 1, ofA: [], ofB: [], type: () => int32 }),
  Einsum,
  Conv,
  'com.microsoft:FusedConv': FusedConv,
  ConvInteger: convolution(1, () => int32),
  QLinearConv,
  'com.microsoft:QLinearConv': QLinearConv,
  ConvTranspose,
  'com.microsoft:ConvTransposeWithDynamicPads': ConvTranspose,
  DeformConv,
  ...forEach(pools, pool(false)),
  ...forEach(globalPools, pool(true)),
  GridSample,
  'com.microsoft:GridSample': GridSample,
  AffineGrid,
  'com.microsoft:UnfoldTensor': UnfoldTensor,
  Col2Im,
  DFT,
  STFT,
  MelWeightMatrix: generated(2),
  ...forEach(['HannWindow', 'HammingWindow', 'BlackmanWindow'], generated(1)),
  'com.microsoft:CDist': CDist,
}
