import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { inspectModel, type Inspection } from '../../src/cli/inspect.ts'
import * as small from '../models/small.ts'
import { ortForm } from '../support/ort-form.ts'
import { hasShared, missingShared, sharedPath } from '../support/shared.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'
import { field, message, model, tensorType, value } from '../onnx-file/wire.ts'
import { root, zerohop, zerohopWithoutAddon } from './run.ts'
import { full } from '../support/full.ts'

/** What `inspect --json` prints of a model. */
async function inspected(path: string, ...more: string[]): Promise<Inspection> {
  const { code, stdout, stderr } = await zerohop('inspect', path, '--json', ...more)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout) as Inspection
}

const rows = (name: string, type: string, shape: unknown[]) => ({ name, type, shape })
const none = { tensors: 0, elements: 0, byteLength: 0 }

describe.skipIf(!hasShared)(`zerohop inspect, of published models${missingShared}`, () => {
  const int32 = (name: string, columns: number) => rows(name, 'int32', ['', columns])
  it.runIf(full).each([
    [
      'mnist/cnn_mnist.onnx',
      {
        byteLength: 88_469,
        irVersion: 4,
        opsets: { 'ai.onnx': 9 },
        producer: { name: 'pytorch', version: '1.1' },
        graphName: 'torch-jit-export',
        inputs: [rows('input_image', 'float32', ['batch', 1, 28, 28])],
        outputs: [rows('output_probs', 'float32', ['batch', 10])],
        operators: { Relu: 4, Conv: 2, MaxPool: 2, Gemm: 2, Constant: 1, Reshape: 1, LogSoftmax: 1 },
        parameters: { tensors: 8, elements: 21_840, byteLength: 87_360 },
        constants: { tensors: 1, elements: 2, byteLength: 16 },
      },
      true,
    ],
    [
      'silero-vad/silero_vad_16k_op15.onnx',
      {
        byteLength: 1_289_603,
        irVersion: 8,
        opsets: { 'ai.onnx': 15 },
        producer: { name: 'pytorch', version: '2.3.1' },
        graphName: 'main_graph',
        inputs: [
          rows('input', 'float32', ['batch', 'sequence']),
          rows('state', 'float32', [2, 'batch', 128]),
          rows('sr', 'int64', []),
        ],
        outputs: [
          rows('output', 'float32', ['batch', 1]),
          rows('stateN', 'float32', ['AddstateN_dim_0', 'batch', 'AddstateN_dim_2']),
        ],
        parameters: { tensors: 15, elements: 309_633, byteLength: 1_238_532 },
        constants: { tensors: 162, elements: 164, byteLength: 161 * 8 + 3 * 4 },
      },
      null,
    ],
    [
      'squeezenet/model.onnx',
      {
        byteLength: 4_950_080,
        irVersion: 7,
        opsets: { 'ai.onnx': 7 },
        producer: { name: 'onnx-caffe2', version: '' },
        graphName: 'squeezenet_old',
        inputs: [rows('data_0', 'float32', ['N', 3, 224, 224])],
        outputs: [rows('softmaxout_1', 'float32', ['N', 1000, 1, 1])],
        operators: {
          Conv: 26,
          Relu: 26,
          Concat: 8,
          MaxPool: 3,
          Dropout: 1,
          GlobalAveragePool: 1,
          Softmax: 1,
        },
        parameters: { tensors: 52, elements: 1_235_496, byteLength: 4_941_984 },
        constants: none,
      },
      true,
    ],
    [
      'triton-repository/simple/1/model.onnx',
      {
        byteLength: 331,
        graphName: 'onnx_int32_int32_int32',
        inputs: [int32('INPUT0', 16), int32('INPUT1', 16)],
        outputs: [int32('OUTPUT0', 16), int32('OUTPUT1', 16)],
        operators: { Identity: 2, Cast: 2, Add: 1, Sub: 1 },
      },
      true,
    ],
    [
      'triton-repository/simple_int8/1/model.onnx',
      {
        byteLength: 342,
        graphName: 'onnx_int8_int8_int8',
        inputs: ['INPUT0', 'INPUT1'].map((name) => rows(name, 'int8', ['', 16])),
        outputs: ['OUTPUT0', 'OUTPUT1'].map((name) => rows(name, 'int8', ['', 16])),
        operators: { Cast: 4, Add: 1, Sub: 1 },
      },
      true,
    ],
    [
      'triton-repository/simple_string/1/model.onnx',
      {
        byteLength: 348,
        graphName: 'onnx_object_object_object',
        inputs: ['INPUT0', 'INPUT1'].map((name) => rows(name, 'string', ['', 16])),
        outputs: ['OUTPUT0', 'OUTPUT1'].map((name) => rows(name, 'string', ['', 16])),
        operators: { Cast: 4, Add: 1, Sub: 1 },
      },
      true,
    ],
    [
      'triton-repository/simple_sequence/1/model.onnx',
      {
        byteLength: 243,
        graphName: 'onnx_sequence_int32',
        inputs: ['INPUT', 'START', 'READY'].map((name) => int32(name, 1)),
        outputs: [int32('OUTPUT', 1)],
        operators: { Identity: 1, Add: 1, Mul: 1, Cast: 1 },
      },
      true,
    ],
    [
      'triton-repository/simple_dyna_sequence/1/model.onnx',
      {
        byteLength: 403,
        graphName: 'onnx_dyna_sequence_int32',
        outputs: [int32('OUTPUT', 1)],
        inputs: [
          ...['INPUT', 'START', 'END', 'READY'].map((name) => int32(name, 1)),
          rows('CORRID', 'uint64', ['', 1]),
        ],
        operators: { Cast: 2, Add: 2, Mul: 2, Identity: 1 },
      },
      true,
    ],
  ])('is right about %s', async (path, expected, batchable) => {
    const inspection = await inspected(sharedPath(`models/${path}`))
    const triton = path.startsWith('triton')
      ? {
          irVersion: 10,
          opsets: { 'ai.onnx': 21 },
          producer: { name: 'triton', version: '' },
          parameters: none,
          constants: none,
        }
      : {}
    expect(inspection).toMatchObject({
      format: 'onnx',
      ...triton,
      ...expected,
      initializedInputs: [],
      externalFiles: [],
      functions: [],
      metadata: {},
      problems: [],
      opened: null,
    })
    const known =
      batchable === true
        ? { how: 'proved', node: null, maxBatchSize: 32, joining: { rows: 'independent' } }
        : batchable === false
          ? { how: 'proved', maxBatchSize: 0 }
          : { how: 'unknown', maxBatchSize: null, joining: null }
    expect(inspection.batching).toMatchObject({ batchable, ...known })
    const serves = { serves: true, reason: null, leftOut: [] }
    expect(inspection.executors).toEqual({ native: serves, binding: serves })
  })

  it.each([
    ['mnist/cnn_mnist.onnx', 'independent', true],
    ['silero-vad/silero_vad_16k_op15.onnx', 'unknown', null],
    ['triton-repository/simple_string/1/model.onnx', 'independent', true],
  ])('finds out by running whether requests to %s share runs', async (path, found, batchable) => {
    const { batching, opened } = await inspected(sharedPath(`models/${path}`), '--run')
    expect(batching).toMatchObject({ batchable, maxBatchSize: batchable ? 32 : 0, joining: { rows: found } })
    expect(opened!.kind).toMatch(/native|binding/)
  })

  it('shows a model to people', async () => {
    const { stdout } = await zerohop('inspect', sharedPath('models/silero-vad/silero_vad_16k_op15.onnx'))
    expect(stdout).toContain(`
format      ONNX, IR version 8, opset 15 of ai.onnx
made by     pytorch 2.3.1
model       main_graph
inputs      input  float32 [batch, sequence]
            state  float32 [2, batch, 128]
            sr  int64 []
outputs     output  float32 [batch, 1]
            stateN  float32 [AddstateN_dim_0, batch, AddstateN_dim_2]
parameters  309,633 in 15 tensors, 1.2 MiB
constants   164 in 162 tensors, 1.3 KiB
operators   350: 160 Constant, 35 Unsqueeze, 30 Slice, 14 Identity, 13 Concat, 12 Cast, 12 If, 11 Gather, and 19 more kinds
batchable   perhaps: the graph does not prove that rows are independent: If '/model/decoder/If': branches give tensors with different numbers of dimensions; nothing has been run yet. What settles it: --run, dims (inputs: [{ name, dims }]), warm-up samples, or maxBatchSize
refused     nothing
`)
  })
})

