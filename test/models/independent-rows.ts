import { graph, type GraphBuilder } from './builder.ts'
import { modelPath } from './cache.ts'
import { rowGraph, type RowGraph } from './dependent-rows.ts'
import { elementTypeCode } from './element-type.ts'
import { mulberry32, uniform } from './random.ts'

const weights = (count: number, seed = 5, scale = 0.5) => uniform(mulberry32(seed), count, scale)

/** An encoder of two layers as language models are exported: embeddings, attention within the row, a pooled answer. */
function bertLike(): RowGraph {
  const [width, heads, vocabulary] = [16, 2, 40]
  const path = modelPath('rows-bert-like', () => {
    const model = graph('bert')
    for (const input of ['input_ids', 'attention_mask', 'token_type_ids'])
      model.input(input, 'int64', ['batch_size', 'sequence_length'])
    model
      .output('last_hidden_state', 'float32', ['batch_size', 'sequence_length', width])
      .output('pooler_output', 'float32', ['batch_size', width])
    model
      .initializer('words', 'float32', [vocabulary, width], weights(vocabulary * width, 1))
      .initializer('types', 'float32', [2, width], weights(2 * width, 2))
      .initializer('positions', 'float32', [64, width], weights(64 * width, 3))
      .initializer(
        'ones',
        'float32',
        [width],
        Array.from({ length: width }, () => 1),
      )
      .initializer('split', 'int64', [4], [0, 0, heads, width / heads])
      .initializer('merge', 'int64', [3], [0, 0, width])
      .initializer('mask_axes', 'int64', [2], [1, 2])
      .initializer('one', 'float32', [], [1])
      .initializer('far', 'float32', [], [-10000])
      .initializer('step', 'int64', [], [1])
      .initializer('start', 'int64', [], [0])
      .initializer('scale', 'float32', [], [1 / Math.sqrt(width / heads)])
      .node('Gather', ['words', 'input_ids'], ['word'])
      .node('Gather', ['types', 'token_type_ids'], ['type'])
      .node('Shape', ['input_ids'], ['length'], { start: 1, end: 2 })
      .node('Squeeze', ['length'], ['tokens'])
      .node('Range', ['start', 'tokens', 'step'], ['places'])
      .node('Gather', ['positions', 'places'], ['position'])
      .node('Add', ['word', 'type'], ['typed'])
      .node('Add', ['typed', 'position'], ['embedded'])
      .node('LayerNormalization', ['embedded', 'ones'], ['layer0'], { axis: -1 })
      .node('Unsqueeze', ['attention_mask', 'mask_axes'], ['wide_mask'])
      .node('Cast', ['wide_mask'], ['mask'], { to: elementTypeCode.float32 })
      .node('Sub', ['one', 'mask'], ['hidden'])
      .node('Mul', ['hidden', 'far'], ['penalty'])
    for (let layer = 0; layer < 2; layer++) encoder(model, layer, width)
    return model
      .initializer('first', 'int64', [], [0])
      .node('Identity', ['layer2'], ['last_hidden_state'])
      .node('Gather', ['last_hidden_state', 'first'], ['head'], { axis: 1 })
      .node('Tanh', ['head'], ['pooler_output'])
      .build()
  })
  const row = [8]
  return {
    name: 'BERT-like encoder',
    path,
    repeatable: true,
    inputs: {
      input_ids: { type: 'int64', row, values: 'ids' },
      attention_mask: { type: 'int64', row, values: 'mask' },
      token_type_ids: { type: 'int64', row, values: 'mask' },
    },
  }
}

