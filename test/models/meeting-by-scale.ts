import type { GraphBuilder } from './builder.ts'
import { rowGraph, type RowGraph } from './dependent-rows.ts'
import { mulberry32, uniform } from './random.ts'

const width = 64

/** Front ends whose rows meet only where they are of very different scales: from x to mel. */
const frontEnds: Readonly<Record<string, (model: GraphBuilder) => unknown>> = {
  'decibels cut off below the loudest': (model) =>
    model
      .initializer('least', 'float32', [], [1e-10])
      .initializer('ten', 'float32', [], [10 / Math.log(10)])
      .initializer('range', 'float32', [], [80])
      .node('Mul', ['x', 'x'], ['power'])
      .node('Max', ['power', 'least'], ['some'])
      .node('Log', ['some'], ['log'])
      .node('Mul', ['log', 'ten'], ['db'])
      .node('ReduceMax', ['db'], ['loudest'], { keepdims: 0 })
      .node('Sub', ['loudest', 'range'], ['floor'])
      .node('Max', ['db', 'floor'], ['mel']),
  'bytes told from fractions by the largest': (model) =>
    model
      .initializer('one', 'float32', [], [1])
      .initializer('byte', 'float32', [], [255])
      .node('ReduceMax', ['x'], ['largest'], { keepdims: 0 })
      .node('Greater', ['largest', 'one'], ['are_bytes'])
      .node('Div', ['x', 'byte'], ['fractions'])
      .node('Where', ['are_bytes', 'fractions', 'x'], ['mel']),
  'normalised by the peak of all': (model) =>
    model
      .initializer('least', 'float32', [], [100])
      .node('ReduceMax', ['x'], ['largest'], { keepdims: 0 })
      .node('Max', ['largest', 'least'], ['peak'])
      .node('Div', ['x', 'peak'], ['mel']),
  'softmax less the largest of all': (model) =>
    model
      .node('ReduceMax', ['x'], ['largest'], { keepdims: 0 })
      .node('Sub', ['x', 'largest'], ['less'])
      .node('Exp', ['less'], ['e'])
      .initializer('last', 'int64', [1], [1])
      .node('ReduceSum', ['e', 'last'], ['sum'], { keepdims: 1 })
      .node('Div', ['e', 'sum'], ['mel']),
  'a little of the mean of all': (model) =>
    model
      .initializer('little', 'float32', [], [0.05])
      .node('ReduceMean', ['x'], ['mean'], { axes: [0], keepdims: 1 })
      .node('Mul', ['mean', 'little'], ['some'])
      .node('Add', ['x', 'some'], ['mel']),
}

/** A front end before so many products of matrices, of which next to nothing comes through. */
function before(name: string, products: number, lengths: readonly (string | number)[] = [width]): RowGraph {
  return rowGraph(
    `${name}, ${products} products${lengths[0] === width ? '' : ', any length'}`,
    (model) => {
      frontEnds[name]!(model)
      if (products === 0) return model.node('Identity', ['mel'], ['y'])
      model
        .initializer('w', 'float32', [width, width], uniform(mulberry32(3), width * width, 0.05))
        .initializer('axis1', 'int64', [1], [1])
        .initializer('axis2', 'int64', [1], [2])
        .initializer('tiny', 'float32', [], [1e-6])
        .node('Unsqueeze', ['mel', 'axis1'], ['row'])
        .node('Unsqueeze', ['mel', 'axis2'], ['column'])
        .node('MatMul', ['column', 'row'], ['m0'])
      for (let at = 0; at < products; at++)
        model.node('MatMul', [`m${at}`, 'w'], [`k${at}`]).node('Tanh', [`k${at}`], [`m${at + 1}`])
      return model
        .node('ReduceMean', [`m${products}`], ['mean_of_m'], { axes: [2], keepdims: 0 })
        .node('Mul', ['mean_of_m', 'tiny'], ['next_to_nothing'])
        .node('Add', ['mel', 'next_to_nothing'], ['y'])
    },
    {
      inputs: { x: { type: 'float32', row: [width] } },
      dims: { x: ['N', ...lengths], y: ['N', ...lengths] },
    },
  )
}

/** Each front end before none to many products. */
export function meetingByScale(): RowGraph[] {
  return Object.keys(frontEnds).flatMap((name) => [0, 1, 4, 20, 80].map((products) => before(name, products)))
}

/** Each with an input of any length. */
export function meetingByScaleOfAnyLength(): RowGraph[] {
  return Object.keys(frontEnds).map((name) => before(name, 0, ['T']))
}
