import { rowGraph, type RowGraph } from './dependent-rows.ts'
import { mulberry32, uniform } from './random.ts'

const far = { inputs: { x: { type: 'int64', row: [] } } } as const
const table = (offset: number) => (model: Parameters<Parameters<typeof rowGraph>[1]>[0]) =>
  model
    .initializer('offset', 'int64', [], [offset])
    .initializer('table', 'float32', [50, 4], uniform(mulberry32(3), 200, 1))
    .node('Sub', ['x', 'offset'], ['place'])
    .node('Gather', ['table', 'place'], ['own'], { axis: 0 })

/** The row of a table that x (int64 ['N'], 1000 to 1049) names: no small number can be run. Rows are independent. */
export const farIds = (): RowGraph =>
  rowGraph('ids from a thousand on', (model) => table(1000)(model).node('Identity', ['own'], ['y']), far)

/** As {@link farIds}, through an operator that has no rule, so that only requests show that its rows are independent. */
export const farIdsUnfollowed = (): RowGraph =>
  rowGraph(
    'ids from a thousand on, by an operator without a rule',
    (model) => table(1000)(model).node('com.microsoft:SampleOp', ['own'], ['y']),
    { ...far, options: { domains: { 'com.microsoft': 1 } } },
  )

/** As {@link farIds}, summed up from row to row. */
export const farIdsSummed = (): RowGraph =>
  rowGraph(
    'ids from a thousand on, summed',
    (model) =>
      table(1000)(model).initializer('axis', 'int64', [], [0]).node('CumSum', ['own', 'axis'], ['y']),
    far,
  )

/** As {@link farIds}, with the mean of all kinds (int64 ['N'], 0 or 1) added. */
export const farIdsOfKinds = (): RowGraph =>
  rowGraph(
    'ids from a thousand on, of kinds',
    (model) =>
      table(1000)(model)
        .initializer('two', 'int64', [], [2])
        .node('Mod', ['kind', 'two'], ['parity'])
        .node('Cast', ['parity'], ['kinds'], { to: 1 })
        .node('ReduceMean', ['kinds'], ['mean'], { axes: [0], keepdims: 1 })
        .node('Add', ['own', 'mean'], ['y']),
    { inputs: { ...far.inputs, kind: { type: 'int64', row: [] } } },
  )

/** As {@link farIds}, and the same whatever it is given. */
export const farIdsIgnored = (): RowGraph =>
  rowGraph(
    'ids from a thousand on, ignored',
    (model) => table(1000)(model).initializer('none', 'float32', [], [0]).node('Mul', ['own', 'none'], ['y']),
    far,
  )

/** As {@link farIds}, less the mean of each two rows: an odd number of them cannot be run. */
export const farPairs = (): RowGraph =>
  rowGraph(
    'ids from a thousand on, in pairs',
    (model) =>
      table(1000)(model)
        .initializer('pairs', 'int64', [3], [-1, 2, 4])
        .initializer('rows', 'int64', [2], [-1, 4])
        .node('Reshape', ['own', 'pairs'], ['pair'])
        .node('ReduceMean', ['pair'], ['mean'], { axes: [1], keepdims: 1 })
        .node('Sub', ['pair', 'mean'], ['apart'])
        .node('Reshape', ['apart', 'rows'], ['y']),
    far,
  )

/** y = x + bias for x ['N', 4] and bias ['M', 4], one of which may have a single row that counts for all. */
export const broadcast = (): RowGraph =>
  rowGraph('broadcast', (model) => model.node('Add', ['x', 'bias'], ['y']), {
    inputs: { x: { type: 'float32', row: [4] }, bias: { type: 'float32', row: [4] } },
    dims: { bias: ['M', 4] },
  })

/** What nodes ['nodes', 4] receive over edges ['edges', 2] of a graph: numbers of rows that have nothing to do with each other. */
export const nodesAndEdges = (): RowGraph =>
  rowGraph(
    'nodes and edges',
    (model) =>
      model
        .initializer('from', 'int64', [], [0])
        .initializer('to', 'int64', [], [1])
        .initializer('wide', 'int64', [1], [1])
        .node('Gather', ['edges', 'from'], ['sources'], { axis: 1 })
        .node('Gather', ['edges', 'to'], ['targets'], { axis: 1 })
        .node('Gather', ['nodes', 'sources'], ['sent'], { axis: 0 })
        .node('Unsqueeze', ['targets', 'wide'], ['where'])
        .node('ScatterND', ['nodes', 'where', 'sent'], ['y'], { reduction: 'add' }),
    {
      inputs: { nodes: { type: 'float32', row: [4] }, edges: { type: 'int64', row: [2] } },
      dims: { nodes: ['nodes', 4], edges: ['edges', 2] },
      outputs: { y: ['float32', ['nodes', 4]] },
      options: { opset: 18 },
    },
  )

/** y = x ÷ divisor, both int32 ['N', 4]: a divisor of 0 ends the process. */
export const divided = (): RowGraph =>
  rowGraph(
    'divided by an input',
    (model) =>
      model
        .node('Div', ['x', 'divisor'], ['q'])
        .node('Mod', ['x', 'divisor'], ['r'])
        .node('Add', ['q', 'r'], ['y']),
    {
      inputs: {
        x: { type: 'int32', row: [4], values: 'ids' },
        divisor: { type: 'int32', row: [4], values: 'ids' },
      },
      outputs: { y: ['int32', ['N', 4]] },
    },
  )
