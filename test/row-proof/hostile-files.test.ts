import { InferenceSession, Tensor } from 'onnxruntime-node'
import { describe, expect, it } from 'vitest'
import { answerQuestions, type RowQuestion } from '../../src/onnx/row-proof/prove-rows.ts'
import { readGraph } from '../../src/onnx/row-proof/read-graph.ts'

/**
 * Files that no exporter writes, in which protobuf or ONNX Runtime sees another graph than a plain reader does. Each is run in ONNX
 * Runtime, so that what it does is known, and not thought: its rows `meet`, or stay `apart`, or it is `refused`. None is proved.
 */
type InRuntime = 'meet' | 'apart' | 'refused'

const row = [1, 2, 3, 4]
const other = [10, 20, 30, 50]

async function inRuntime(
  model: Uint8Array,
  shared: Readonly<Record<string, Tensor>> = {},
): Promise<InRuntime> {
  let session: InferenceSession
  try {
    session = await InferenceSession.create(model, { logSeverityLevel: 4, intraOpNumThreads: 1 })
  } catch {
    return 'refused'
  }
  const run = async (rows: readonly number[]) =>
    Array.from(
      (
        await session.run(
          { x: new Tensor('float32', Float32Array.from(rows), [rows.length / 4, 4]), ...shared },
          ['y'],
        )
      )['y']!.data as Float32Array,
    )
  try {
    const alone = [...(await run(row)), ...(await run(other))]
    const joined = await run([...row, ...other]).catch(() => [])
    return alone.length === joined.length && joined.every((value, index) => value === alone[index])
      ? 'apart'
      : 'meet'
  } finally {
    await session.release()
  }
}

const x: RowQuestion['inputs'] = [{ name: 'x', shape: ['N', 4], batchAxis: 0 }]
const proofOf = (model: Uint8Array, inputs = x) =>
  answerQuestions(() => readGraph(model), [{ inputs, outputs: [{ name: 'y', batchAxis: 0 }] }])[0]!

/** Parts of messages: a number as protobuf writes it, and fields by wire type. */
const bytes = (...parts: readonly (Uint8Array | string | number)[]) =>
  Buffer.concat(parts.map((each) => (typeof each === 'number' ? Buffer.from([each]) : Buffer.from(each))))
function varint(value: number | bigint): Buffer {
  const digits: number[] = []
  for (let rest = BigInt.asUintN(64, BigInt(value)); digits.length === 0 || rest > 0n; rest >>= 7n)
    digits.push(Number(rest & 127n) + (rest > 127n ? 128 : 0))
  return Buffer.from(digits)
}
const number = (field: number, value: number | bigint) => bytes(varint(field * 8), varint(value))
const part = (field: number, ...content: readonly (Uint8Array | string | number)[]) =>
  bytes(varint(field * 8 + 2), varint(bytes(...content).length), ...content)
const little = (...values: readonly number[]) => Buffer.from(Float32Array.from(values).buffer)
const float = (field: number, value: number) => bytes(varint(field * 8 + 5), little(value))

const attribute = (name: string, type: number, ...content: Uint8Array[]) =>
  part(5, part(1, name), ...content, number(20, type))
const int = (name: string, value: number | bigint) => attribute(name, 2, number(3, value))
const node = (
  operator: string,
  inputs: readonly (Uint8Array | string)[],
  outputs: readonly (Uint8Array | string)[],
  ...rest: Uint8Array[]
) =>
  part(
    1,
    ...inputs.map((name) => part(1, name)),
    ...outputs.map((name) => part(2, name)),
    part(4, operator),
    ...rest,
  )
const typed = (type: number, dims: readonly (number | string)[]) =>
  part(
    2,
    part(
      1,
      number(1, type),
      part(2, ...dims.map((dim) => part(1, typeof dim === 'number' ? number(1, dim) : part(2, dim)))),
    ),
  )
const value = (name: string, type = 1, dims: readonly (number | string)[] = ['N', 4]) =>
  bytes(part(1, name), typed(type, dims))
const opset = (domain: string, version: number | bigint) => part(8, part(1, domain), number(2, version))
const givenX = part(11, value('x'))
const givesY = part(12, value('y'))
const io = bytes(givenX, givesY)
const modelOf = (graph: readonly Uint8Array[], ...rest: Uint8Array[]) =>
  bytes(number(1, 8), part(7, part(2, 'g'), ...graph), ...(rest.length === 0 ? [opset('', 17)] : rest))
const model = (...graph: Uint8Array[]) => modelOf(graph)

/** What is added to such an attribute decides: along axis 0 rows meet, along 1 they do not. */
const softmax = (...axis: Uint8Array[]) =>
  model(node('Softmax', ['x'], ['y'], part(5, part(1, 'axis'), ...axis)), io)
const isInt = number(20, 2)
/** A largest value of all rows, under the name of what is made of each. */
const largest = (output: Uint8Array | string) =>
  node('ReduceMax', ['x'], [output], attribute('axes', 7, number(8, 0)))
const tensor = (type: number, dims: readonly number[], ...data: Uint8Array[]) =>
  bytes(...dims.map((dim) => number(1, dim)), number(2, type), ...data)
const four = tensor(1, [4], part(4, little(1, 2, 3, 4)))
const initializer = (name: string, ...content: Uint8Array[]) => part(5, ...content, part(8, name))

/** The rows of x are put in their own order by a permutation of dimensions, or along another one, as the element of a constant decides. */
const decided = (constant: Uint8Array, read = node('Cast', ['w'], ['c'], int('to', 9))) => {
  const branch = (name: string, ...content: Uint8Array[]) =>
    attribute(name, 5, part(6, part(2, name), ...content))
  return model(
    constant,
    initializer('axis', tensor(7, [], number(7, 0))),
    read,
    node(
      'If',
      ['c'],
      ['y'],
      branch('then_branch', node('Relu', ['x'], ['t']), part(12, value('t'))),
      branch('else_branch', node('CumSum', ['x', 'axis'], ['e']), part(12, value('e'))),
    ),
    io,
  )
}

