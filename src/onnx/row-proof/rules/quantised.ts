import { lengthOf } from '../dims.ts'
import {
  along,
  broadcast,
  forEach,
  like,
  type Operation,
  range,
  type Rule,
  type Rules,
} from '../operation.ts'
import { elementType, sameRows, tensor, type Tensor } from '../followed-values.ts'
import { dependent } from '../not-proved.ts'
import { quantisedMatMul } from './linear.ts'
import { joined } from './movement.ts'

/**
 * Quantisation: numbers with a scale. Rows stay separate if the scale is given; a scale computed from the
 * whole tensor mixes them. Source: onnx.ai/onnx/operators/onnx__NAME.html, com.microsoft:
 * ContribOperators.md.
 */

const { uint8, float32 } = elementType

/**
 * A scale is a single number, or one per entry along an axis, or one per block along it. Blocks may belong to
 * rows.
 */
function scaled(type: (op: Operation, scale: Tensor | null, zeroPoint: Tensor | null) => number): Rule {
  return (op) => {
    const [of, scale, zeroPoint] = [op.data(0), op.optional(1), op.optional(2)]
    const axis = of.shape.length < 2 ? 0 : op.axis(of.shape.length, 1)
    const isBlocked = op.int('block_size', 0) > 0
    for (const part of [scale, zeroPoint]) {
      if (part === null || (part.rows === null && of.rows === null)) continue
      if (part.rows !== null && (!isBlocked || of.rows === null || !sameRows(part.rows, of.rows)))
        return dependent('a scale that is computed from some rows is used for others')
      const isOne = !isBlocked && part.shape.every((dim) => dim === 1)
      if (!isOne && (of.rows!.axis === axis || (isBlocked && part.rows === null)))
        return dependent(
          `a scale has an entry for each of a fixed number along dimension ${of.rows!.axis}, which counts the rows`,
        )
    }
    return tensor(type(op, scale, zeroPoint), of.shape, { rows: of.rows })
  }
}

const quantised: Rule = scaled((op, _, zeroPoint) => op.int('output_dtype', 0) || (zeroPoint?.type ?? uint8))
const dequantised: Rule = scaled((_, scale) => scale?.type ?? float32)

const DynamicQuantizeLinear: Rule = (op) => [
  like(op.shared(0, 'the scale that it makes'), uint8),
  tensor(float32, []),
  tensor(uint8, []),
]

/** Multiplies with a scale that is computed from its whole first input. */
const DynamicQuantizeMatMul: Rule = (op) => {
  op.shared(0, 'the scale that it makes')
  return quantisedMatMul({ a: 0, b: 1, ofA: [], ofB: [2, 3, 4], type: () => float32 })(op)
}

/**
 * An element-wise operator on quantised numbers: `data` are the indices of numeric inputs, all others are
 * scales.
 */
function withScales(...data: readonly number[]): Rule {
  return (op) => {
    const parts = data.map((index) => op.data(index))
    const { shape, rows } = broadcast(parts)
    return tensor(parts[0]!.type, shape, { rows })
  }
}

/**
 * The inputs are the scale and zero point of the result and then, for each part, the part, its scale and its
 * zero point.
 */
const QLinearConcat: Rule = (op) => {
  const parts = Array.from({ length: Math.floor((op.inputs.length - 2) / 3) }, (_, index) =>
    op.data(2 + 3 * index),
  )
  return like(joined(parts, op.axis(parts[0]!.shape.length, 0))) // in numbers of another scale
}

const QLinearSoftmax = along((rank, op) => {
  const axis = op.axis(rank, -1)
  return op.int('opset', 13) < 13 ? range(axis, rank) : [axis]
}, 'compares entries')

/** `A`, its scale and zero point, `B` and its own, the addend, and the scale and zero point of the result. */
const QGemm = quantisedMatMul({
  a: 0,
  b: 3,
  ofA: [1, 2],
  ofB: [4, 5],
  added: 6,
  type: (op) => (op.has(8) ? op.shared(8, 'a zero point').type : float32),
})

/** Selects from a table of blocks with scales, which all rows share. */
const GatherBlockQuantized: Rule = (op) => {
  const [{ shape }, index, scales] = [op.shared(0, 'the table'), op.data(1), op.shared(2, 'a scale')]
  const axis = op.axis(shape.length, 0, 'gather_axis')
  const behind = shape.slice(axis + 1).map((_, at) => lengthOf(`${op.label} ${at}`))
  return tensor(scales.type, [...shape.slice(0, axis), ...index.shape, ...behind], {
    rows: index.rows && { ...index.rows, axis: axis + index.rows.axis },
  })
}

export const quantisation: Rules = {
  ...forEach(['QuantizeLinear', 'com.microsoft:QuantizeLinear'], quantised),
  ...forEach(['DequantizeLinear', 'com.microsoft:DequantizeLinear'], dequantised),
  DynamicQuantizeLinear,
  'com.microsoft:DynamicQuantizeMatMul': DynamicQuantizeMatMul,
  ...forEach(['com.microsoft:QLinearAdd', 'com.microsoft:QLinearMul'], withScales(0, 3)),
  // condition, X, its scale and zero point, Y and its own, and those of the result
  'com.microsoft:QLinearWhere': withScales(1, 0, 4),
  ...forEach(['com.microsoft:QLinearSigmoid', 'com.microsoft:QLinearLeakyRelu'], withScales(0)),
  'com.microsoft:QLinearSoftmax': QLinearSoftmax,
  'com.microsoft:QLinearConcat': QLinearConcat,
  'com.microsoft:QGemm': QGemm,
  'com.microsoft:GatherBlockQuantized': GatherBlockQuantized,
}
