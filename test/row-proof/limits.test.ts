import { describe, expect, it } from 'vitest'
import { answerQuestions, proveRows, type RowQuestion } from '../../src/onnx/row-proof/prove-rows.ts'
import { readGraph } from '../../src/onnx/row-proof/read-graph.ts'
import { graph, type GraphBuilder } from '../models/builder.ts'
import { full } from '../support/full.ts'

const verdictOf = (model: GraphBuilder, inputs: RowQuestion['inputs'], opset = 17) =>
  answerQuestions(
    () => readGraph(model.build({ opset })),
    [{ inputs, outputs: [{ name: 'y', batchAxis: 0 }] }],
  )[0]!.rows
const branch = (operator: string, input: string) =>
  graph('branch')
    .node(operator, [input], [`${operator} ${input}`])
    .output(`${operator} ${input}`, 'float32', ['a', 'b'])
    .subgraph()
/** Whether the dimensions of x that are called N and length are equal decides which branch is taken. */
const comparing = (length: string) =>
  graph('lengths')
    .input('x', 'float32', ['rows', length])
    .output('y', 'float32', ['rows', length])
    .initializer('first', 'int64', [], [0n])
    .initializer('second', 'int64', [], [1n])
    .node('Shape', ['x'], ['shape'])
    .node('Gather', ['shape', 'first'], ['count'])
    .node('Gather', ['shape', 'second'], ['length'])
    .node('Equal', ['count', 'length'], ['equal'])
    .node('If', ['equal'], ['y'], { then_branch: branch('Relu', 'x'), else_branch: branch('Neg', 'x') })

describe('names of a file', () => {
  it.each(['N', '"N"', 'floor(N, 2)', 'S*S'])(
    "are lengths of their own, whatever they are: '%s'",
    (length) => {
      expect(verdictOf(comparing(length), [{ name: 'x', shape: ['rows', length], batchAxis: 0 }])).not.toBe(
        'independent',
      )
    },
  )

  it('are not equal lengths where they are equal in two inputs', () => {
    // A running sum over the rows, unless both lengths are equal, which nothing checks of a request.
    const model = graph('two inputs')
      .input('x', 'float32', ['N', 'S'])
      .input('z', 'float32', ['N', 'S'])
      .output('y', 'float32', ['N', 'S'])
      .initializer('axis', 'int64', [], [0n])
      .node('Shape', ['x'], ['one'], { start: 1 })
      .node('Shape', ['z'], ['two'], { start: 1 })
      .node('Equal', ['one', 'two'], ['equal'])
      .node('If', ['equal'], ['y'], {
        then_branch: branch('Relu', 'x'),
        else_branch: graph('else')
          .node('CumSum', ['x', 'axis'], ['sum'])
          .output('sum', 'float32', ['N', 'S'])
          .subgraph(),
      })
    const given = (x: number | string, z: number | string) =>
      ['x', 'z'].map((name, index) => ({ name, shape: ['N', index === 0 ? x : z], batchAxis: 0 }))
    expect(verdictOf(model, given('S', 'S'))).toBe('unknown')
    expect(verdictOf(model, given(4, 4))).toBe('independent')
    expect(verdictOf(model, given(4, 5))).toBe('dependent')
  })
})

describe('what all rows share', () => {
  const rated = graph('rated')
    .input('x', 'float32', ['N', 4])
    .input('rate', 'int64', [])
    .output('y', 'float32', ['N', 4])
    .initializer('usual', 'int64', [], [16000n])
    .initializer('axis', 'int64', [], [0n])
    .node('Equal', ['rate', 'usual'], ['is usual'])
    .node('If', ['is usual'], ['y'], {
      then_branch: branch('Relu', 'x'),
      else_branch: graph('else')
        .node('CumSum', ['x', 'axis'], ['sum'])
        .output('sum', 'float32', ['N', 4])
        .subgraph(),
    })
  const question = (elements?: number[]): RowQuestion['inputs'] => [
    { name: 'x', shape: ['N', 4], batchAxis: 0 },
    { name: 'rate', shape: [], batchAxis: -1, ...(elements && { elements }) },
  ]

  it('leaves open what it decides, until its value is known', () => {
    expect(verdictOf(rated, question())).toBe('unknown')
    expect(verdictOf(rated, question([16000]))).toBe('independent')
    expect(verdictOf(rated, question([8000]))).toBe('dependent')
  })
})