interface Case {
  readonly what: string
  readonly file: Uint8Array
  readonly runtime: InRuntime
  /** Within the reason of the verdict, which is `unknown`. */
  readonly reason: RegExp
}

const expectUnproved = async ({ file, runtime, reason }: Case) => {
  expect(await inRuntime(file)).toBe(runtime)
  const proof = proofOf(file)
  expect(proof.rows).toBe('unknown')
  expect(proof.reason).toMatch(reason)
}

describe('what the hostile files are made of', () => {
  it('is read as ONNX Runtime reads it', async () => {
    expect([
      await inRuntime(softmax(number(3, 1), isInt)),
      proofOf(softmax(number(3, 1), isInt)).rows,
    ]).toEqual(['apart', 'independent'])
    expect([
      await inRuntime(softmax(number(3, 0), isInt)),
      proofOf(softmax(number(3, 0), isInt)).rows,
    ]).toEqual(['meet', 'dependent'])
    for (const [element, runtime, verdict] of [
      [1, 'apart', 'independent'],
      [0, 'meet', 'dependent'],
    ] as const) {
      const file = decided(initializer('w', tensor(2, [], number(5, element))))
      expect([await inRuntime(file), proofOf(file).rows]).toEqual([runtime, verdict])
    }
  })
})

describe('fields of a message that are written otherwise than by protobuf', () => {
  // Of a number that comes twice protobuf lets the last one count, of a message it merges both. What is of another wire type than
  // its own it keeps as a field that it does not know, so that an earlier value stands, or the default.
  const cases: readonly Case[] = [
    {
      what: 'a number twice',
      file: softmax(number(3, 1), number(3, 0), isInt),
      runtime: 'meet',
      reason: /field 3 comes a second time/,
    },
    {
      what: 'a type twice',
      file: softmax(number(3, 0), number(20, 1), isInt),
      runtime: 'meet',
      reason: /field 20 comes a second time/,
    },
    {
      what: 'a name twice',
      file: model(node('Relu', ['x'], ['y'], part(4, 'Softmax'), int('axis', 0)), io),
      runtime: 'meet',
      reason: /field 4 comes a second time/,
    },
    {
      what: 'a graph twice',
      file: modelOf([io], part(7, node('Softmax', ['x'], ['y'], int('axis', 0))), opset('', 17)),
      runtime: 'meet',
      reason: /field 7 comes a second time/,
    },
    {
      what: 'a tensor of an attribute twice',
      file: decided(
        node(
          'Constant',
          [],
          ['w'],
          attribute('value', 4, part(5, tensor(2, [1], number(5, 1))), part(5, number(2, 2))),
        ),
      ),
      runtime: 'apart',
      reason: /field 5 comes a second time/,
    },
    {
      what: 'a type of an input twice',
      file: model(node('Relu', ['x'], ['y']), part(11, part(1, 'x'), typed(1, ['N']), typed(1, [4])), givesY),
      runtime: 'apart',
      reason: /field 2 comes a second time/,
    },
    {
      what: 'two types of an input',
      file: model(
        node('Relu', ['x'], ['y']),
        part(11, part(1, 'x'), part(2, part(4, part(1, part(1, number(1, 1)))), part(1, number(1, 1)))),
        givesY,
      ),
      runtime: 'apart',
      reason: /is of several types/,
    },
    {
      what: 'a number that is a text',
      file: softmax(number(3, 0), part(3, ''), isInt),
      runtime: 'meet',
      reason: /field 3 at byte \d+ is of kind 2/,
    },
    {
      what: 'a number that is a text before it',
      file: softmax(part(3, 'a'), number(3, 0), isInt),
      runtime: 'meet',
      reason: /field 3 at byte \d+ is of kind 2/,
    },
    {
      what: 'a number of 8 bytes',
      file: softmax(number(3, 0), bytes(3 * 8 + 1, 1, Buffer.alloc(7)), isInt),
      runtime: 'meet',
      reason: /of kind 1/,
    },
    {
      what: 'a number of 4 bytes',
      file: softmax(number(3, 0), bytes(3 * 8 + 5, 1, Buffer.alloc(3)), isInt),
      runtime: 'meet',
      reason: /of kind 5/,
    },
    {
      what: 'a fraction that is a number',
      file: softmax(number(3, 0), number(2, 1), isInt),
      runtime: 'meet',
      reason: /field 2 at byte \d+ is of kind 0/,
    },
    {
      what: 'a text that is a number',
      file: softmax(number(3, 0), number(4, 1), isInt),
      runtime: 'meet',
      reason: /field 4 at byte \d+ is of kind 0/,
    },
    {
      what: 'a message that is a number',
      file: softmax(number(3, 0), number(5, 1), isInt),
      runtime: 'meet',
      reason: /field 5 at byte \d+ is of kind 0/,
    },
    {
      what: 'a name that is a number',
      file: model(part(1, number(1, 0), part(1, 'x'), part(2, 'y'), part(4, 'Softmax'), int('axis', 0)), io),
      runtime: 'meet',
      reason: /field 1 at byte \d+ is of kind 0/,
    },
    {
      what: 'numbers of 8 bytes where there are several',
      file: model(
        node('ReduceSum', ['x', 'w'], ['s'], int('keepdims', 1)),
        initializer('w', tensor(7, [1], number(7, 0), bytes(7 * 8 + 1, 1, Buffer.alloc(7)))),
        node('Add', ['x', 's'], ['y']),
        io,
      ),
      runtime: 'meet',
      reason: /field 7 at byte \d+ is of kind 1/,
    },
    {
      what: 'a group',
      file: softmax(number(3, 1), bytes(varint(3 * 8 + 3), number(3, 0), varint(3 * 8 + 4)), isInt),
      runtime: 'apart',
      reason: /of kind 3/,
    },
    {
      what: 'a group that nobody knows',
      file: softmax(number(3, 1), bytes(varint(50 * 8 + 3), number(3, 0), varint(50 * 8 + 4)), isInt),
      runtime: 'apart',
      reason: /of kind 3/,
    },
    {
      what: 'the end of a group',
      file: softmax(number(3, 1), isInt, varint(3 * 8 + 4)),
      runtime: 'refused',
      reason: /of kind 4/,
    },
    // Tags are cut to 32 bits where they have no more than 5 bytes.
    {
      what: 'a tag of more than 32 bits',
      file: softmax(number(3, 1), bytes(varint(2n ** 32n + 24n), 0), isInt),
      runtime: 'meet',
      reason: /begins no field/,
    },
    {
      what: 'a tag of 6 bytes',
      file: softmax(number(3, 1), bytes(varint(2n ** 35n + 24n), 0), isInt),
      runtime: 'refused',
      reason: /begins no field/,
    },
    {
      what: 'a tag that is longer than it has to be',
      file: softmax(number(3, 1), bytes(0x98, 0, 0), isInt),
      runtime: 'meet',
      reason: /not protobuf's encoding of a 64-bit number/,
    },
    {
      what: 'a number that is longer than it has to be',
      file: softmax(bytes(24, 0x80, 0), isInt),
      runtime: 'meet',
      reason: /not protobuf's encoding of a 64-bit number/,
    },
    {
      what: 'a number of more than 64 bits',
      file: softmax(bytes(24, Buffer.alloc(9, 0x80), 2), isInt),
      runtime: 'meet',
      reason: /not protobuf's encoding of a 64-bit number/,
    },
    {
      what: 'a number of 11 bytes',
      file: softmax(bytes(24, Buffer.alloc(10, 0x80), 1), isInt),
      runtime: 'refused',
      reason: /more than 10 bytes/,
    },
    {
      what: 'a field of number 0',
      file: softmax(number(3, 1), bytes(0, 1), isInt),
      runtime: 'refused',
      reason: /begins no field/,
    },
    {
      what: 'a byte behind the model',
      file: bytes(softmax(number(3, 1), isInt), 0),
      runtime: 'refused',
      reason: /begins no field|extends past/,
    },
    {
      what: 'a message that ends too early',
      file: softmax(number(3, 1), isInt).subarray(0, -1),
      runtime: 'refused',
      reason: /extends past/,
    },
    {
      what: 'packed numbers of which the last is cut off',
      file: model(
        initializer('w', tensor(1, [4], part(4, little(1, 2, 3, 4), 0))),
        node('Add', ['x', 'w'], ['y']),
        io,
      ),
      runtime: 'refused',
      reason: /cuts off its last one/,
    },
    // Numbers of 32 bits are cut to them.
    {
      what: 'a type of an attribute of more than 32 bits',
      file: softmax(number(3, 0), number(20, 2n ** 32n + 2n)),
      runtime: 'meet',
      reason: /more than 32 bits/,
    },
    {
      what: 'a type of elements of more than 32 bits',
      file: decided(initializer('w', tensor(0, [], number(5, 0)).subarray(2), number(2, 2n ** 32n + 2n))),
      runtime: 'meet',
      reason: /more than 32 bits/,
    },
    {
      what: 'a version of more than 32 bits',
      file: modelOf([node('Softmax', ['x'], ['y']), io], opset('', 2n ** 32n + 11n)),
      runtime: 'apart',
      reason: /more than 32 bits/,
    },
    {
      what: 'an attribute of more than 32 bits, of which operators take 32',
      file: softmax(number(3, 2n ** 32n), isInt),
      runtime: 'meet',
      reason: /attribute 'axis' .*more than 32 bits/,
    },
  ]

  it.each(cases)('are not followed: $what', expectUnproved)

  it.each([1, 7, 20, 60])('are not followed where %i bytes of the file are missing', async (missing) => {
    const file = softmax(number(3, 1), isInt)
    await expectUnproved({
      what: '',
      file: file.subarray(0, file.length - missing),
      runtime: 'refused',
      reason: /cannot be read/,
    })
  })

  it('are none where the file is in ONNX Runtime’s own format', () => {
    expect(readGraph(Buffer.from('\0\0\0\0ORTM\0\0\0\0', 'latin1'))).toBeNull()
  })

  it('may be packed or not where there are several, and may be ones that nobody knows', async () => {
    const sums = (axes: Uint8Array) =>
      model(node('ReduceMean', ['x'], ['m'], attribute('axes', 7, axes)), node('Sub', ['x', 'm'], ['y']), io)
    for (const axes of [number(8, 1), part(8, varint(1)), part(8, varint(-1))])
      expect([await inRuntime(sums(axes)), proofOf(sums(axes)).rows]).toEqual(['apart', 'independent'])
    for (const axes of [bytes(number(8, 1), part(8, varint(0))), part(8, varint(0), varint(1))])
      expect([await inRuntime(sums(axes)), proofOf(sums(axes)).rows]).toEqual(['meet', 'dependent'])
    const known = softmax(number(3, 1), isInt)
    for (const more of [
      number(1000, 1),
      part(1000, 'more'),
      float(1000, 1),
      bytes(varint(1000 * 8 + 1), Buffer.alloc(8)),
    ])
      expect([await inRuntime(bytes(known, more)), proofOf(bytes(known, more)).rows]).toEqual([
        'apart',
        'independent',
      ])
    for (const data of [
      part(4, little(1, 2, 3, 4)),
      bytes(...row.map((each) => float(4, each))),
      part(9, little(1, 2, 3, 4)),
    ]) {
      for (const dims of [number(1, 4), part(1, varint(4))])
        expect(
          readGraph(model(initializer('w', dims, number(2, 1), data), io))!.graph.initializers.get('w'),
        ).toEqual({ type: 1, dims: [4], elements: [1, 2, 3, 4] })
    }
  })
})

