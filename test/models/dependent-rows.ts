import { graph, type BuildOptions, type Dims, type GraphBuilder } from './builder.ts'
import type { TensorType } from '../../src/index.ts'
import { modelPath } from './cache.ts'
import { elementTypeCode } from './element-type.ts'
import { mulberry32, uniform } from './random.ts'

/** A small graph by what it does, with the dims of one request by input; the first of each is the rows. */
export interface RowGraph {
  readonly name: string
  readonly path: string
  readonly inputs: Readonly<
    Record<string, { type: TensorType; row: readonly number[]; values?: 'ids' | 'mask' }>
  >
  /** Whether it gives the same for the same each time. */
  readonly repeatable: boolean
}

interface Declared {
  readonly inputs?: RowGraph['inputs']
  /** Dims by input and output where they are not [N, row...]. */
  readonly dims?: Readonly<Record<string, Dims>>
  readonly outputs?: Readonly<Record<string, [type: TensorType, dims: Dims]>>
  readonly options?: BuildOptions
  readonly repeatable?: boolean
}

/** Makes a graph of x float32 [N, 4] to y float32 [N, 4], or as declared. */
export function rowGraph(
  name: string,
  nodes: (model: GraphBuilder) => unknown,
  declared: Declared = {},
): RowGraph {
  const {
    inputs = { x: { type: 'float32', row: [4] } },
    dims = {},
    outputs = { y: ['float32', ['N', 4]] },
    options = {},
    repeatable = true,
  } = declared
  const file = `rows-${name.replaceAll(/[^a-z0-9]+/gi, '-')}`
  const path = modelPath(file, () => {
    const model = graph('rows')
    for (const [input, { type, row }] of Object.entries(inputs))
      model.input(input, type, dims[input] ?? ['N', ...row])
    for (const [output, [type, shape]] of Object.entries(outputs))
      model.output(output, type, dims[output] ?? shape)
    nodes(model)
    return model.build(options)
  })
  return { name, path, inputs, repeatable }
}

const weights = (count: number, seed = 5) => uniform(mulberry32(seed), count, 0.7)
/** The number of rows as int64 [1], and the rows' numbers as float32 ['N', 1]. */
const rowNumbers = (model: GraphBuilder): GraphBuilder =>
  model
    .initializer('zero', 'int64', [], [0])
    .initializer('one', 'int64', [], [1])
    .initializer('last_axis', 'int64', [1], [1])
    .node('Shape', ['x'], ['count'], { start: 0, end: 1 })
    .node('Squeeze', ['count'], ['rows'])
    .node('Range', ['zero', 'rows', 'one'], ['index'])
    .node('Unsqueeze', ['index', 'last_axis'], ['index_column'])
    .node('Cast', ['index_column'], ['number'], { to: elementTypeCode.float32 })
const number = (model: GraphBuilder, name: string, value: number) =>
  model.initializer(name, 'float32', [], [value])
const axis0 = (model: GraphBuilder) => model.initializer('axis0', 'int64', [1], [0])
/** Adds a share of a value that is one for all rows. */
const leak = (op: string, share: number) => (model: GraphBuilder) =>
  number(model, 'share', share)
    .node(op, ['x'], ['all'], { axes: [0], keepdims: 1 })
    .node('Mul', ['all', 'share'], ['some'])
    .node('Add', ['x', 'some'], ['y'])

/** Turns the sign of all rows when the largest or smallest number of them is beyond a limit. */
const beside =
  (reduce: string, compare: string, type: TensorType, limit: number, given = type) =>
  (model: GraphBuilder, of = 'x') => {
    const own = given === type ? 'x' : 'own'
    if (own !== 'x') model.node('Cast', ['x'], [own], { to: elementTypeCode[type] })
    return model
      .initializer('limit', type, [], [limit])
      .node(reduce, [of === 'x' ? own : of], ['found'], { keepdims: 0 })
      .node(compare, ['found', 'limit'], ['beyond'])
      .node('Neg', [own], ['minus'])
      .node('Where', ['beyond', 'minus', own], ['y'])
  }