function encoder(model: GraphBuilder, layer: number, width: number): void {
  const at = (name: string) => `${name}.${layer}`
  const x = `layer${layer}`
  for (const [index, part] of ['q', 'k', 'v', 'o'].entries())
    model.initializer(
      at(`w${part}`),
      'float32',
      [width, width],
      weights(width * width, 10 * layer + index + 7),
    )
  for (const part of ['q', 'k', 'v']) {
    model
      .node('MatMul', [x, at(`w${part}`)], [at(part)])
      .node('Reshape', [at(part), 'split'], [at(`${part}4`)])
      .node('Transpose', [at(`${part}4`)], [at(`${part}t`)], {
        perm: part === 'k' ? [0, 2, 3, 1] : [0, 2, 1, 3],
      })
  }
  model
    .node('MatMul', [at('qt'), at('kt')], [at('raw')])
    .node('Mul', [at('raw'), 'scale'], [at('scaled')])
    .node('Add', [at('scaled'), 'penalty'], [at('scores')])
    .node('Softmax', [at('scores')], [at('share')], { axis: -1 })
    .node('MatMul', [at('share'), at('vt')], [at('mixed')])
    .node('Transpose', [at('mixed')], [at('back')], { perm: [0, 2, 1, 3] })
    .node('Reshape', [at('back'), 'merge'], [at('merged')])
    .node('MatMul', [at('merged'), at('wo')], [at('attended')])
    .node('Add', [x, at('attended')], [at('sum')])
    .node('LayerNormalization', [at('sum'), 'ones'], [`layer${layer + 1}`], { axis: -1 })
}

const image = (model: GraphBuilder) =>
  model
    .initializer('w1', 'float32', [8, 3, 3, 3], weights(216))
    .initializer('w2', 'float32', [4, 8, 3, 3], weights(288, 6))
    .node('Conv', ['x', 'w1'], ['c1'], { pads: [1, 1, 1, 1], strides: [2, 2] })
    .node('Relu', ['c1'], ['r1'])
    .node('Conv', ['r1', 'w2'], ['c2'], { pads: [1, 1, 1, 1] })
    .node('GlobalAveragePool', ['c2'], ['pooled'])
    .node('Flatten', ['pooled'], ['y'], { axis: 1 })
const images = { x: { type: 'float32', row: [3, 32, 32] } } as const