describe('names', () => {
  const one = bytes('t', 0xff)
  const two = bytes('t', 0xfe)
  const cases: readonly Case[] = [
    // Protobuf gives their bytes, and ONNX Runtime compares these.
    {
      what: 'of bytes that are no UTF-8',
      file: model(largest(one), node('Relu', ['x'], [two]), node('Sub', ['x', one], ['y']), io),
      runtime: 'meet',
      reason: /is not UTF-8/,
    },
    {
      what: 'of half a surrogate',
      file: model(
        largest(bytes('t', 0xed, 0xa0, 0x80)),
        node('Sub', ['x', bytes('t', 0xed, 0xa0, 0x80)], ['y']),
        io,
      ),
      runtime: 'meet',
      reason: /is not UTF-8/,
    },
    {
      what: 'that end before they do in C',
      file: model(largest(bytes('t', 0)), node('Sub', ['x', bytes('t', 0)], ['y']), io),
      runtime: 'meet',
      reason: /has a character 0/,
    },
    // It refuses values that are made twice; of initializers and Constants the last one counts, and Constants come last.
    {
      what: 'of two nodes',
      file: model(largest('t'), node('Relu', ['x'], ['t']), node('Sub', ['x', 't'], ['y']), io),
      runtime: 'refused',
      reason: /'t' is defined twice/,
    },
    {
      what: 'of a node and an input',
      file: model(node('Relu', ['x'], ['x']), node('Neg', ['x'], ['y']), io),
      runtime: 'refused',
      reason: /'x' is defined twice/,
    },
    {
      what: 'of a node and an initializer',
      file: model(initializer('t', four), node('Relu', ['x'], ['t']), node('Sub', ['x', 't'], ['y']), io),
      runtime: 'refused',
      reason: /'t' is defined twice/,
    },
    {
      what: 'of two inputs',
      file: model(node('Relu', ['x'], ['y']), io, givenX),
      runtime: 'refused',
      reason: /'x' is defined twice/,
    },
    {
      what: 'of two initializers',
      file: decided(
        bytes(initializer('w', tensor(2, [], number(5, 1))), initializer('w', tensor(2, [], number(5, 0)))),
      ),
      runtime: 'meet',
      reason: /initializer 'w' comes twice/,
    },
    {
      what: 'of a sparse initializer and another one',
      file: model(
        initializer('w', four),
        part(
          15,
          part(1, tensor(1, [1], part(4, little(5))), part(8, 'w')),
          part(2, tensor(7, [1], number(7, 0))),
          number(3, 4),
        ),
        node('Add', ['x', 'w'], ['y']),
        io,
      ),
      runtime: 'apart',
      reason: /initializer 'w' comes twice/,
    },
    {
      what: 'of two Constants',
      file: decided(
        bytes(
          node('Constant', [], ['w'], int('value_int', 1)),
          node('Constant', [], ['w'], int('value_int', 0)),
        ),
      ),
      runtime: 'meet',
      reason: /'w' is defined twice/,
    },
    {
      what: 'of a Constant and an initializer',
      file: decided(
        bytes(
          initializer('w', tensor(7, [], number(7, 0))),
          node('Constant', [], ['w'], int('value_int', 1)),
        ),
      ),
      runtime: 'apart',
      reason: /'w' is defined twice/,
    },
    {
      what: 'of an initializer that has none',
      file: model(part(5, four), node('Clip', ['x', ''], ['y']), io),
      runtime: 'refused',
      reason: /an initializer has no name/,
    },
  ]

  it.each(cases)('are not followed: $what', expectUnproved)

  it('that are UTF-8 are told apart, with what is invisible in them', async () => {
    const named = (name: Uint8Array | string, taken: string) =>
      model(largest(name), node('Relu', ['x'], ['t']), node('Sub', ['x', taken], ['y']), io)
    for (const name of [bytes(0xef, 0xbb, 0xbf, 't'), 't\u200b', 'T', '\u0074\u0301']) {
      expect([await inRuntime(named(name, 't')), proofOf(named(name, 't')).rows]).toEqual([
        'apart',
        'independent',
      ])
      expect([
        await inRuntime(named(name, Buffer.from(name).toString())),
        proofOf(named(name, Buffer.from(name).toString())).rows,
      ]).toEqual(['meet', 'dependent'])
    }
  })

  it('and lists of texts are kept to their ends', () => {
    const words = ['a'.repeat(64) + 'b', 'a'.repeat(64) + 'c', 'é'.repeat(40)]
    const file = model(
      node(
        'StringNormalizer',
        ['x'],
        ['y'],
        attribute('stopwords', 8, ...words.map((word) => part(9, word))),
      ),
      io,
    )
    expect(readGraph(file)!.graph.nodes[0]!.attributes.get('stopwords')!.strings).toEqual(words)
  })

  it('are not taken for names that the proof makes up', async () => {
    // Within the branch the length of its y is that of b, and that of 0/y around it is that of a. Where they differ, rows meet.
    const branch = (name: string, ...content: Uint8Array[]) =>
      attribute(name, 5, part(6, part(2, name), ...content))
    const inner = [
      node('ConstantOfShape', ['b'], ['y0']),
      node('Shape', ['y0'], ['l']),
      node('Shape', ['0/y0'], ['m']),
      node('Equal', ['l', 'm'], ['same']),
      node(
        'If',
        ['same'],
        ['t'],
        branch('then_branch', node('Relu', ['x'], ['tt']), part(12, value('tt'))),
        branch('else_branch', node('CumSum', ['x', 'axis'], ['te']), part(12, value('te'))),
      ),
      part(12, value('t')),
    ]
    const file = model(
      initializer('axis', tensor(7, [], number(7, 0))),
      node('ConstantOfShape', ['a'], ['0/y0']),
      node(
        'If',
        ['c'],
        ['y'],
        branch('then_branch', ...inner),
        branch('else_branch', node('Relu', ['x'], ['e']), part(12, value('e'))),
      ),
      io,
      part(11, value('a', 7, [1])),
      part(11, value('b', 7, [1])),
      part(11, value('c', 9, [])),
    )
    const length = (of: number) => new Tensor('int64', [BigInt(of)], [1])
    expect(await inRuntime(file, { a: length(2), b: length(3), c: new Tensor('bool', [true], []) })).toBe(
      'meet',
    )
    expect(
      proofOf(file, [
        ...x,
        ...['a', 'b', 'c'].map((name) => ({ name, shape: name === 'c' ? [] : [1], batchAxis: -1 })),
      ]).rows,
    ).not.toBe('independent')
  })
})