describe('lengths and numbers of rows', () => {
  const model = (condition: (model: GraphBuilder) => void) => {
    const built = graph('limits')
      .input('x', 'float32', ['N', 'S'])
      .output('y', 'float32', ['N', 'S'])
      .initializer('axis', 'int64', [], [0n])
      .initializer('first', 'int64', [], [0n])
      .initializer('second', 'int64', [], [1n])
    condition(
      built
        .node('Shape', ['x'], ['shape'])
        .node('Gather', ['shape', 'second'], ['length'])
        .node('Gather', ['shape', 'first'], ['rows']),
    )
    return built.node('If', ['holds'], ['y'], {
      then_branch: branch('Relu', 'x'),
      else_branch: graph('else')
        .node('CumSum', ['x', 'axis'], ['sum'])
        .output('sum', 'float32', ['N', 'S'])
        .subgraph(),
    })
  }
  const x = [{ name: 'x', shape: ['N', 'S'], batchAxis: 0 }]
  const most = (value: 'length' | 'rows', least: bigint) =>
    model((built) =>
      built.initializer('most', 'int64', [], [least]).node('LessOrEqual', [value, 'most'], ['holds']),
    )

  it('are from 1 to a million, and to 65 536', () => {
    expect(verdictOf(most('length', 2n ** 20n), x)).toBe('independent')
    expect(verdictOf(most('length', 2n ** 20n - 1n), x)).toBe('unknown')
    expect(verdictOf(most('rows', 2n ** 16n), x)).toBe('independent')
    expect(verdictOf(most('rows', 2n ** 16n - 1n), x)).toBe('dependent')
  })

  it.each([
    [16, 'independent'],
    [255, 'unknown'],
  ] as const)('are followed as floats where these hold them: times %d is %s', (factor, verdict) => {
    const times = model((built) =>
      built
        .initializer('factor', 'int64', [], [BigInt(factor)])
        .initializer('as float', 'float32', [], [factor])
        .node('Cast', ['length'], ['float'], { to: 1 })
        .node('Mul', ['float', 'as float'], ['product'])
        .node('Cast', ['product'], ['one'], { to: 7 })
        .node('Mul', ['length', 'factor'], ['two'])
        .node('Equal', ['one', 'two'], ['holds']),
    )
    expect(verdictOf(times, x)).toBe(verdict)
  })
})

