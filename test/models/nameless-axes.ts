import { graph, type Dims } from './builder.ts'
import { modelPath } from './cache.ts'

/**
 * A cell without a name for any dimension: input float32 ['', 4], state [2, '', 4] and rate int64 []; output is input * rate + both parts of the
 * state, stateN the state, input added to each part.
 *
 * @param meets whether the state gets the mean of all inputs instead.
 */
export function namelessCell(meets = false): string {
  return modelPath(`nameless-cell${meets ? '-that-meets' : ''}`, () => {
    const open: Dims = ['', '', '']
    const model = graph('cell')
      .input('input', 'float32', ['', 4])
      .input('state', 'float32', [2, '', 4])
      .input('rate', 'int64', [])
      .output('output', 'float32', ['', 4])
      .output('stateN', 'float32', open)
      .initializer('first', 'int64', [1], [0])
      .node('Cast', ['rate'], ['times'], { to: 1 })
      .node('Mul', ['input', 'times'], ['scaled'])
      .node('ReduceSum', ['state', 'first'], ['both'], { keepdims: 0 })
      .node('Add', ['scaled', 'both'], ['output'])
    if (meets) model.node('ReduceMean', ['input'], ['added'], { axes: [0], keepdims: 1 })
    else model.node('Identity', ['input'], ['added'])
    return model.node('Unsqueeze', ['added', 'first'], ['layer']).node('Add', ['state', 'layer'], ['stateN']).build()
  })
}