describe('attributes', () => {
  const constant = (...rest: Uint8Array[]) => decided(node('Constant', [], ['w'], ...rest))
  const [zero, one] = [0, 1].map((element) =>
    attribute('value', 4, part(5, tensor(2, [], number(5, element)))),
  ) as [Buffer, Buffer]
  const cases: readonly Case[] = [
    { what: 'of no type', file: softmax(number(3, 0)), runtime: 'refused', reason: /is of type 0/ },
    {
      what: 'of a type that is none',
      file: softmax(number(3, 0), number(20, 99)),
      runtime: 'refused',
      reason: /is of type 99/,
    },
    {
      what: 'with a value of another type',
      file: softmax(number(3, 0), number(20, 7)),
      runtime: 'refused',
      reason: /has a value of another/,
    },
    {
      what: 'with a second value of another type',
      file: softmax(number(3, 0), part(14), isInt),
      runtime: 'refused',
      reason: /has a value of another/,
    },
    {
      what: 'that come twice',
      file: model(node('Softmax', ['x'], ['y'], int('axis', 0), int('axis', 1)), io),
      runtime: 'refused',
      reason: /attribute 'axis' comes twice/,
    },
    {
      what: 'without the tensor that they should have',
      file: model(
        initializer('w', tensor(7, [1], number(7, 4))),
        node('ConstantOfShape', ['w'], ['c'], attribute('value', 4)),
        node('Add', ['x', 'c'], ['y']),
        io,
      ),
      runtime: 'refused',
      reason: /'value' has no value/,
    },
    {
      what: 'that say neither yes nor no',
      file: modelOf(
        [
          node('ReduceMax', ['x'], ['m'], int('noop_with_empty_axes', -1)),
          node('Sub', ['x', 'm'], ['y']),
          io,
        ],
        opset('', 18),
      ),
      runtime: 'meet',
      reason: /is -1, where it should be 0 or 1/,
    },
    // Outside of functions ONNX Runtime takes no notice of where a value should come from.
    {
      what: 'that take their value from around a function, in none',
      file: softmax(number(3, 0), isInt, part(21, 'outer')),
      runtime: 'meet',
      reason: /and is in none/,
    },
    {
      what: 'that take their value from around a function, in none, and have no other',
      file: softmax(isInt, part(21, 'outer')),
      runtime: 'meet',
      reason: /and is in none/,
    },
    // Of a Constant it takes the first attribute, whatever its name, and it asks for no domain.
    {
      what: 'of a Constant that has two',
      file: constant(zero, int('value_int', 1)),
      runtime: 'meet',
      reason: /exactly one value of its own type/,
    },
    {
      what: 'of a Constant that has another one before',
      file: constant(int('anything', 0), one),
      runtime: 'meet',
      reason: /exactly one value of its own type/,
    },
    {
      what: 'of a Constant that has none of its own',
      file: constant(int('anything', 0)),
      runtime: 'meet',
      reason: /exactly one value of its own type/,
    },
    {
      what: 'of a Constant whose value is of another type',
      file: constant(int('value', 0)),
      runtime: 'meet',
      reason: /exactly one value of its own type/,
    },
    {
      what: 'of a Constant of another domain',
      file: modelOf(
        [
          node('Constant', [], ['w'], attribute('value', 4, part(5, four)), part(7, 'local')),
          node('Add', ['x', 'w'], ['y']),
          io,
        ],
        opset('', 17),
        opset('local', 1),
      ),
      runtime: 'apart',
      reason: /exactly one value of its own type/,
    },
  ]

  it.each(cases)('are not followed: $what', expectUnproved)

  it('may have an empty name of what they take their value from', async () => {
    const file = softmax(number(3, 1), isInt, part(21, ''))
    expect([await inRuntime(file), proofOf(file).rows]).toEqual(['apart', 'independent'])
  })
})