describe('what an operator does is not what its name says', () => {
  const rows = [{ name: 'x', shape: ['N', 4], batchAxis: 0 }]
  const one = (
    inputs: readonly string[],
    outputs: readonly string[],
    operator: string,
    attributes = {},
    dims: (number | string)[] = ['N', 4],
  ) =>
    graph('one')
      .input('x', 'float32', dims)
      .output('y', 'float32', dims)
      .node(operator, inputs, outputs, attributes)

  it('where the value of an attribute is 0, which some writers leave out', () => {
    const model = one(['x'], ['y'], 'Softmax', { axis: 1 })
    const [attribute] = model.subgraph().node![0]!.attribute as { i?: unknown }[]
    delete attribute!.i
    expect(verdictOf(model, rows)).toBe('dependent')
  })

  it('where whole numbers wrap', () => {
    const model = graph('wraps').input('x', 'float32', ['N', 4]).output('y', 'float32', ['N', 4])
    model
      .initializer('large', 'int32', [1], [65_536])
      .initializer('one', 'int32', [1], [1])
      .initializer('from', 'int32', [1], [0])
    model
      .node('Mul', ['large', 'large'], ['product'])
      .node('Add', ['product', 'one'], ['to'])
      .node('Slice', ['x', 'from', 'to'], ['first'])
      .node('Add', ['x', 'first'], ['y'])
    expect(verdictOf(model, rows)).not.toBe('independent')
  })

  it('where it interpolates along the rows, and multiplies what is infinite there by 0', () => {
    const model = graph('scaled')
      .input('x', 'float32', ['N', 2, 4])
      .output('y', 'float32', ['N', 2, 8])
      .initializer('scales', 'float32', [3], [1, 1, 2])
    model.node('Resize', ['x', '', 'scales'], ['y'], { mode: 'linear' })
    expect(verdictOf(model, [{ name: 'x', shape: ['N', 2, 4], batchAxis: 0 }])).toBe('unknown')
  })

  it('where a length that is computed may be below 0, and counts from the end', () => {
    const model = graph('ends')
      .input('x', 'float32', ['N', 'S', 4])
      .output('y', 'float32', ['N', 4])
      .initializer('five', 'int64', [1], [5n])
      .initializer('zero', 'int64', [1], [0n])
      .initializer('axis', 'int64', [1], [1n])
      .initializer('shape', 'int64', [3], [-1n, 0n, 4n])
    model
      .node('Shape', ['x'], ['length'], { start: 1, end: 2 })
      .node('Sub', ['length', 'five'], ['end'])
      .node('Slice', ['x', 'zero', 'end', 'axis'], ['part'])
    model
      .node('Transpose', ['part'], ['turned'], { perm: [1, 0, 2] })
      .node('Shape', ['x'], ['count'], { end: 1 })
      .node('Concat', ['end', 'count', 'five'], ['to'], { axis: 0 })
    model
      .node('Reshape', ['turned', 'to'], ['wrong'])
      .node('ReduceSum', ['wrong', 'zero'], ['y'], { keepdims: 0 })
    expect(verdictOf(model, [{ name: 'x', shape: ['N', 'S', 4], batchAxis: 0 }])).not.toBe('independent')
  })

  it('where an input of its subgraph also has an initializer, which ONNX Runtime leaves out', () => {
    const body = graph('body')
      .input('one', 'float32', ['N'])
      .input('two', 'float32', ['N'])
      .output('out', 'float32', ['N'])
      .initializer('one', 'float32', [1], [1])
      .node('Add', ['one', 'two'], ['out'])
    const model = graph('scan')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .node('Scan', ['x', 'x'], ['y'], {
        body: body.subgraph(),
        num_scan_inputs: 2,
        scan_input_axes: [1, 1],
        scan_output_axes: [1],
      })
    expect(verdictOf(model, rows)).toBe('unknown')
  })

  it.each([
    ['unknown', [1, 4]],
    ['unknown', ['N', 5]],
    ['independent', ['N']],
    ['unknown', [1, 'any']],
    ['independent', ['N', 4]],
    ['independent', ['any', 'other']],
    ['independent', [-1, 4]],
  ] as const)(
    'where a value is declared to have other dimensions than it has, which ONNX Runtime may believe: %s for %j',
    (verdict, dims) => {
      const model = graph('declared')
        .input('x', 'float32', ['N', 4])
        .output('y', 'float32', ['N', 4])
        .initializer('zero', 'int64', [], [0n])
        .initializer('one', 'int64', [], [1n])
        .initializer('axis', 'int64', [1], [0n])
      model
        .node('Relu', ['x'], ['t'])
        .node('Shape', ['t'], ['count'], { end: 1 })
        .node('Squeeze', ['count', 'axis'], ['n'])
        .node('Range', ['zero', 'n', 'one'], ['range'])
        .node('Gather', ['x', 'range'], ['own'])
        .node('Add', ['x', 'own'], ['y'])
      expect(verdictOf(model.valueInfo('t', 'float32', dims), rows)).toBe(verdict)
    },
  )

  it('where it is of a version that is newer than the rules', () => {
    const softmax = graph('softmax')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .node('Softmax', ['x'], ['y'], { axis: 1 })
    expect(verdictOf(softmax, rows, 26)).toBe('independent')
    expect(verdictOf(softmax, rows, 27)).toBe('unknown')
  })

  it('where a list is too long to be kept', () => {
    const words = graph('words')
      .input('x', 'string', ['N'])
      .output('y', 'string', ['N'])
      .node('StringNormalizer', ['x'], ['y'], {
        stopwords: Array.from({ length: 5000 }, (_, index) => `w${index}`),
      })
    expect(verdictOf(words, [{ name: 'x', shape: ['N'], batchAxis: 0 }])).toBe('dependent')
    const counts = graph('counts')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .node('Shape', ['x'], ['n'], { end: 1 })
    counts
      .node(
        'Concat',
        Array.from({ length: 5000 }, () => 'n'),
        ['all'],
        { axis: 0 },
      )
      .node('Cast', ['all'], ['numbers'], { to: 1 })
      .node('ReduceMean', ['numbers'], ['mean'], { keepdims: 1 })
      .node('Div', ['x', 'mean'], ['y'])
    expect(verdictOf(counts, rows)).toBe('dependent')
  })

  it('where a dimension of very many has its own', () => {
    const shape = Array.from({ length: 100 }, () => 1)
    const model = graph('many')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .initializer('shape', 'int64', [102], [-1, ...shape, 4].map(BigInt))
      .initializer('back', 'int64', [2], [-1n, 4n])
    model.node('Reshape', ['x', 'shape'], ['wide']).node('Reshape', ['wide', 'back'], ['y'])
    expect(verdictOf(model, rows)).toBe('unknown')
  })
})

