import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type OnnxFile, readOnnxFile } from '../../src/onnx/read-onnx-file.ts'
import { graph, tensor } from '../models/builder.ts'
import { elementTypeCode } from '../models/element-type.ts'
import * as small from '../models/small.ts'
import { load, sharedEngine } from '../support/open.ts'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'
import { field, message, model, tensorType, value } from './wire.ts'

const read = async (path: string): Promise<OnnxFile> => (await readOnnxFile(path))!
const readBytes = (bytes: Uint8Array, others = {}): Promise<OnnxFile> =>
  read(join(temporaryFolder({ 'm.onnx': bytes, ...others }), 'm.onnx'))

const float32 = elementTypeCode.float32

describe('what a model file says of itself', () => {
  it('is all read', async () => {
    const bytes = message(
      field(1, 9), field(2, 'maker'), field(3, '2.1'), field(4, 'com.example'), field(5, 7), field(6, 'What it is.'),
      field(7, message(
        field(1, message(field(1, 'x'), field(1, 'w'), field(2, 'y'), field(4, 'MatMul'))),
        field(2, 'net'),
        field(5, message(field(1, 4), field(1, 2), field(2, float32), field(8, 'w'), field(9, new Uint8Array(32)))),
        field(11, value('x', tensorType(float32, ['N', 4]))),
        field(11, value('w', tensorType(float32, [4, 2]))),
        field(12, value('y', tensorType(float32, ['N', 2]))),
      )),
      field(8, message(field(1, ''), field(2, 21))), field(8, message(field(1, 'com.microsoft'), field(2, 1))),
      field(14, message(field(1, 'license'), field(2, 'MIT'))), field(14, message(field(1, '__proto__'), field(2, 'a value'))),
    ) // prettier-ignore
    const file = await readBytes(bytes)
    expect(file).toMatchObject({
      byteLength: bytes.byteLength, irVersion: 9, opsets: { 'ai.onnx': 21, 'com.microsoft': 1 }, producer: { name: 'maker', version: '2.1' },
      domain: 'com.example', modelVersion: 7, description: 'What it is.', graphName: 'net',
      inputs: [{ name: 'x', type: 'float32', shape: ['N', 4] }], outputs: [{ name: 'y', type: 'float32', shape: ['N', 2] }],
      initializedInputs: [{ name: 'w', type: 'float32', shape: [4, 2] }],
      operators: { MatMul: 1 }, functions: [], externalFiles: [],
      parameters: { tensors: 1, elements: 8, byteLength: 32 }, constants: { tensors: 0, elements: 0, byteLength: 0 },
    }) // prettier-ignore
    expect(Object.entries(file.metadata)).toEqual([
      ['license', 'MIT'],
      ['__proto__', 'a value'],
    ])
  })

  it('has defaults where it says nothing', async () => {
    expect(await readBytes(field(7, message()))).toMatchObject({
      irVersion: 0, opsets: {}, producer: { name: '', version: '' }, inputs: [], outputs: [], operators: {}, description: '', metadata: {},
    }) // prettier-ignore
  })

  it('may come in any order, and in pieces', async () => {
    const file = await readBytes(message(
      field(7, message(field(12, value('y', tensorType(float32, []))), field(5, message(field(8, 'w'), field(2, 7), field(1, 3))))),
      field(8, field(2, 17)), field(1, 8),
      field(7, message(field(11, value('w', tensorType(7, [3]))), field(2, 'second'))),
    )) // prettier-ignore
    expect(file).toMatchObject({
      graphName: 'second',
      inputs: [],
      initializedInputs: [{ name: 'w' }],
      outputs: [{ name: 'y' }],
      parameters: { elements: 3, byteLength: 24 },
    })
  })

  it.each([
    ['a tensor of unknown shape', tensorType(float32, null), 'float32', null],
    ['a scalar', tensorType(float32, []), 'float32', []],
    [
      'dimensions without name or size, or of impossible size',
      tensorType(float32, ['', -1, 0]),
      'float32',
      ['', '', 0],
    ],
    ['a type that JavaScript has no array for', tensorType(elementTypeCode.uint4, ['N']), 'uint4', ['N']],
    ['a type that is not carried', tensorType(14, ['N']), 'complex64', ['N']],
    ['a type of the future', tensorType(99, ['N']), 'element type 99', ['N']],
    ['a tensor without a type', tensorType(0, ['N']), 'undefined', ['N']],
    ['a sequence', field(4, field(1, tensorType(8, null))), 'seq(string)', []],
    [
      "a classifier's answer",
      field(4, field(1, field(5, message(field(1, 7), field(2, tensorType(1, [])))))),
      'seq(map(int64, float32))',
      [],
    ],
    [
      'what may be absent',
      field(9, field(1, field(4, field(1, tensorType(16, null))))),
      'optional(seq(bfloat16))',
      [],
    ],
    ['a sparse tensor', field(8, field(1, 1)), 'a sparse tensor', []],
    ['something opaque', field(7, field(1, 'domain')), 'an opaque value', []],
    ['nothing at all', message(), 'undefined', null],
  ])('knows %s', async (_, type, name, shape) => {
    const { outputs } = await readBytes(model(field(12, value('y', type))))
    expect(outputs).toEqual([{ name: 'y', type: name, shape }])
  })

  it('counts operators of branches, bodies and functions, and tensors wherever they are', async () => {
    const branch = () =>
      graph('branch')
        .initializer('two', 'float32', [2], [1, 2])
        .node('Identity', ['two'], ['r'])
        .output('r', 'float32', [2])
        .subgraph()
    const nested = () =>
      graph('nested')
        .node('If', ['c'], ['r'], { then_branch: branch(), else_branch: branch() })
        .output('r', 'float32', [2])
        .subgraph()
    const built = graph('net')
      .input('c', 'bool', [])
      .output('y', 'float32', [2])
      .initializer('three', 'int64', [3], [1, 2, 3])
      .node('If', ['c'], ['r'], { then_branch: nested(), else_branch: branch() })
      .node('Constant', [], ['k'], { value_ints: [1, 2, 3, 4, 5] })
      .node('com.example:Twice', ['r'], ['y'])
      .build({ domains: { 'com.example': 1 } })
    const body = [
      field(1, 'Twice'),
      field(10, 'com.example'),
      field(7, message(field(4, 'Add'))),
      field(7, message(field(4, 'Mul'), field(7, 'ai.onnx'))),
    ]
    const { operators, functions, parameters } = await readBytes(message(built, field(25, message(...body))))
    expect(operators).toEqual({ Identity: 3, If: 2, Add: 1, Constant: 1, Mul: 1, 'com.example:Twice': 1 })
    expect(Object.keys(operators)[0]).toBe('Identity')
    expect(functions).toEqual(['com.example:Twice'])
    expect(parameters).toEqual({ tensors: 4, elements: 3 + 3 * 2, byteLength: 24 + 3 * 8 })
  })

  it('counts constants, sparse initializers and text', async () => {
    const tensorOf = (type: number, dims: number[], ...data: Uint8Array[]) =>
      message(field(1, Uint8Array.from(dims)), field(2, type), ...data)
    const { parameters, constants } = await readBytes(model(
      field(1, message(field(4, 'Constant'), field(5, message(field(1, 'value'), field(5, tensorOf(float32, [2, 5])), field(20, 4))))),
      field(15, message(field(1, tensorOf(float32, [6])), field(2, tensorOf(7, [6])), field(3, 100))),
      field(5, tensorOf(8, [3], field(6, 'one'), field(6, 'two'), field(6, 'three'))),
      field(5, tensorOf(elementTypeCode.int4, [5])),
    )) // prettier-ignore
    expect(constants).toEqual({ tensors: 1, elements: 10, byteLength: 40 })
    expect(parameters).toEqual({ tensors: 3, elements: 6 + 3 + 5, byteLength: 24 + 11 + 3 })
  })

  it('leaves a long list of numbers at its first', async () => {
    const numbers = Array.from({ length: 1000 }, (_, index) => field(8, index))
    // Not even numbers: what comes behind the first is not looked at.
    const { operators } = await readBytes(
      model(
        field(
          1,
          message(field(4, 'Op'), field(5, message(field(1, 'list'), ...numbers, Uint8Array.of(0xff)))),
        ),
      ),
    )
    expect(operators).toEqual({ Op: 1 })
  })

  it('keeps the beginning of a long text', async () => {
    const { description, metadata } = await readBytes(
      message(
        field(6, 'a'.repeat(100_000)),
        field(7, message()),
        field(14, message(field(1, 'k'), field(2, 'b'.repeat(100_000)))),
      ),
    )
    expect([description.length, metadata['k']!.length]).toEqual([65_536, 65_536])
  })

  it('has the files in which tensors lie, with what ONNX Runtime has against them', async () => {
    const elsewhere = (location: string, offset = 0) => field(5, message(
      field(1, 4), field(2, float32), field(8, location), field(14, 1),
      ...Object.entries({ location, offset, length: 16 }).map(([key, entry]) => field(13, message(field(1, key), field(2, String(entry))))),
    )) // prettier-ignore
    const locations = [
      'w.bin',
      '../m/w.bin',
      'absent.bin',
      '../w.bin',
      '/etc/passwd',
      'link.bin',
      'beside.bin',
      'a\0b',
    ]
    const folder = temporaryFolder({
      'm/w.bin': new Uint8Array(32), 'm/short.bin': new Uint8Array(79), 'w.bin': new Uint8Array(16), 'blobs/beside': new Uint8Array(16),
      'blobs/model': model(...locations.map((location) => elsewhere(location)), elsewhere('w.bin', 16), elsewhere('short.bin', 64)),
    }) // prettier-ignore
    for (const [name, to] of [
      ['m.onnx', '../blobs/model'],
      ['link.bin', '../w.bin'],
      ['beside.bin', '../blobs/beside'],
    ] as const)
      symlinkSync(to, join(folder, 'm', name))
    const { externalFiles, parameters } = await read(join(folder, 'm/m.onnx'))
    expect(
      externalFiles.map(({ location, byteLength, neededBytes, problem }) => [
        location,
        byteLength,
        neededBytes,
        problem,
      ]),
    ).toEqual([
      ['w.bin', 32, 32, null],
      ['../m/w.bin', 32, 16, null],
      ['absent.bin', null, 16, 'there is no such file'],
      ['../w.bin', null, 16, "it leads out of the model's folder, which ONNX Runtime refuses"],
      ['/etc/passwd', null, 16, 'it is an absolute path, which ONNX Runtime refuses'],
      ['link.bin', null, 16, "it is a link that leads out of the model's folder, which ONNX Runtime refuses"],
      ['beside.bin', 16, 16, null],
      ['a\0b', null, 16, 'its name has a NUL character'],
      ['short.bin', 79, 80, 'it has 79 bytes, and the model needs 80'],
    ])
    expect(parameters).toEqual({ tensors: 10, elements: 40, byteLength: 160 })
  })

  it('is nothing for a file in the format of ONNX Runtime', async () => {
    const folder = temporaryFolder({ 'm.ort': Buffer.from('\x10\0\0\0ORTM and so on', 'latin1') })
    expect(await readOnnxFile(join(folder, 'm.ort'))).toBeNull()
  })
})

describe.skipIf(openNativeOrt().binding === null)('inputs and outputs as the file has them', () => {
  const engine = sharedEngine({ executor: 'native' })

  it.each([
    ['tensors', small.identity('float32', [2, 3])],
    ['no batch', small.identityUnbatched('string', [2])],
    ['text', small.identity('string', [1])],
    ['maps', small.mapOutput()],
    ['a sequence', small.sequenceAndTensor()],
    ['a sequence as input', small.sequenceInput()],
    ['a map as input', small.mapInput()],
    ['an optional output', small.optionalOutput()],
    ['an optional sequence', small.optionalAsIs('pair', tensor('float32', [2]))],
    ['4 bits', small.castTo('int4')],
    ['bfloat16', small.castFrom('bfloat16')],
    ['8 bits', small.castTo('float8e4m3fn')],
  ])('are what ONNX Runtime says: %s', async (_, path) => {
    const { inputs, outputs } = await read(path)
    const { metadata } = await load(engine, path)
    expect({ inputs, outputs }).toEqual({ inputs: metadata.inputs, outputs: metadata.outputs })
  })
})