describe('elements of a tensor', () => {
  const [uint8, int8, uint16, int16, int32, int64, bool, uint32, uint64] = [2, 3, 4, 5, 6, 7, 9, 12, 13]
  const add = (...content: Uint8Array[]) => model(...content, node('Add', ['x', 'w'], ['y']), io)
  const cases: readonly Case[] = [
    // Bytes that are there count, and not what is listed beside them.
    {
      what: 'as bytes and as numbers',
      file: decided(initializer('w', tensor(uint8!, [], number(5, 1), part(9, bytes(0))))),
      runtime: 'meet',
      reason: /elements in several fields/,
    },
    {
      what: 'of another type beside them',
      file: add(initializer('w', four, number(7, 5))),
      runtime: 'apart',
      reason: /elements in several fields/,
    },
    {
      what: 'of another type',
      file: add(initializer('w', tensor(1, [4], ...row.map((each) => number(7, each))))),
      runtime: 'refused',
      reason: /not in that of its type/,
    },
    {
      what: 'of a part of it',
      file: add(initializer('w', four, part(3, number(1, 0), number(2, 2)))),
      runtime: 'apart',
      reason: /elements in several fields/,
    },
    {
      what: 'of dimensions below 0',
      file: add(initializer('w', tensor(1, [-1, -4], part(4, little(...row))))),
      runtime: 'refused',
      reason: /has the dimensions \[-1, -4\]/,
    },
    {
      what: 'of a file that is not named, in an attribute',
      file: decided(
        node(
          'Constant',
          [],
          ['w'],
          attribute('value', 4, part(5, tensor(uint8!, [], number(5, 1)), number(14, 1))),
        ),
      ),
      runtime: 'refused',
      reason: /./,
    },
  ]

  it.each(cases)('are not followed: $what', async (each) => {
    if (each.what.includes('not named')) {
      expect(await inRuntime(each.file)).toBe(each.runtime)
      expect(readGraph(each.file)!.graph.nodes[0]!.attributes.get('value')!.tensor!.elements).toBeNull()
    } else await expectUnproved(each)
  })

  it.each([
    // ONNX Runtime wraps numbers that are too large for their type: 256 is 0 as an uint8, and false.
    ['256 as an uint8', uint8, [256], 5, [0]],
    ['-1 as an uint8', uint8, [-1], 5, [255]],
    ['255 as an int8', int8, [255], 5, [-1]],
    ['65537 as an uint16', uint16, [65_537], 5, [1]],
    ['40000 as an int16', int16, [40_000], 5, [-25_536]],
    ['2^32 + 1 as an int32', int32, [2n ** 32n + 1n], 5, [1]],
    ['2^32 - 1 as an int32', int32, [2n ** 32n - 1n], 5, [-1]],
    ['2 as a bool', bool, [2], 5, [1]],
    ['2^32 + 1 as an uint32', uint32, [2n ** 32n + 1n], 11, [1]],
  ] as const)('are not known where they wrap: %s', async (_, type, numbers, field, wrapped) => {
    const file = model(
      initializer('w', tensor(type!, [numbers.length], ...numbers.map((each) => number(field, each)))),
      node('Cast', ['w'], ['c'], int('to', 1)),
      node('Mul', ['x', 'c'], ['m']),
      node('Sub', ['m', 'x'], ['y']),
      io,
    )
    const session = await InferenceSession.create(file, { logSeverityLevel: 4 })
    const { y } = await session.run({ x: new Tensor('float32', Float32Array.from(row), [1, 4]) })
    await session.release()
    expect(Array.from(y!.data as Float32Array)).toEqual(row.map((each) => each * wrapped[0] - each))
    expect(readGraph(file)!.graph.initializers.get('w')!.elements).toBeNull()
  })

  it('are known where they are of their type', () => {
    const elements = (type: number, field: number, ...numbers: (number | bigint)[]) =>
      readGraph(
        model(
          initializer('w', tensor(type, [numbers.length], ...numbers.map((each) => number(field, each)))),
          io,
        ),
      )!.graph.initializers.get('w')!.elements
    expect(elements(uint8!, 5, 0, 255)).toEqual([0, 255])
    expect(elements(int8!, 5, -128, 127)).toEqual([-128, 127])
    expect(elements(int32!, 5, -(2 ** 31), 2 ** 31 - 1)).toEqual([-(2 ** 31), 2 ** 31 - 1])
    expect(elements(int64!, 7, -1, 2 ** 40)).toEqual([-1, 2 ** 40])
    expect(elements(bool!, 5, 0, 1)).toEqual([0, 1])
    expect(elements(uint64!, 11, 2 ** 40)).toEqual([2 ** 40])
    expect(elements(uint64!, 11, 2n ** 64n - 1n)).toBeNull() // it is no number below 0
  })

  it('are not known where there are more or fewer than dimensions say, which ONNX Runtime refuses', async () => {
    for (const data of [
      part(9, little(1, 2, 3)),
      part(9, little(1, 2, 3, 4, 5)),
      part(4, little(1, 2, 3)),
      part(4, little(1, 2, 3, 4, 5)),
    ]) {
      const file = add(initializer('w', tensor(1, [4], data)))
      expect(await inRuntime(file)).toBe('refused')
      expect(readGraph(file)!.graph.initializers.get('w')!.elements).toBeNull()
    }
    const doubtful = add(initializer('w', tensor(bool!, [4], part(9, bytes(2, 1, 0, 1)))))
    expect(readGraph(doubtful)!.graph.initializers.get('w')!.elements).toBeNull()
  })
})

