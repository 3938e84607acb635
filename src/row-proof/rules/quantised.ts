import { opaque } from '../dims.ts'
import { broadcast, like, rowsOnly, type Operation, type Rule, type Rules } from '../operation.ts'
import { elementType, sameRows, tensor } from '../followed-values.ts'
import { meets, notFollowed } from '../not-proved.ts'
import { swappedMatMul, windows } from './linear.ts'
import { joined } from './movement.ts'

/**
 * Quantisation: numbers with a scale. Rows stay apart where the scale is given; one that is made of the whole tensor makes them meet.
 * Source: onnx.ai/onnx/operators/onnx__NAME.html, com.microsoft: ContribOperators.md.
 */

const { uint8, float32 } = elementType

/** Scales are one for all, one for each entry along an axis, or one for each block along it, which may be of a row. */
function scaled(type: (op: Operation) => number): Rule {
  return (op) => {
    const of = op.data(0)
    const axis = of.shape.length < 2 ? 0 : op.axis(of.shape.length, 1)
    for (const index of [1, 2]) {
      const scale = op.optional(index)
      if (scale === null || (scale.rows === null && (of.rows === null || scale.shape.every((dim) => dim === 1)))) continue
      const isBlocked = op.int('block_size', 0) > 0
      if (scale.rows !== null && (!isBlocked || of.rows === null || !sameRows(scale.rows, of.rows))) return meets('a scale is made of rows, and stands for others')
      if (of.rows?.axis === axis || (scale.rows === null && isBlocked)) return meets(`a scale has an entry for each of a fixed number along dimension ${of.rows!.axis}, which counts the rows`)
    }
    return tensor(type(op), of.shape, { rows: of.rows })
  }
}

const quantised: Rule = scaled((op) => op.int('output_dtype', 0) || (op.has(2) ? op.data(2).type : uint8))
const dequantised: Rule = scaled((op) => (op.has(1) ? op.data(1).type : float32))

const overWhole: Rule = (op) => {
  const of = op.data(0)
  if (of.rows !== null) return meets('it makes one scale of the whole tensor')
  return [like(of, uint8), tensor(float32, []), tensor(uint8, [])]
}

/** What multiplies by a scale that it makes of its whole first input. */
const dynamicProduct: Rule = (op) => {
  if (op.data(0).rows !== null) return meets('it makes one scale of its whole input')
  return swappedMatMul(op.data(0), op.data(1), false, false, float32)
}

/** An element-wise operator of numbers with scales: `data` are the inputs that are numbers, all others are scales. */
function withScales(...data: readonly number[]): Rule {
  return (op) => {
    for (const index of op.inputs.keys()) if (op.has(index) && !data.includes(index)) op.shared(index, 'a scale')
    const { shape, rows } = broadcast(data.map((index) => op.data(index)))
    return tensor(op.data(data[0]!).type, shape, { rows })
  }
}

const pooled: Rule = (op) => {
  const of = op.data(0)
  const isLast = op.int('channels_last', 0) !== 0
  rowsOnly(of, [0], 'slides a window')
  for (let index = 1; index < op.inputs.length; index++) if (op.has(index)) op.shared(index, 'a scale')
  const rank = of.shape.length
  if (op.operator === 'QLinearGlobalAveragePool') return tensor(of.type, of.shape.map((dim, axis) => (axis === 0 || axis === (isLast ? rank - 1 : 1) ? dim : 1)), { rows: of.rows })
  const spatial = windows(op, of, op.ints('kernel_shape') ?? notFollowed('attribute kernel_shape is missing'), isLast ? 1 : 2)
  return tensor(of.type, isLast ? [of.shape[0]!, ...spatial, of.shape[rank - 1]!] : [of.shape[0]!, of.shape[1]!, ...spatial], { rows: of.rows })
}

const QLinearConcat: Rule = (op) => {
  const parts = Array.from({ length: Math.floor((op.inputs.length - 2) / 3) }, (_, index) => op.data(2 + 3 * index))
  for (const index of op.inputs.keys()) if (op.has(index) && (index < 2 || (index - 2) % 3 !== 0)) op.shared(index, 'a scale')
  return joined(parts, op.axis(parts[0]!.shape.length, 0))
}

const QLinearSoftmax: Rule = (op) => {
  const of = op.data(0)
  for (let index = 1; index < op.inputs.length; index++) if (op.has(index)) op.shared(index, 'a scale')
  const axis = op.axis(of.shape.length, -1)
  const meet = op.int('opset', 13) < 13 ? of.shape.flatMap((_, other) => (other >= axis ? [other] : [])) : [axis]
  if (of.rows !== null && meet.includes(of.rows.axis)) return meets(`it compares entries along dimension ${of.rows.axis}, which counts the rows`)
  return like(of)
}

/** `A`, its scale and zero point, `B` and its own, a bias, and the scale and zero point of the result. */
const QGemm: Rule = (op) => {
  for (const index of [1, 2, 4, 5, 6, 7, 8]) if (op.has(index)) op.shared(index, 'a scale')
  return swappedMatMul(op.data(0), op.data(3), op.int('transA', 0) !== 0, op.int('transB', 0) !== 0, op.has(8) ? op.data(8).type : float32)
}

/** Picks from a table of blocks with scales, which all rows share. */
const GatherBlockQuantized: Rule = (op) => {
  const [table, index] = [op.shared(0, 'the table'), op.data(1)]
  const scales = op.shared(2, 'a scale')
  if (op.has(3)) op.shared(3, 'a zero point')
  const axis = op.axis(table.shape.length, 0, 'gather_axis')
  const own = table.shape.map((dim, at) => (at < axis ? dim : opaque(`${op.label} ${at}`, [], 0)))
  return tensor(scales.type, [...own.slice(0, axis), ...index.shape, ...own.slice(axis + 1)], { rows: index.rows && { ...index.rows, axis: axis + index.rows.axis } })
}

export const quantisation: Rules = {
  QuantizeLinear: quantised,
  'com.microsoft:QuantizeLinear': quantised,
  DequantizeLinear: dequantised,
  'com.microsoft:DequantizeLinear': dequantised,
  DynamicQuantizeLinear: overWhole,
  'com.microsoft:DynamicQuantizeMatMul': dynamicProduct,
  'com.microsoft:QLinearAdd': withScales(0, 3),
  'com.microsoft:QLinearMul': withScales(0, 3),
  // condition, X, its scale and zero point, Y and its own, and those of the result
  'com.microsoft:QLinearWhere': withScales(1, 0, 4),
  'com.microsoft:QLinearSigmoid': withScales(0),
  'com.microsoft:QLinearLeakyRelu': withScales(0),
  'com.microsoft:QLinearSoftmax': QLinearSoftmax,
  'com.microsoft:QLinearGlobalAveragePool': pooled,
  'com.microsoft:QLinearAveragePool': pooled,
  'com.microsoft:QLinearConcat': QLinearConcat,
  'com.microsoft:QGemm': QGemm,
  'com.microsoft:GatherBlockQuantized': GatherBlockQuantized,
}