describe('what would take very long ends soon', () => {
  const x = [{ name: 'x', shape: ['N', 'S'], batchAxis: 0 }]

  it('with elements of large constants', () => {
    const side = 2048
    const model = graph('positions')
      .input('x', 'float32', ['N', side, side])
      .output('y', 'float32', ['N', side, side])
    model
      .initializer(
        'a',
        'int64',
        [side, 1],
        Array.from({ length: side }, (_, index) => BigInt(index)),
      )
      .initializer(
        'b',
        'int64',
        [side],
        Array.from({ length: side }, (_, index) => BigInt(index)),
      )
    model.node('Sub', ['a', 'b'], ['d']).node('Cast', ['d'], ['e'], { to: 1 }).node('Add', ['x', 'e'], ['y'])
    expect(verdictOf(model, [{ name: 'x', shape: ['N', side, side], batchAxis: 0 }])).toBe('independent')
  })

  it('with a dimension that grows with each node', () => {
    const model = graph('powers')
      .input('x', 'float32', ['N', 'S'])
      .output('y', 'float32', ['N', 'S'])
      .initializer('one', 'int64', [1], [1n])
      .node('Shape', ['x'], ['v0'], { start: 1 })
    for (let turn = 0; turn < 40; turn++)
      model
        .node('Add', [`v${turn}`, 'one'], [`w${turn}`])
        .node('Mul', [`w${turn}`, `w${turn}`], [`v${turn + 1}`])
    model.node('ConstantOfShape', ['v40'], ['zeros']).node('Add', ['x', 'zeros'], ['y'])
    expect(verdictOf(model, x)).toBe('independent')
  })

  it('with a dimension that is multiplied by itself in each node', () => {
    const model = graph('doubled')
      .input('x', 'float32', ['N', 'S'])
      .output('y', 'float32', ['N', 'S'])
      .node('Shape', ['x'], ['v0'], { start: 1 })
    for (let turn = 0; turn < 40; turn++) model.node('Mul', [`v${turn}`, `v${turn}`], [`v${turn + 1}`])
    model.node('ConstantOfShape', ['v40'], ['zeros']).node('Add', ['x', 'zeros'], ['y'])
    expect(verdictOf(model, x)).toBe('independent')
  })

  it('with tens of millions of parts', () => {
    const model = graph('parts')
      .input('x', 'float32', ['N', 40_000_000])
      .output('y', 'float32', ['N', 40_000_000])
      .node('SplitToSequence', ['x'], ['parts'], { axis: 1 })
      .node('ConcatFromSequence', ['parts'], ['y'], { axis: 1 })
    expect(verdictOf(model, [{ name: 'x', shape: ['N', 40_000_000], batchAxis: 0 }])).toBe('unknown')
  })

  it.runIf(full)('with long sums in many elements', () => {
    const model = graph('sums')
      .input('x', 'float32', ['N', ...Array.from({ length: 60 }, (_, index) => `S${index}`)])
      .output('y', 'float32', ['N'])
    const dims = ['N', ...Array.from({ length: 60 }, (_, index) => `S${index}`)]
    model.initializer(
      'places',
      'int64',
      [4000],
      Array.from({ length: 4000 }, (_, index) => BigInt(1 + (index % 60))),
    )
    model.node('Shape', ['x'], ['shape']).node('Gather', ['shape', 'places'], ['v0'])
    for (let turn = 0; turn < 1000; turn++)
      model
        .initializer(
          `places ${turn}`,
          'int64',
          [4000],
          Array.from({ length: 4000 }, (_, index) => BigInt(1 + ((index + turn) % 60))),
        )
        .node('Gather', ['shape', `places ${turn}`], [`w${turn}`])
        .node('Add', [`v${turn}`, `w${turn}`], [`v${turn + 1}`])
    model.node('ConstantOfShape', ['v1000'], ['zeros']).node('Add', ['x', 'zeros'], ['y'])
    expect(verdictOf(model, [{ name: 'x', shape: dims, batchAxis: 0 }])).toBe('unknown')
  })

  it('with sums that are squared again and again', () => {
    const model = graph('squares')
      .input('x', 'float32', ['N', 'S', 'T'])
      .output('y', 'float32', ['N', 'S', 'T'])
      .node('Shape', ['x'], ['one'], { start: 1, end: 2 })
      .node('Shape', ['x'], ['two'], { start: 2 })
      .node('Add', ['one', 'two'], ['v0'])
      .initializer('seven', 'int64', [1], [7n])
    for (let turn = 0; turn < 24; turn++)
      model
        .node('Div', [`v${turn}`, 'seven'], [`w${turn}`])
        .node('Add', [`w${turn}`, 'one'], [`u${turn}`])
        .node('Min', [`u${turn}`, `v${turn}`], [`m${turn}`])
        .node('Add', [`m${turn}`, `w${turn}`], [`v${turn + 1}`])
    model.node('ConstantOfShape', ['v24'], ['zeros']).node('Add', ['x', 'zeros'], ['y'])
    expect(['independent', 'unknown']).toContain(
      verdictOf(model, [{ name: 'x', shape: ['N', 'S', 'T'], batchAxis: 0 }]),
    )
  })

  it('with many branches beside many constants', () => {
    const [constants, branches] = full ? [50_000, 2000] : [10_000, 500]
    const model = graph('branches')
      .input('x', 'float32', ['N', 4])
      .input('open', 'bool', [])
      .output('y', 'float32', ['N', 4])
    for (let index = 0; index < constants; index++) model.initializer(`k${index}`, 'float32', [1], [1])
    for (let turn = 0; turn < branches; turn++) {
      const input = turn === 0 ? 'x' : `v${turn}`
      model.node('If', ['open'], [turn === branches - 1 ? 'y' : `v${turn + 1}`], {
        then_branch: branch('Relu', input),
        else_branch: branch('Neg', input),
      })
    }
    expect(
      verdictOf(model, [
        { name: 'x', shape: ['N', 4], batchAxis: 0 },
        { name: 'open', shape: [], batchAxis: -1 },
      ]),
    ).toBe('independent')
  })

  it('with graphs in each other, each of which is run several times', () => {
    let body = graph('innermost').node('Relu', ['x'], ['inner 0']).output('inner 0', 'float32', ['N', 'S'])
    for (let depth = 1; depth < 12; depth++) {
      const outer = graph(`depth ${depth}`)
      outer
        .node('If', ['open'], [`inner ${depth}`], {
          then_branch: body.subgraph(),
          else_branch: body.subgraph(),
        })
        .output(`inner ${depth}`, 'float32', ['N', 'S'])
      body = outer
    }
    const model = graph('nested')
      .input('x', 'float32', ['N', 'S'])
      .input('open', 'bool', [])
      .output('y', 'float32', ['N', 'S'])
    model.node('If', ['open'], ['y'], { then_branch: body.subgraph(), else_branch: body.subgraph() })
    expect(['independent', 'unknown']).toContain(
      verdictOf(model, [...x, { name: 'open', shape: [], batchAxis: -1 }]),
    )
  })
})