describe('operators', () => {
  const opsets = (...versions: Uint8Array[]) =>
    modelOf([node('Softmax', ['x'], ['y']), part(11, value('x')), part(12, value('y'))], ...versions)
  const cases: readonly Case[] = [
    // The last version counts, whichever of its two names ONNX's domain has, and the newest one where there is none.
    {
      what: 'of two versions',
      file: opsets(opset('', 13), opset('', 11)),
      runtime: 'apart',
      reason: /set of operators '' comes twice/,
    },
    {
      what: 'of two versions, under two names',
      file: opsets(opset('ai.onnx', 11), opset('', 13)),
      runtime: 'apart',
      reason: /set of operators '' comes twice/,
    },
    {
      what: 'of no version',
      file: opsets(opset('ai.onnx.ml', 1)),
      runtime: 'apart',
      reason: /operators of '', such as Softmax, but declares no version/,
    },
    {
      what: 'with a domain in their names',
      file: modelOf([node('com.microsoft:Gelu', ['x'], ['y']), io], opset('', 17), opset('com.microsoft', 1)),
      runtime: 'refused',
      reason: /has a colon/,
    },
  ]

  it.each(cases)('are not followed: $what', expectUnproved)

  it('may be said to be of one version twice, as skl2onnx does', async () => {
    const file = opsets(opset('', 13), opset('ai.onnx', 13))
    expect([await inRuntime(file), proofOf(file).rows]).toEqual(['apart', 'independent'])
  })

  it('are not followed where a shape can never fit, as ONNX Runtime may make one of it that does', async () => {
    const file = modelOf(
      [
        node('Shape', ['x'], ['s'], int('start', 0), int('end', 1)),
        node('Concat', ['s'], ['to'], int('axis', 0)),
        node('Reshape', ['x', 'to'], ['y']),
        givenX,
        part(12, value('y', 1, ['M'])),
      ],
      opset('', 17),
    )
    expect(await inRuntime(file)).toBe('apart') // [N, 4] has become [4 * N]
    const { rows, reason } = proofOf(file)
    expect([rows, reason]).toEqual([
      'unknown',
      expect.stringMatching(/the shape \[N\] has, or may have, another number of elements/),
    ])
  })
})

