import { graph, type Dims, type GraphBuilder } from './builder.ts'
import { modelPath } from './cache.ts'

const others: Readonly<Record<string, readonly [dims: Dims, make: (model: GraphBuilder) => unknown]>> = {
  'a constant': [
    [2, 4],
    (model) =>
      model
        .initializer('anchors', 'float32', [2, 4], [1, 2, 3, 4, 5, 6, 7, 8])
        .node('Identity', ['anchors'], ['other']),
  ],
  'a constant with rows': [
    ['M', 4],
    (model) =>
      model
        .initializer('anchors', 'float32', [2, 4], [1, 2, 3, 4, 5, 6, 7, 8])
        .node('Identity', ['anchors'], ['other']),
  ],
  'a scalar loss': [[], (model) => model.node('ReduceMean', ['y'], ['other'], { keepdims: 0 })],
  'hidden states of layers': [
    [2, 'N', 4],
    (model) =>
      model
        .initializer('first', 'int64', [1], [0])
        .node('Unsqueeze', ['y', 'first'], ['layer'])
        .node('Concat', ['layer', 'layer'], ['other'], { axis: 0 }),
  ],
  'rows that meet': [
    ['N', 4],
    (model) => model.initializer('first', 'int64', [], [0]).node('CumSum', ['y', 'first'], ['other']),
  ],
}

/** y = relu(x) for x float32 ['N', 4], beside an output that has no rows of requests. */
export function outputsBeside(kind: string): string {
  const [dims, make] = others[kind]!
  return modelPath(`beside-${kind.replaceAll(' ', '-')}`, () => {
    const model = graph('beside')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .output('other', 'float32', dims)
      .node('Relu', ['x'], ['y'])
    make(model)
    return model.build()
  })
}

/** The same beside 40 constants. */
export function manyOutputs(): string {
  return modelPath('beside-many', () => {
    const model = graph('beside')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .node('Relu', ['x'], ['y'])
      .initializer('anchors', 'float32', [1, 4], [1, 2, 3, 4])
    for (let at = 0; at < 40; at++)
      model.output(`other${at}`, 'float32', [1, 4]).node('Identity', ['anchors'], [`other${at}`])
    return model.build()
  })
}