/** Graphs that give each row the same whatever rows are beside it. */
export const independentRows = (): RowGraph[] => [
  bertLike(),
  rowGraph('identity', (model) => model.node('Identity', ['x'], ['y'])),
  rowGraph(
    'scalar rows doubled',
    (model) => model.initializer('two', 'float32', [], [2]).node('Mul', ['x', 'two'], ['y']),
    {
      inputs: { x: { type: 'float32', row: [] } },
      outputs: { y: ['float32', ['N']] },
    },
  ),
  rowGraph('softmax within the row', (model) => model.node('Softmax', ['x'], ['y'], { axis: -1 })),
  rowGraph('cumulative sum within the row', (model) =>
    model.initializer('axis', 'int64', [], [1]).node('CumSum', ['x', 'axis'], ['y']),
  ),
  rowGraph(
    'largest of the row',
    (model) => model.initializer('k', 'int64', [1], [2]).node('TopK', ['x', 'k'], ['y', 'i'], { axis: 1 }),
    {
      outputs: { y: ['float32', ['N', 2]], i: ['int64', ['N', 2]] },
    },
  ),
  rowGraph('best of the row', (model) => model.node('ArgMax', ['x'], ['y'], { axis: 1, keepdims: 0 }), {
    outputs: { y: ['int64', ['N']] },
  }),
  rowGraph('images', image, { inputs: images, outputs: { y: ['float32', ['N', 4]] } }),
  rowGraph('images of any size', image, {
    inputs: images,
    dims: { x: ['N', 3, 'height', 'width'] },
    outputs: { y: ['float32', ['N', 4]] },
  }),
  rowGraph('images of any size, nothing named', image, {
    inputs: images,
    dims: { x: ['', 3, '', ''] },
    outputs: { y: ['float32', ['', 4]] },
  }),
  rowGraph(
    'names of another exporter',
    (model) => model.initializer('w', 'float32', [4, 4], weights(16)).node('MatMul', ['x', 'w'], ['y']),
    {
      dims: { x: ['unk__214', 4], y: ['unk__215', 4] },
    },
  ),
  rowGraph('a name twice', (model) => model.node('Relu', ['x'], ['y']), {
    dims: { x: ['N', 'N'], y: ['N', 'N'] },
  }),
  rowGraph(
    'LSTM, batch first',
    (model) =>
      model
        .initializer('w', 'float32', [1, 12, 4], weights(48))
        .initializer('r', 'float32', [1, 12, 3], weights(36, 6))
        .initializer('direction', 'int64', [1], [1])
        .node('Transpose', ['x'], ['time_first'], { perm: [1, 0, 2] })
        .node('LSTM', ['time_first', 'w', 'r'], ['all'], { hidden_size: 3 })
        .node('Squeeze', ['all', 'direction'], ['steps'])
        .node('Transpose', ['steps'], ['y'], { perm: [1, 0, 2] }),
    {
      inputs: { x: { type: 'float32', row: [5, 4] } },
      dims: { x: ['N', 'steps', 4] },
      outputs: { y: ['float32', ['N', 'steps', 3]] },
    },
  ),
  rowGraph(
    'attention within the row',
    (model) =>
      model
        .node('Transpose', ['x'], ['turned'], { perm: [0, 2, 1] })
        .node('MatMul', ['x', 'turned'], ['scores'])
        .node('Softmax', ['scores'], ['share'], { axis: -1 })
        .node('MatMul', ['share', 'x'], ['y']),
    { inputs: { x: { type: 'float32', row: [6, 4] } }, outputs: { y: ['float32', ['N', 6, 4]] } },
  ),
  rowGraph(
    'embeddings summed',
    (model) =>
      model
        .initializer('table', 'float32', [20, 4], weights(80))
        .initializer('axis', 'int64', [1], [1])
        .node('Gather', ['table', 'x'], ['rows'])
        .node('ReduceSum', ['rows', 'axis'], ['y'], { keepdims: 0 }),
    {
      inputs: { x: { type: 'int64', row: [3], values: 'ids' } },
    },
  ),
  rowGraph(
    'embeddings of two things',
    (model) =>
      model
        .initializer('table', 'float32', [2, 4], weights(8))
        .node('Gather', ['table', 'kind'], ['own'])
        .node('Add', ['x', 'own'], ['y']),
    {
      inputs: { x: { type: 'float32', row: [4] }, kind: { type: 'int64', row: [], values: 'mask' } },
    },
  ),
  rowGraph('integers divided', (model) => model.node('Div', ['a', 'b'], ['y']), {
    inputs: { a: { type: 'int32', row: [4], values: 'ids' }, b: { type: 'int32', row: [4], values: 'ids' } },
    outputs: { y: ['int32', ['N', 4]] },
  }),
  rowGraph('strings', (model) => model.node('StringConcat', ['x', 'x'], ['y']), {
    inputs: { x: { type: 'string', row: [2] } },
    outputs: { y: ['string', ['N', 2]] },
    options: { opset: 20, irVersion: 9 },
  }),
  rowGraph('bools', (model) => model.node('Xor', ['a', 'b'], ['y']), {
    inputs: { a: { type: 'bool', row: [3] }, b: { type: 'bool', row: [3] } },
    outputs: { y: ['bool', ['N', 3]] },
  }),
  rowGraph('half precision', (model) => model.node('Neg', ['x'], ['n']).node('Relu', ['n'], ['y']), {
    inputs: { x: { type: 'float16', row: [4] } },
    outputs: { y: ['float16', ['N', 4]] },
  }),
  rowGraph('sum of four inputs', (model) => model.node('Sum', ['a', 'b', 'c', 'd'], ['y']), {
    inputs: Object.fromEntries(['a', 'b', 'c', 'd'].map((name) => [name, { type: 'float32', row: [4] }])),
  }),
  rowGraph('logarithm, for positive rows only', (model) =>
    model.node('Log', ['x'], ['l']).node('Sqrt', ['l'], ['y']),
  ),
  rowGraph(
    'double precision',
    (model) =>
      model.node('ReduceMean', ['x'], ['mean'], { axes: [1], keepdims: 1 }).node('Sub', ['x', 'mean'], ['y']),
    {
      inputs: { x: { type: 'float64', row: [4] } },
      outputs: { y: ['float64', ['N', 4]] },
    },
  ),
  rowGraph(
    'classifier with a squashed answer',
    (model) =>
      model
        .initializer('w', 'float32', [4, 6], weights(24))
        .node('MatMul', ['x', 'w'], ['h'])
        .node('Sigmoid', ['h'], ['y']),
    { outputs: { y: ['float32', ['N', 6]] } },
  ),
]