describe('lengths that a file says its values have', () => {
  const shaped = [node('Relu', ['x'], ['t']), node('Shape', ['t'], ['s'])]
  const branches = (branch: readonly Uint8Array[], output: Uint8Array) => {
    const inner = (name: string, ...content: Uint8Array[]) =>
      attribute(name, 5, part(6, part(2, name), ...content))
    return node(
      'If',
      ['c'],
      ['v'],
      inner('then_branch', ...branch, part(12, output)),
      inner('else_branch', node('Neg', ['x'], ['e']), part(12, value('e'))),
    )
  }
  const yes = initializer('c', tensor(9, [], number(5, 1)))
  const last = node('Reshape', ['x', 's'], ['y'])
  // ONNX Runtime takes what Shape gives from them: such files are those whose inputs were made variable, and nothing else. Joined they fail.
  const cases: readonly Case[] = [
    {
      what: 'of a value',
      file: model(...shaped, last, io, part(13, value('t', 1, [1, 4]))),
      runtime: 'meet',
      reason: /the file declares the shape \[1, 4\] for 't', but it has \[N, 4\]/,
    },
    {
      what: 'of an output',
      file: model(...shaped, last, io, part(12, value('t', 1, [1, 4]))),
      runtime: 'meet',
      reason: /the file declares the shape \[1, 4\] for 't'/,
    },
    {
      what: 'of a value, once open and once not',
      file: model(...shaped, last, io, part(13, value('t')), part(13, value('t', 1, [1, 4]))),
      runtime: 'meet',
      reason: /the file declares the shape \[1, 4\] for 't'/,
    },
    {
      what: 'of a value of a branch',
      file: model(
        branches(
          [...shaped, node('Reshape', ['x', 's'], ['b']), part(13, value('t', 1, [1, 4]))],
          value('b'),
        ),
        yes,
        node('Identity', ['v'], ['y']),
        io,
      ),
      runtime: 'meet',
      reason: /the file declares the shape \[1, 4\] for 't'/,
    },
    {
      what: 'of what branches give',
      file: model(
        branches([node('Relu', ['x'], ['b'])], value('b')),
        yes,
        node('Shape', ['v'], ['s']),
        last,
        io,
        part(13, value('v', 1, [1, 4])),
      ),
      runtime: 'meet',
      reason: /the file declares the shape \[1, 4\] for 'v'/,
    },
    {
      what: 'of tensors in a sequence',
      file: model(
        node('SequenceConstruct', ['x'], ['q']),
        initializer('first', tensor(7, [], number(7, 0))),
        node('SequenceAt', ['q', 'first'], ['t']),
        node('Shape', ['t'], ['s']),
        last,
        io,
        part(
          13,
          part(1, 'q'),
          part(
            2,
            part(4, part(1, part(1, number(1, 1), part(2, part(1, number(1, 1)), part(1, number(1, 4)))))),
          ),
        ),
      ),
      runtime: 'meet',
      reason: /the file declares the shape \[1, 4\] for 'q'/,
    },
  ]

  it.each(cases)('leave the proof open where they do not always have them: $what', expectUnproved)

  it('do no harm where they have them, or no node asks for them', async () => {
    const harmless = [
      ...[['N', 4], ['anything', 4], ['N', 'S'], []].map((dims) =>
        model(...shaped, last, io, part(13, value('t', 1, dims))),
      ),
      model(...shaped, last, givenX, part(12, value('y', 1, [1, 4]))),
    ]
    for (const file of harmless)
      expect([await inRuntime(file), proofOf(file).rows]).toEqual(['apart', 'independent'])
  })

  it('leave the proof open where those of an input differ', () => {
    const file = model(
      ...shaped,
      last,
      part(11, value('x', 1, ['N', 'S'])),
      givesY,
      part(13, value('t', 1, ['N', 4])),
    )
    const inputs = [{ name: 'x', shape: ['N', 'S'], batchAxis: 0 }]
    expect(proofOf(file, inputs)).toMatchObject({
      rows: 'unknown',
      reason: expect.stringMatching(
        /the file declares the shape \[\?, 4\] for 't', but it has \[N, x\[1\]\]/,
      ),
    })
  })
})