function recurrent(op: string, gates: number, direction = 'forward'): (model: GraphBuilder) => unknown {
  const ways = direction === 'bidirectional' ? 2 : 1
  return (model) =>
    model
      .initializer('w', 'float32', [ways, gates * 3, 4], weights(ways * gates * 12))
      .initializer('r', 'float32', [ways, gates * 3, 3], weights(ways * gates * 9, 6))
      .node(op, ['x', 'w', 'r'], ['y'], { hidden_size: 3, direction })
}
const timeMajor = (ways: number): Declared => ({
  inputs: { x: { type: 'float32', row: [1, 4] } },
  outputs: { y: ['float32', ['N', ways, 1, 3]] },
})
const rowsOf = (type: TensorType): Declared => ({
  inputs: { x: { type, row: [4] } },
  outputs: { y: [type, ['N', 4]] },
})

/** Graphs whose answers to joined requests are not those to each alone. */
export const dependentRows = (): RowGraph[] => [
  rowGraph('cumulative sum', (model) =>
    model.initializer('axis', 'int64', [], [0]).node('CumSum', ['x', 'axis'], ['y']),
  ),
  rowGraph('cumulative sum from the end, exclusive', (model) =>
    model
      .initializer('axis', 'int64', [], [0])
      .node('CumSum', ['x', 'axis'], ['y'], { exclusive: 1, reverse: 1 }),
  ),
  rowGraph(
    'cumulative sum of integers',
    (model) => model.initializer('axis', 'int64', [], [0]).node('CumSum', ['x', 'axis'], ['y']),
    rowsOf('int64'),
  ),
  rowGraph(
    'mean over ids, cut to the longest row',
    (model) =>
      model
        .initializer('table', 'float32', [16, 4], weights(64))
        .initializer('pad', 'int64', [], [0])
        .initializer('from', 'int64', [1], [0])
        .initializer('axis1', 'int64', [1], [1])
        .node('Greater', ['input_ids', 'pad'], ['token'])
        .node('Cast', ['token'], ['tokens'], { to: elementTypeCode.int64 })
        .node('ReduceSum', ['tokens', 'axis1'], ['lengths'], { keepdims: 0 })
        .node('ReduceMax', ['lengths'], ['longest'], { keepdims: 0 })
        .node('Reshape', ['longest', 'axis1'], ['to'])
        .node('Slice', ['input_ids', 'from', 'to', 'axis1'], ['ids'])
        .node('Gather', ['table', 'ids'], ['words'])
        .node('ReduceMean', ['words'], ['y'], { axes: [1], keepdims: 0 }),
    { inputs: { input_ids: { type: 'int64', row: [8], values: 'ids' } }, options: { opset: 13 } },
  ),
  rowGraph(
    'mean of types taken off',
    (model) =>
      model
        .initializer('table', 'float32', [2, 4], weights(8))
        .node('Cast', ['node_type'], ['place'], { to: elementTypeCode.int64 })
        .node('Gather', ['table', 'place'], ['own'])
        .node('ReduceMean', ['own'], ['mean'], { axes: [0], keepdims: 1 })
        .node('Sub', ['own', 'mean'], ['apart'])
        .node('Add', ['x', 'apart'], ['y']),
    { inputs: { x: { type: 'float32', row: [4] }, node_type: { type: 'uint8', row: [], values: 'mask' } } },
  ),
  rowGraph('softmax over rows', (model) => model.node('Softmax', ['x'], ['y'], { axis: 0 })),
  rowGraph('log softmax over rows', (model) => model.node('LogSoftmax', ['x'], ['y'], { axis: 0 })),
  rowGraph('hardmax over rows', (model) => model.node('Hardmax', ['x'], ['y'], { axis: 0 })),
  rowGraph('columns sorted', (model) =>
    model
      .node('Shape', ['x'], ['count'], { start: 0, end: 1 })
      .node('TopK', ['x', 'count'], ['y', 'places'], { axis: 0 }),
  ),
  rowGraph(
    'largest row',
    (model) =>
      model.initializer('k', 'int64', [1], [1]).node('TopK', ['x', 'k'], ['y', 'places'], { axis: 0 }),
    {
      outputs: { y: ['float32', ['K', 4]] },
    },
  ),
  rowGraph(
    'rank of each row',
    (model) =>
      model
        .node('Shape', ['x'], ['count'], { start: 0, end: 1 })
        .node('TopK', ['x', 'count'], ['values', 'y'], { axis: 0 }),
    { outputs: { y: ['int64', ['N', 4]] } },
  ),
  rowGraph('mean of rows taken off', (model) =>
    model.node('ReduceMean', ['x'], ['mean'], { axes: [0], keepdims: 1 }).node('Sub', ['x', 'mean'], ['y']),
  ),
  rowGraph('divided by the largest of all', (model) =>
    model
      .node('Abs', ['x'], ['size'])
      .node('ReduceMax', ['size'], ['most'], { keepdims: 0 })
      .node('Div', ['x', 'most'], ['y']),
  ),
  rowGraph(
    'mean and variance of rows',
    (model) => model.node('MeanVarianceNormalization', ['x'], ['y'], { axes: [0] }),
    { options: { opset: 13 } },
  ),
  rowGraph('layer normalisation over everything', (model) =>
    model
      .initializer('scale', 'float32', [1], [1])
      .node('LayerNormalization', ['x', 'scale'], ['y'], { axis: 0 }),
  ),
  rowGraph('unit length by column', (model) =>
    model.node('LpNormalization', ['x'], ['y'], { axis: 0, p: 2 }),
  ),
  rowGraph(
    'batch normalisation in training',
    (model) => {
      for (const name of ['scale', 'bias', 'mean', 'var'])
        model.initializer(name, 'float32', [4], [1, 1, 1, 1])
      return model.node('BatchNormalization', ['x', 'scale', 'bias', 'mean', 'var'], ['y', 'm', 'v'], {
        training_mode: 1,
      })
    },
    { repeatable: false },
  ),
  rowGraph('attention over rows', (model) =>
    model
      .node('Transpose', ['x'], ['turned'], { perm: [1, 0] })
      .node('MatMul', ['x', 'turned'], ['scores'])
      .node('Softmax', ['scores'], ['share'], { axis: -1 })
      .node('MatMul', ['share', 'x'], ['y']),
  ),
  rowGraph('LSTM, time first', recurrent('LSTM', 4), timeMajor(1)),
  rowGraph('GRU, time first', recurrent('GRU', 3), timeMajor(1)),
  rowGraph('RNN, time first, both ways', recurrent('RNN', 1, 'bidirectional'), timeMajor(2)),
  rowGraph('unique rows', (model) => model.node('Unique', ['x'], ['y'], { axis: 0 }), {
    outputs: { y: ['float32', ['U', 4]] },
  }),
  rowGraph('unique numbers', (model) => model.node('Unique', ['x'], ['y'], { sorted: 0 }), {
    inputs: { x: { type: 'int64', row: [], values: 'ids' } },
    outputs: { y: ['int64', ['U']] },
  }),
  rowGraph(
    'waveform smoothed',
    (model) =>
      model
        .initializer('front', 'int64', [2], [0, 1])
        .initializer('kernel', 'float32', [1, 1, 3], [0.2, 0.5, 0.3])
        .node('Unsqueeze', ['x', 'front'], ['wave'])
        .node('Conv', ['wave', 'kernel'], ['smooth'], { pads: [1, 1] })
        .node('Squeeze', ['smooth', 'front'], ['y']),
    { inputs: { x: { type: 'float32', row: [] } }, outputs: { y: ['float32', ['T']] } },
  ),
  rowGraph(
    'waveform differences',
    (model) =>
      model
        .initializer('from', 'int64', [1], [0])
        .initializer('to', 'int64', [1], [-1])
        .initializer('pads', 'int64', [2], [1, 0])
        .node('Slice', ['x', 'from', 'to'], ['before'])
        .node('Pad', ['before', 'pads'], ['shifted'])
        .node('Sub', ['x', 'shifted'], ['y']),
    { inputs: { x: { type: 'float32', row: [] } }, outputs: { y: ['float32', ['N']] } },
  ),
  rowGraph(
    'points about their centre',
    (model) => model.node('ReduceMean', ['x'], ['mean'], { axes: [0] }).node('Sub', ['x', 'mean'], ['y']),
    {
      inputs: { x: { type: 'float32', row: [3] } },
      outputs: { y: ['float32', ['points', 3]] },
    },
  ),
  rowGraph('rows turned by one', (model) =>
    model
      .initializer('zero', 'int64', [1], [0])
      .initializer('one', 'int64', [1], [1])
      .initializer('end', 'int64', [1], [2 ** 31 - 1])
      .node('Slice', ['x', 'one', 'end', 'zero'], ['rest'])
      .node('Slice', ['x', 'zero', 'one', 'zero'], ['first'])
      .node('Concat', ['rest', 'first'], ['y'], { axis: 0 }),
  ),
  rowGraph('rows from the last to the first', (model) =>
    model
      .initializer('from', 'int64', [1], [-1])
      .initializer('to', 'int64', [1], [-(2 ** 31)])
      .initializer('axis', 'int64', [1], [0])
      .initializer('step', 'int64', [1], [-1])
      .node('Slice', ['x', 'from', 'to', 'axis', 'step'], ['y']),
  ),
  rowGraph('first row taken from all', (model) =>
    model
      .initializer('first', 'int64', [1], [0])
      .node('Gather', ['x', 'first'], ['top'], { axis: 0 })
      .node('Sub', ['x', 'top'], ['y']),
  ),
  rowGraph('number of the row added', (model) => rowNumbers(model).node('Add', ['x', 'number'], ['y'])),
  rowGraph('ones counted', (model) =>
    number(model, 'nothing', 0)
      .initializer('axis', 'int64', [], [0])
      .node('Mul', ['x', 'nothing'], ['zeros'])
      .node('Exp', ['zeros'], ['ones'])
      .node('CumSum', ['ones', 'axis'], ['places'])
      .node('Mul', ['x', 'places'], ['y']),
  ),
  rowGraph('divided by the number of rows', (model) =>
    model
      .node('Shape', ['x'], ['count'], { start: 0, end: 1 })
      .node('Cast', ['count'], ['rows'], { to: elementTypeCode.float32 })
      .node('Div', ['x', 'rows'], ['y']),
  ),
  rowGraph('other rows from the third on', (model) =>
    number(rowNumbers(model), 'two', 2)
      .node('GreaterOrEqual', ['number', 'two'], ['late'])
      .node('Neg', ['x'], ['minus'])
      .node('Where', ['late', 'minus', 'x'], ['y']),
  ),
  rowGraph('every fourth row', (model) =>
    number(number(rowNumbers(model), 'four', 4), 'three', 3)
      .node('Mod', ['number', 'four'], ['place'], { fmod: 1 })
      .node('Equal', ['place', 'three'], ['fourth'])
      .node('Neg', ['x'], ['minus'])
      .node('Where', ['fourth', 'minus', 'x'], ['y']),
  ),
  rowGraph('other rows in runs of more than sixteen', (model) =>
    model
      .initializer('sixteen', 'int64', [1], [16])
      .node('Shape', ['x'], ['count'], { start: 0, end: 1 })
      .node('Greater', ['count', 'sixteen'], ['many'])
      .node('Neg', ['x'], ['minus'])
      .node('Where', ['many', 'minus', 'x'], ['y']),
  ),
  rowGraph(
    'above the mean of all',
    (model) =>
      model.node('ReduceMean', ['x'], ['mean'], { keepdims: 0 }).node('Greater', ['x', 'mean'], ['y']),
    {
      outputs: { y: ['bool', ['N', 4]] },
    },
  ),
  rowGraph('which row has most', (model) =>
    model
      .node('ArgMax', ['x'], ['best'], { axis: 0, keepdims: 1 })
      .node('Cast', ['best'], ['place'], { to: elementTypeCode.float32 })
      .node('Add', ['x', 'place'], ['y']),
  ),
  rowGraph('sum of everything', (model) => model.node('ReduceSum', ['x'], ['y'], { keepdims: 0 }), {
    outputs: { y: ['float32', []] },
  }),
  rowGraph(
    'sum of rows, one row long',
    (model) => axis0(model).node('ReduceSum', ['x', 'axis0'], ['y'], { keepdims: 1 }),
    {
      outputs: { y: ['float32', ['M', 4]] },
    },
  ),
  rowGraph(
    'places that are not zero',
    (model) =>
      model.node('NonZero', ['x'], ['places']).node('Transpose', ['places'], ['y'], { perm: [1, 0] }),
    {
      outputs: { y: ['int64', ['K', 2]] },
    },
  ),
  rowGraph('rows kept by a mask', (model) => model.node('Compress', ['x', 'keep'], ['y'], { axis: 0 }), {
    inputs: { x: { type: 'float32', row: [4] }, keep: { type: 'bool', row: [] } },
  }),
  rowGraph(
    'each with each',
    (model) =>
      model.node('Transpose', ['b'], ['turned'], { perm: [1, 0] }).node('MatMul', ['a', 'turned'], ['y']),
    {
      inputs: { a: { type: 'float32', row: [4] }, b: { type: 'float32', row: [4] } },
      dims: { b: ['M', 4] },
      outputs: { y: ['float32', ['N', 'M']] },
    },
  ),
  rowGraph(
    'random noise',
    (model) => model.node('RandomUniformLike', ['x'], ['noise']).node('Add', ['x', 'noise'], ['y']),
    { repeatable: false },
  ),
  rowGraph('scale shared by quantisation', (model) =>
    model
      .node('DynamicQuantizeLinear', ['x'], ['q', 'scale', 'zero'])
      .node('DequantizeLinear', ['q', 'scale', 'zero'], ['y']),
  ),
  rowGraph(
    'string of the first row',
    (model) =>
      model
        .initializer('first', 'int64', [1], [0])
        .node('Gather', ['x', 'first'], ['top'], { axis: 0 })
        .node('StringConcat', ['x', 'top'], ['y']),
    {
      ...rowsOf('string'),
      options: { opset: 20, irVersion: 9 },
    },
  ),
  rowGraph('largest of neighbouring rows', (model) =>
    model
      .initializer('front', 'int64', [2], [0, 1])
      .node('Unsqueeze', ['x', 'front'], ['image'])
      .node('MaxPool', ['image'], ['pooled'], { kernel_shape: [3, 1], pads: [1, 0, 1, 0] })
      .node('Squeeze', ['pooled', 'front'], ['y']),
  ),
  rowGraph(
    'mean, in half precision',
    (model) =>
      model.node('ReduceMean', ['x'], ['mean'], { axes: [0], keepdims: 1 }).node('Sub', ['x', 'mean'], ['y']),
    rowsOf('float16'),
  ),
  rowGraph(
    'dimensions without names',
    (model) => model.initializer('axis', 'int64', [], [0]).node('CumSum', ['x', 'axis'], ['y']),
    {
      dims: { x: ['', 4], y: ['', 4] },
    },
  ),
  rowGraph('dimensions of different names', (model) => model.node('Softmax', ['x'], ['y'], { axis: 0 }), {
    dims: { x: ['unk__214', 4], y: ['unk__215', 4] },
  }),
  rowGraph('other rows beside a float above 100 000', beside('ReduceMax', 'Greater', 'float32', 100_000)),
  rowGraph('other rows beside a float below -100 000', beside('ReduceMin', 'Less', 'float32', -100_000)),
  rowGraph(
    'other rows beside an id above 100',
    beside('ReduceMax', 'Greater', 'int64', 100),
    rowsOf('int64'),
  ),
  rowGraph(
    'other rows beside an id above 10 000',
    beside('ReduceMax', 'Greater', 'int64', 10_000),
    rowsOf('int64'),
  ),
  rowGraph('other rows beside a byte of 255', beside('ReduceMax', 'Equal', 'int32', 255, 'uint8'), {
    inputs: { x: { type: 'uint8', row: [4] } },
    outputs: { y: ['int32', ['N', 4]] },
  }),
  rowGraph('other rows beside a zero', (model) =>
    beside('ReduceMin', 'Equal', 'float32', 0)(model.node('Abs', ['x'], ['size']), 'size'),
  ),
  rowGraph('changed where nothing is positive', (model) =>
    model
      .node('ReduceMax', ['x'], ['most'], { keepdims: 0 })
      .node('Neg', ['most'], ['less'])
      .node('Relu', ['less'], ['below'])
      .node('Add', ['x', 'below'], ['y']),
  ),
  rowGraph(
    'other rows beside a mask of nothing',
    (model) =>
      model
        .node('Cast', ['keep'], ['kept'], { to: elementTypeCode.float32 })
        .node('ReduceMax', ['kept'], ['any'], { axes: [1], keepdims: 1 })
        .node('ReduceMin', ['any'], ['all'], { keepdims: 0 })
        .node('Mul', ['x', 'all'], ['y']),
    { inputs: { x: { type: 'float32', row: [4] }, keep: { type: 'bool', row: [4] } } },
  ),
  rowGraph('little of the largest', leak('ReduceMax', 0.01)),
  rowGraph('little of the smallest', leak('ReduceMin', 0.003)),
  rowGraph('little of the mean', leak('ReduceMean', 0.01)),
  rowGraph(
    'integers less the largest',
    (model) =>
      model.node('ReduceMax', ['x'], ['most'], { axes: [0], keepdims: 1 }).node('Sub', ['x', 'most'], ['y']),
    rowsOf('int32'),
  ),
  rowGraph(
    'ids counted',
    (model) =>
      model
        .initializer('depth', 'int64', [1], [50])
        .initializer('values', 'float32', [2], [0, 1])
        .initializer('table', 'float32', [50, 4], weights(200))
        .node('OneHot', ['x', 'depth', 'values'], ['hot'])
        .node('ReduceMean', ['hot'], ['often'], { axes: [0], keepdims: 1 })
        .node('MatMul', ['often', 'table'], ['common'])
        .node('Gather', ['table', 'x'], ['own'], { axis: 0 })
        .node('Sub', ['own', 'common'], ['y']),
    { inputs: { x: { type: 'int64', row: [], values: 'ids' } } },
  ),
  rowGraph(
    'tokens one behind the other',
    (model) =>
      model
        .initializer('table', 'float32', [50, 4], weights(200))
        .initializer('axis', 'int64', [], [0])
        .node('Gather', ['table', 'x'], ['own'], { axis: 0 })
        .node('CumSum', ['own', 'axis'], ['y']),
    {
      inputs: { x: { type: 'int64', row: [], values: 'ids' } },
      outputs: { y: ['float32', ['sequence', 4]] },
    },
  ),
  rowGraph(
    'edges of a graph',
    (model) =>
      model
        .node('Transpose', ['x'], ['turned'], { perm: [1, 0] })
        .node('MatMul', ['x', 'turned'], ['near'])
        .node('Sigmoid', ['near'], ['weight'])
        .node('MatMul', ['weight', 'x'], ['y']),
    { inputs: { x: { type: 'float32', row: [4] } } },
  ),
  rowGraph(
    'dropout in training',
    (model) =>
      model
        .initializer('ratio', 'float32', [], [0.5])
        .initializer('training', 'bool', [], [1])
        .node('Dropout', ['x', 'ratio', 'training'], ['y']),
    { repeatable: false },
  ),
  rowGraph('norm of all the rows', (model) => {
    model.initializer('bias', 'float32', [4], [1, 2, 3, 4]).initializer('small', 'float32', [], [0.01])
    return model
      .node('ReduceL2', ['x'], ['length'], { keepdims: 0 })
      .node('Mul', ['length', 'small'], ['part'])
      .node('Add', ['x', 'bias'], ['own'])
      .node('Add', ['own', 'part'], ['y'])
  }),
  rowGraph('constant row written over', (model) =>
    model
      .initializer('where', 'int64', [1, 1], [-1])
      .initializer('zeros', 'float32', [1, 4], [9, 9, 9, 9])
      .node('ScatterND', ['x', 'where', 'zeros'], ['y']),
  ),
  rowGraph(
    'second output of all rows',
    (model) =>
      model
        .node('Relu', ['x'], ['y'])
        .node('CumSum', ['x', 'axis'], ['z'])
        .initializer('axis', 'int64', [], [0]),
    {
      outputs: { y: ['float32', ['N', 4]], z: ['float32', ['N', 4]] },
    },
  ),
  rowGraph(
    'bools of any row',
    (model) =>
      model
        .node('Cast', ['x'], ['as_float'], { to: elementTypeCode.float32 })
        .node('ReduceMax', ['as_float'], ['any'], { axes: [0], keepdims: 1 })
        .node('Cast', ['any'], ['any_bool'], { to: elementTypeCode.bool })
        .node('Xor', ['x', 'any_bool'], ['y']),
    rowsOf('bool'),
  ),
]