describe('zerohop inspect', () => {
  it('says what an executor would refuse, and what it would leave out', async () => {
    const refused = await inspected(small.int4OutputOnly())
    expect(refused.executors.native).toEqual({ serves: true, reason: null, leftOut: [] })
    expect(refused.executors.binding).toMatchObject({
      serves: false,
      reason: expect.stringContaining("Use executor: 'native'"),
    })
    const { executors } = await inspected(small.bfloat16Output())
    expect(executors.binding).toEqual({
      serves: true,
      reason: null,
      leftOut: [{ name: 'b', type: 'bfloat16' }],
    })
    expect((await zerohop('inspect', small.bfloat16Output())).stdout).toContain(
      "refused     output b (bfloat16), with executor: 'binding'\n",
    )
  })

  it('says what stands against loading a model', async () => {
    const tensor = message(
      field(1, 4),
      field(2, 1),
      field(8, 'w'),
      field(14, 1),
      field(13, message(field(1, 'location'), field(2, 'w.bin'))),
    )
    const path = join(temporaryFolder({
      'm.onnx': model(field(1, message(field(4, 'Odd'), field(7, 'com.example'))), field(5, tensor), field(11, value('w', tensorType(1, [4]))), field(11, value('x', tensorType(14, ['N']))), field(12, value('y', tensorType(1, ['N'])))),
    }), 'm.onnx') // prettier-ignore
    const { problems, initializedInputs, executors, externalFiles } = await inspected(path)
    expect(problems).toEqual([
      "external data 'w.bin': there is no such file",
      "operators that ONNX Runtime does not have: 'com.example:Odd'",
    ])
    expect(initializedInputs).toEqual([rows('w', 'float32', [4])])
    expect(externalFiles).toMatchObject([{ location: 'w.bin', byteLength: null, neededBytes: 16 }])
    expect(executors.native).toMatchObject({
      serves: false,
      reason: expect.stringContaining("received 'complex64'"),
    })
    const { code, stdout, stderr } = await zerohop('inspect', path, '--run')
    expect(code).toBe(1)
    expect(stdout).toContain(
      'with values w  float32 [4], an input and an initializer: requests may give it where optionalInputs or inputs name it\n',
    )
    expect(stdout).toContain('not opened  ')
    expect(stderr).toMatch(/^ERR_MODEL_LOAD: .*\n$/)
  })

  it('tells apart what is batchable by its graph and what is not, by its shapes, by its graph and by running', async () => {
    expect((await inspected(small.identityUnbatched('float32', [2]))).batching).toMatchObject({
      batchable: false,
      reason: expect.stringContaining('no variable first dimension'),
    })
    expect((await inspected(small.identity('float32', [2]))).batching).toMatchObject({
      batchable: true,
      how: 'proved',
      node: null,
      maxBatchSize: 32,
    })
    const sums = {
      batchable: false,
      how: 'proved',
      node: expect.stringContaining('CumSum'),
      maxBatchSize: 0,
      joining: { rows: 'dependent', how: 'proved' },
    }
    expect((await inspected(small.runningSumsAs('float32'))).batching).toMatchObject(sums)
    expect((await inspected(small.runningSumsAs('float32'), '--run')).batching).toMatchObject(sums)
    expect((await inspected(await ortForm(small.runningSumsAs('float32')), '--run')).batching).toMatchObject({
      ...sums,
      how: 'checked',
      node: null,
      joining: { rows: 'dependent', how: 'checked' },
    })
    const { stdout } = await zerohop('inspect', small.runningSumsAs('float32'))
    expect(stdout).toMatch(/batchable {3}no: CumSum '.*'/)
  })

  const withoutShape = (type: Uint8Array) => join(temporaryFolder({
    'm.onnx': model(
      field(1, message(field(1, 'x'), field(2, 'y'), field(4, 'Identity'))), field(2, 'net'),
      field(11, value('x', tensorType(1, ['N', 4]))), field(12, value('y', type)),
    ),
  }), 'm.onnx') // prettier-ignore

  it.each([
    ['shape', tensorType(1, null)],
    ['type', message()],
  ])('opens a model whose file does not say the %s of an output', async (_, type) => {
    const { outputs, opened, batching } = await inspected(withoutShape(type))
    expect(outputs).toEqual([rows('y', 'float32', ['N', 4])])
    expect(opened).not.toBeNull()
    expect(batching).toMatchObject({ batchable: true, maxBatchSize: 32 })
  })

  it('does not take for a scalar what may be of any rank', async () => {
    const { inputs, outputs, opened } = await inspected(small.unknownRank('float32'))
    expect(opened).not.toBeNull()
    expect([inputs, outputs]).toEqual([
      [{ name: 'x', type: 'float32', shape: null }],
      [{ name: 'y', type: 'float32', shape: null }],
    ])
    expect((await zerohop('inspect', small.unknownRank('float32'), '--run')).stdout).toContain(
      'inputs      x  float32 of unknown shape\n',
    )
  })

  it('opens what is in the format of ONNX Runtime, and says when that fails', async () => {
    const path = join(
      temporaryFolder({ 'm.ort': Buffer.from('\x10\0\0\0ORTM and nothing else', 'latin1') }),
      'm.ort',
    )
    const { code, stdout, stderr } = await zerohop('inspect', path)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^ERR_MODEL_LOAD: Model 'm\.ort' cannot be loaded from [^\n]*\n$/)
  })

  it('ends with an error when opening a model takes too long', async () => {
    const { code, stderr } = await zerohop(
      'inspect',
      small.identity('float32', [2]),
      '--run',
      '--timeout',
      '0.001',
    )
    expect(code).toBe(1)
    expect(stderr).toMatch(/^ERR_MODEL_LOAD: Model .* took more than 1 ms in a separate process\n$/)
  })

  it('prints one error as JSON, and the same as a line', async () => {
    const path = join(temporaryFolder({}), 'absent.onnx')
    const { code, stdout, stderr } = await zerohop('inspect', path, '--json')
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toEqual({
      error: { code: 'ERR_MODEL_NOT_FOUND', message: expect.stringContaining('expected a file at') },
    })
    expect(stderr).toMatch(/^ERR_MODEL_NOT_FOUND: .*\n$/)
    expect((await zerohop('inspect', '-rj', path)).stdout).toBe(stdout)
  })

  it('keeps what a model says of itself in a line', async () => {
    const path = join(
      temporaryFolder({
        'm.onnx': message(
          field(2, 'a\nforged  line'),
          field(6, 'b\u001b[31mc'),
          model(field(12, value('y\nz', tensorType(1, [])))),
        ),
      }),
      'm.onnx',
    )
    const { stdout } = await zerohop('inspect', path)
    expect(stdout).toContain('made by     a forged  line\n')
    expect(stdout).toContain('y z  float32 []\n')
    expect(stdout).not.toContain('\u001b')
  })

  it('keeps every line its own, whatever a model calls its parts', async () => {
    const called = (part: string) => `${part}\nforged      line\u001b[31m\u2028\u202e`
    const tensor = message(
      field(1, 4),
      field(2, 1),
      field(8, 'w'),
      field(14, 1),
      field(13, message(field(1, 'location'), field(2, called('file')))),
    )
    const path = join(temporaryFolder({
      [`${called('model')}.onnx`]: message(
        model(
          field(1, message(field(4, called('operator')), field(7, called('domain')))), field(2, called('graph')), field(5, tensor),
          field(11, value(called('x'), tensorType(1, [called('N'), 2]))), field(11, value('c', tensorType(14, ['N']))), field(12, value(called('y'), tensorType(1, [2]))),
        ),
        field(25, message(field(1, called('function')), field(10, called('domain')))),
      ),
    }), `${called('model')}.onnx`) // prettier-ignore
    const { stdout } = await zerohop('inspect', path)
    expect(stdout).toContain('functions   domain forged      line')
    const { stdout: types, stderr } = await zerohop('types', path)
    expect([types, stderr]).toEqual(['', expect.stringMatching(/^ERR_MODEL_LOAD: .*\n$/)])
    const wrong = await zerohop('inspect', join(path, called('nowhere')))
    for (const text of [stdout, stderr, wrong.stderr]) {
      expect(text).not.toMatch(/^forged/m)
      expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u2028\u202e]/u)
    }
  })

  it.runIf(full)(
    'takes no longer for each of many inputs and functions than for one of a few',
    { timeout: 30_000 },
    async () => {
      const many = Array.from({ length: 80_000 }, (_, index) => index.toString(36))
      const each = (part: (name: string) => Uint8Array) => Buffer.concat(many.map(part))
      const inputsOf = each((name) => field(11, value(name, tensorType(1, ['N']))))
      const nodes = each((name) => field(1, message(field(4, name), field(7, 'own'))))
      const functions = each((name) => field(25, message(field(1, name), field(10, 'own'))))
      const path = join(
        temporaryFolder({
          'm.onnx': message(model(inputsOf, nodes, field(12, value('y', tensorType(1, ['N'])))), functions),
        }),
        'm.onnx',
      )
      const { inputs, problems, executors } = await inspectModel(path, false, 0)
      expect([inputs.length, problems, executors.native.serves]).toEqual([many.length, [], true])
    },
  )

  it('works where the addon is missing', async () => {
    const copy = join(temporaryFolder({}), 'digits.onnx')
    copyFileSync(join(root, 'examples/digits/model.onnx'), copy)
    const { code, stdout, stderr } = await zerohopWithoutAddon('inspect', copy, '--run')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain('batchable   yes, up to 32 rows: ')
    expect(stdout).toContain("opened      in a separate process, with executor: 'binding'\n")
  })
})
