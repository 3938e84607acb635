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
    return model
      .node('Unsqueeze', ['added', 'first'], ['layer'])
      .node('Add', ['state', 'layer'], ['stateN'])
      .build()
  })
}

/**
 * As {@link namelessCell}, with floats of any length for input, of which each row is the sum of its own; where `rate` is not 3 the output gets the
 * sum of all rows instead.
 */
export function cellByRate(): string {
  return modelPath('nameless-cell-by-rate', () => {
    const branch = (name: string, axis: string) =>
      graph(name)
        .output(`${name}-sum`, 'float32', ['', ''])
        .node('ReduceSum', ['input', axis], [`${name}-sum`], { keepdims: 1 })
        .subgraph()
    return graph('cell-by-rate')
      .input('input', 'float32', ['', ''])
      .input('state', 'float32', [2, '', 1])
      .input('rate', 'int64', [])
      .output('output', 'float32', ['', 1])
      .output('stateN', 'float32', ['', '', ''])
      .initializer('three', 'int64', [], [3])
      .initializer('first', 'int64', [1], [0])
      .initializer('second', 'int64', [1], [1])
      .node('Equal', ['rate', 'three'], ['is-three'])
      .node('If', ['is-three'], ['chosen'], {
        then_branch: branch('then', 'second'),
        else_branch: branch('else', 'first'),
      })
      .node('ReduceSum', ['chosen', 'second'], ['sum'], { keepdims: 1 })
      .node('ReduceSum', ['state', 'first'], ['both'], { keepdims: 0 })
      .node('Add', ['sum', 'both'], ['output'])
      .node('Unsqueeze', ['sum', 'first'], ['layer'])
      .node('Add', ['state', 'layer'], ['stateN'])
      .build()
  })
}