/** A field of a protobuf message: a number, or bytes with their length. */
function field(number: number, content: number | string | Uint8Array): Buffer {
  const head = (value: number) => (value < 0x80 ? [value] : [(value & 0x7f) | 0x80, value >> 7])
  if (typeof content === 'number') return Buffer.from([...head(number * 8), content])
  const bytes = Buffer.from(content)
  return Buffer.concat([Buffer.from([...head(number * 8 + 2), ...head(bytes.length)]), bytes])
}

describe('functions of one name', () => {
  const int = (name: string, value: number) =>
    field(5, Buffer.concat([field(1, name), field(3, value), field(20, 2)]))
  const softmax = (axis: number) =>
    Buffer.concat([field(1, 'a'), field(2, 'b'), field(4, 'Softmax'), int('axis', axis)])
  const opset = (domain: string, version: number) => Buffer.concat([field(1, domain), field(2, version)])
  const body = (overload: string, axis: number, domain: string, version: number) =>
    field(
      25,
      Buffer.concat([
        field(1, 'F'),
        field(4, 'a'),
        field(5, 'b'),
        field(7, softmax(axis)),
        field(9, opset('', version)),
        field(10, domain),
        field(13, overload),
      ]),
    )
  const value = (name: string) =>
    Buffer.concat([
      field(1, name),
      field(
        2,
        field(
          1,
          Buffer.concat([
            field(1, 1),
            field(2, Buffer.concat([field(1, field(2, 'N')), field(1, field(1, 4))])),
          ]),
        ),
      ),
    ])
  const call = (overload: string, domain: string) =>
    field(
      1,
      Buffer.concat([field(1, 'x'), field(2, 'y'), field(4, 'F'), field(7, domain), field(8, overload)]),
    )
  const calling = (overload: string, domain = 'local', version = 17) =>
    Buffer.concat([
      field(1, 10),
      field(7, Buffer.concat([call(overload, domain), field(11, value('x')), field(12, value('y'))])),
      field(8, opset('', 17)),
      field(8, opset(domain, 1)),
      body('', 1, domain, version),
      body('by row', 1, domain, version),
      body('by column', 0, domain, version),
    ])

  const verdictOfCall = (model: Uint8Array) =>
    proveRows(readGraph(model)!, {
      inputs: [{ name: 'x', shape: ['N', 4], batchAxis: 0 }],
      outputs: [{ name: 'y', batchAxis: 0 }],
    }).rows

  it.each([
    ['', 'independent'],
    ['by row', 'independent'],
    ['by column', 'dependent'],
    ['of none', 'unknown'],
  ])("are told apart by their overload: '%s' is %s", (overload, verdict) => {
    expect(verdictOfCall(calling(overload))).toBe(verdict)
  })

  it('are not followed where ONNX Runtime may run something else: an operator of its own, or one of another version', () => {
    expect(verdictOfCall(calling('', 'com.microsoft'))).toBe('unknown')
    expect(verdictOfCall(calling('', 'local', 11))).toBe('unknown')
  })
})