describe('functions', () => {
  const inBody = (each: Uint8Array) => bytes(varint(7 * 8 + 2), each.subarray(1))
  const fn = (name: string, body: readonly Uint8Array[], ...rest: Uint8Array[]) =>
    part(
      25,
      part(1, name),
      part(4, 'a'),
      part(5, 'b'),
      ...body.map(inBody),
      part(9, part(1, ''), number(2, 17)),
      ...(rest.length === 0 ? [part(10, 'local')] : rest),
    )
  const calling = (call: Uint8Array, ...functions: Uint8Array[]) =>
    modelOf([call, io], opset('', 17), opset('local', 1), ...functions)
  const call = (operator: string, ...rest: Uint8Array[]) =>
    node(operator, ['x'], ['y'], part(7, 'local'), ...rest)
  const taken = (...content: Uint8Array[]) =>
    node('Softmax', ['a'], ['b'], attribute('axis', 2, ...content, part(21, 'along')))
  const local = part(10, 'local')
  const along = (axis: number) => part(11, part(1, 'along'), number(3, axis), isInt)
  const cases: readonly Case[] = [
    // The last one counts.
    {
      what: 'that come twice',
      file: calling(
        call('F'),
        fn('F', [node('Relu', ['a'], ['b'])]),
        fn('F', [node('Softmax', ['a'], ['b'], int('axis', 0))]),
      ),
      runtime: 'meet',
      reason: /function '.*' comes twice/,
    },
    // It puts domain, name and overload together with colons.
    {
      what: 'whose name is that of another one with its overload',
      file: calling(call('F', part(8, 'o')), fn('F:o', [node('Softmax', ['a'], ['b'], int('axis', 0))])),
      runtime: 'meet',
      reason: /has a colon/,
    },
    {
      what: 'whose domain ends with the name of another one',
      file: modelOf(
        [call('F', part(8, 'o')), io],
        opset('', 17),
        opset('local', 1),
        opset('local:F', 1),
        fn('o', [node('Softmax', ['a'], ['b'], int('axis', 0))], part(10, 'local:F')),
      ),
      runtime: 'meet',
      reason: /has a colon/,
    },
    {
      what: 'called Constant',
      file: modelOf(
        [
          node('Constant', [], ['w'], attribute('value', 4, part(5, four)), part(7, 'local')),
          node('Add', ['x', 'w'], ['y']),
          io,
        ],
        opset('', 17),
        opset('local', 1),
        part(
          25,
          part(1, 'Constant'),
          part(5, 'b'),
          part(6, 'value'),
          inBody(node('Constant', [], ['b'], int('value_int', 1))),
          part(9, part(1, ''), number(2, 17)),
          local,
        ),
      ),
      runtime: 'apart',
      reason: /exactly one value of its own type/,
    },
    {
      what: 'with operators whose version the model does not declare',
      file: calling(
        call('F'),
        fn('F', [node('Relu', ['a'], ['b'])], local, part(9, part(1, 'ai.onnx.ml'), number(2, 1))),
      ),
      runtime: 'apart',
      reason: /but the model declares no version of them/,
    },
    {
      what: 'whose values are called as ONNX Runtime calls them',
      file: modelOf(
        [node('Relu', ['x'], ['_inlfunc_F_t']), call('F'), io],
        opset('', 17),
        opset('local', 1),
        fn('F', [node('Relu', ['a'], ['t']), node('Neg', ['t'], ['b'])]),
      ),
      runtime: 'refused',
      reason: /could be mistaken for a value of a function/,
    },
    // What an attribute takes from a call it takes with its type; a value of its own never counts.
    {
      what: 'with an attribute that has a value of its own as well',
      file: calling(call('F'), fn('F', [taken(number(3, 0))], local, part(6, 'along'))),
      runtime: 'apart',
      reason: /and has one of its own/,
    },
    {
      what: 'with a default that should come from elsewhere',
      file: calling(
        call('F'),
        fn('F', [taken()], local, part(11, part(1, 'along'), isInt, part(21, 'other'))),
      ),
      runtime: 'meet',
      reason: /and is in none/,
    },
    {
      what: 'with two defaults of one name',
      file: calling(call('F'), fn('F', [taken()], local, along(0), along(1))),
      runtime: 'meet',
      reason: /attribute 'along' comes twice/,
    },
    {
      what: 'that get an attribute of another type',
      file: calling(
        call('F', int('along', 0)),
        fn(
          'F',
          [node('Softmax', ['a'], ['b'], attribute('axis', 1, part(21, 'along')))],
          local,
          part(6, 'along'),
        ),
      ),
      runtime: 'meet',
      reason: /'axis' is given a value of another type/,
    },
    {
      what: 'whose nodes make an input',
      file: calling(call('F'), fn('F', [node('Relu', ['a'], ['a']), node('Neg', ['a'], ['b'])])),
      runtime: 'refused',
      reason: /'a' is defined twice/,
    },
    {
      what: 'whose nodes make a value twice',
      file: calling(
        call('F'),
        fn('F', [node('Relu', ['a'], ['t']), node('Neg', ['a'], ['t']), node('Neg', ['t'], ['b'])]),
      ),
      runtime: 'refused',
      reason: /'t' is defined twice/,
    },
    // What no value of the function is called like is taken from around the call.
    {
      what: 'that take a value from around them',
      file: modelOf(
        [largest('t'), call('F'), io],
        opset('', 17),
        opset('local', 1),
        fn('F', [node('Sub', ['a', 't'], ['b'])]),
      ),
      runtime: 'meet',
      reason: /'t' is computed by no node/,
    },
  ]

  it.each(cases)('are not followed: $what', expectUnproved)

  it('leave attributes away for which a call has no value, or give them their default', async () => {
    const none = calling(call('F'), fn('F', [taken()], local, part(6, 'along')))
    expect([await inRuntime(none), proofOf(none).rows]).toEqual(['apart', 'independent'])
    const usual = calling(call('F'), fn('F', [taken()], local, along(0)))
    expect([await inRuntime(usual), proofOf(usual).rows]).toEqual(['meet', 'dependent'])
    const given = calling(call('F', int('along', 1)), fn('F', [taken()], local, along(0)))
    expect([await inRuntime(given), proofOf(given).rows]).toEqual(['apart', 'independent'])
  })
})
