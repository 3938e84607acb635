import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { defineModelConfig } from '../../src/index.ts'
import { accumulator } from '../models/accumulator.ts'
import { detector } from '../models/detectors.ts'
import { gatherRow, identity, stringConcat } from '../models/small.ts'
import { ownEngine } from '../support/open.ts'
import { errorOf, temporaryFolder, type Files } from './temporary.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const model = readFileSync(identity('float32', [2]))
const load = (files: Files) => ownEngine().loadRepository(temporaryFolder(files))
const refusal = async (files: Files) =>
  ((await errorOf(load(files))).cause as AggregateError).errors[0] as Error & Record<string, unknown>

describe('a configuration in a module', () => {
  const settings = defineModelConfig({
    maxBatchSize: 3,
    versionPolicy: { specific: [2] },
    defaultModelFilename: 'net.onnx',
    instanceGroup: [{ kind: 'cpu', count: 1 }],
    outputs: [{ name: 'y', type: 'float32', dims: [2], labelFilename: 'labels.txt' }],
  })
  const files = { 'm/2/net.onnx': model, 'm/3/net.onnx': 'no model', 'm/labels.txt': 'cat\ndog\n' }
  it.each([
    ['config.json', JSON.stringify(settings)],
    ['config.mjs', `export default ${JSON.stringify(settings)}`],
    ['config.js', `module.exports = ${JSON.stringify(settings)}`],
  ])('is read from %s', async (name, text) => {
    const [loaded] = await load({ ...files, [`m/${name}`]: text })
    expect(loaded!.metadata).toMatchObject({
      maxBatchSize: 3,
      path: expect.stringMatching(/2[/\\]net\.onnx$/),
    })
    const outputs = await loaded!.infer({ x: Float32Array.of(1, 5) })
    expect(loaded!.classification(outputs)).toEqual([[{ index: 1, value: 5, label: 'dog' }]])
  })
  it('may say whose the entries of an output are', async () => {
    const text = JSON.stringify(
      defineModelConfig({
        maxBatchSize: 8,
        checkRows: false,
        outputs: [
          { name: 'boxes', rows: { index: 0, of: 'selected' } },
          { name: 'scores', rows: { counts: 'n' } },
        ],
      }),
    )
    const [loaded] = await load({ 'm/1/model.onnx': readFileSync(detector()), 'm/config.json': text })
    expect(loaded!.metadata.outputs).toMatchObject([
      { name: 'boxes', rows: { index: 0, of: 'selected' } },
      { name: 'scores', rows: { counts: 'n' } },
    ])
    const [boxes, none] = await Promise.all(
      [1, 0].map((scale) =>
        loaded!.infer({
          x: Float32Array.from({ length: 64 }, (_, pixel) => scale * Math.sin(13 * pixel) * 3),
        }),
      ),
    )
    expect([boxes!.boxes!.dims[0], none!.boxes!.dims]).toEqual([boxes!.scores!.dims[0], [0, 4]])
  })
  it('and its labels may begin with a mark of their byte order', async () => {
    const text = JSON.stringify({ ...settings, versionPolicy: 'all' })
    const [loaded] = await load({
      'm/2/net.onnx': model,
      'm/labels.txt': '\ufeffcat\ndog\n',
      'm/config.json': `\ufeff${text}`,
    })
    expect(loaded!.classification(await loaded!.infer({ x: Float32Array.of(5, 1) }))).toEqual([
      [{ index: 0, value: 5, label: 'cat' }],
    ])
  })
  it('that throws when it is read is refused with its file', async () => {
    const error = await refusal({
      'm/1/model.onnx': model,
      'm/config.mjs': 'export default { get maxBatchSize() { throw new Error("on purpose") } }',
    })
    expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG', argument: 'config.mjs', received: 'on purpose' })
    expect(error.message).toMatch(/In .*m.config\.mjs$/)
  })
  it('has its type checked', () => {
    // @ts-expect-error there is no such option
    defineModelConfig({ maxBatchSize: 3, dynamicBatchng: {} })
    // @ts-expect-error there is no such type
    defineModelConfig({ inputs: [{ name: 'x', type: 'TYPE_FP32' }] })
    expect(defineModelConfig(settings)).toBe(settings)
  })
  it('in TypeScript is read where Node does that, else the error says what to do', async () => {
    const folder = temporaryFolder({
      'm/1/model.onnx': model,
      'm/config.ts': 'const size: number = 3\nexport default { maxBatchSize: size }',
    })
    const code = `import { InferenceEngine } from 'zerohop'
      const engine = new InferenceEngine()
      const [model] = await engine.loadRepository(${JSON.stringify(folder)}).catch((error) => [{ error: error.cause.errors[0] }])
      console.log(model.error?.message ?? model.metadata.maxBatchSize)
      await engine.close()`
    // In a process without a loader of its own for TypeScript.
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--no-warnings', '--input-type=module', '--eval', code],
      { cwd: root },
    )
    const readsTypeScript = Boolean((process.features as { typescript?: unknown }).typescript)
    expect(stdout.trim()).toMatch(
      readsTypeScript
        ? /^3$/
        : /^config\.ts of model 'm'.*Node reads TypeScript from 22\.18 on.*config\.mjs.*In .*m.config\.ts$/,
    )
  })
  it.each([
    ['config.mjs', 'export default'],
    ['config.js', 'module.exports ='],
  ])('is read anew from %s when that is another, of whatever time', async (name, exporting) => {
    const folder = temporaryFolder({ 'm/1/model.onnx': model })
    const engine = ownEngine()
    const sizes: number[] = []
    for (const maxBatchSize of [3, 5]) {
      writeFileSync(`${folder}/m/${name}`, `${exporting} { maxBatchSize: ${maxBatchSize} }`)
      utimesSync(`${folder}/m/${name}`, 1, 1)
      sizes.push((await engine.loadRepository(folder))[0]!.metadata.maxBatchSize)
    }
    expect(sizes).toEqual([3, 5])
  })
  it('beside another one is an error that names both', async () => {
    const error = await refusal({ 'm/1/model.onnx': model, 'm/config.pbtxt': '', 'm/config.json': '{}' })
    expect(error).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      model: 'm',
      received: ['config.pbtxt', 'config.json'],
    })
    expect(error.message).toContain('Both config.pbtxt and config.json are in ')
  })
  it.each([
    ['{', 'config.json', 'a configuration that can be read'],
    ['[]', 'config.json', 'an object'],
    ['{ "name": "n" }', 'name', "the name of its folder, 'm'"],
    ['{ "path": "x" }', 'path', 'to be omitted: the files of a model are those of its version folders'],
    [
      '{ "versionPolicy": { "latest": 0 } }',
      'versionPolicy',
      "{ latest: count }, 'all' or { specific: versions }",
    ],
    [
      '{ "defaultModelFilename": "../x" }',
      'defaultModelFilename',
      'the name of a file in the version folder',
    ],
    [
      '{ "outputs": [{ "name": "y", "labelFilename": "none.txt" }] }',
      'outputs[0].labelFilename',
      'a file of labels',
    ],
    [
      '{ "maxBatchSise": 3 }',
      'maxBatchSise',
      expect.stringContaining('one of path, bytes, version, maxBatchSize, '),
    ],
    ['{ "maxBatchSize": "3" }', 'maxBatchSize', 'number'],
    ['{ "inputs": [{ "name": "x", "type": "int8" }] }', 'inputs[0].type', 'float32, as the model has it'],
  ])('that is wrong is refused with its file: %s', async (text, argument, expected) => {
    const error = await refusal({ 'm/1/model.onnx': model, 'm/config.json': text })
    expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG', model: 'm', argument, expected })
    expect(error.message).toMatch(/In .*m.config\.json$/)
  })
})

describe('files beside a config.pbtxt', () => {
  const config = (data: string, type = 'TYPE_FP32') =>
    `max_batch_size: 4 model_warmup { name: "w" batch_size: 2 count: 3 inputs { key: "x" value { data_type: ${type} dims: 2 ${data} } } }`
  it.each(['zero_data: true', 'random_data: true', 'input_data_file: "x.bin"'])(
    'warm the model up: %s',
    async (data) => {
      const [loaded] = await load({
        'm/1/model.onnx': model,
        'm/config.pbtxt': config(data),
        'm/warmup/x.bin': Buffer.from(Float32Array.of(1, 2).buffer),
      })
      expect(loaded!.state).toBe('ready')
      expect(loaded!.stats().executionCount).toBe(0)
    },
  )
  it('of strings have the length of each before it', async () => {
    const text = (words: string[]) =>
      Buffer.concat(
        words.flatMap((word) => [
          Buffer.from(Uint32Array.of(Buffer.byteLength(word)).buffer),
          Buffer.from(word),
        ]),
      )
    const value = (file: string) => `value { data_type: TYPE_STRING dims: 2 input_data_file: "${file}" }`
    const pbtxt = (file: string) =>
      `max_batch_size: 4 model_warmup { name: "w" batch_size: 1 inputs [{ key: "a" ${value('a')} }, { key: "b" ${value(file)} }] }`
    const files = {
      'm/1/model.onnx': readFileSync(stringConcat()),
      'm/warmup/a': text(['ä', 'b']),
      'm/warmup/short': text(['a']),
      'm/warmup/cut': text(['a', 'b']).subarray(0, 9),
    }
    expect((await load({ ...files, 'm/config.pbtxt': pbtxt('a') }))[0]!.state).toBe('ready')
    expect(await refusal({ ...files, 'm/config.pbtxt': pbtxt('short') })).toMatchObject({
      received: '1 strings',
    })
    expect(await refusal({ ...files, 'm/config.pbtxt': pbtxt('cut') })).toMatchObject({
      received: 'one that ends after the file of 9 bytes',
    })
  })
  it('that are not there, or of another size, are refused with the place that names them', async () => {
    const missing = await refusal({
      'm/1/model.onnx': model,
      'm/config.pbtxt': config('input_data_file: "x.bin"'),
    })
    expect(missing).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument: 'model_warmup[0].inputs[0].value.input_data_file',
      received: 'no such file',
    })
    expect(missing.message).toMatch(/config\.pbtxt:1:\d+$/)
    const short = await refusal({
      'm/1/model.onnx': model,
      'm/config.pbtxt': config('input_data_file: "x.bin"'),
      'm/warmup/x.bin': 'short',
    })
    expect(short).toMatchObject({
      expected: 'a file of 8 bytes (2 elements of float32)',
      received: '5 bytes',
    })
    const labels = await refusal({
      'm/1/model.onnx': model,
      'm/config.pbtxt':
        'max_batch_size: 1 output { name: "y" data_type: TYPE_FP32 dims: 2 label_filename: "l.txt" }',
    })
    expect(labels).toMatchObject({
      argument: 'output[0].label_filename',
      received: expect.stringContaining('no file at '),
    })
  })
  it('that the model cannot be warmed up with are named by their place among the samples', async () => {
    const sample = (value: string, batchSize: number) =>
      `model_warmup { name: "w" batch_size: ${batchSize} inputs { key: "index" value { data_type: TYPE_INT64 dims: 1 ${value} } } }`
    const files = (sampleText: string) => ({
      'm/1/model.onnx': readFileSync(gatherRow()),
      'm/warmup/far': Buffer.from(BigInt64Array.of(1000n).buffer),
      'm/config.pbtxt': `max_batch_size: 4\n${sample('zero_data: true', 0)}\n${sample('zero_data: true', 1)}\n${sampleText}`,
    })
    const failing = await refusal(files(sample('input_data_file: "far"', 1)))
    expect(failing).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      argument: 'model_warmup[2].inputs',
      expected: 'a sample that the model can be run with',
      received: expect.stringContaining('1000'),
    })
    expect(failing.message).toMatch(/config\.pbtxt:4:\d+$/)
    const other = await refusal(files(sample('zero_data: true', 1).replace('dims: 1', 'dims: [1, 2]')))
    expect(other).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument: 'model_warmup[2].inputs',
      received: [1, 1, 2],
    })
    expect(other.message).toMatch(/config\.pbtxt:4:\d+$/)
    const often = await refusal(files(`${sample('zero_data: true', 1).slice(0, -1)} count: 4294967295 }`))
    expect(often).toMatchObject({ code: 'ERR_MODEL_CONFIG', argument: 'model_warmup[2].count' })
  })
  it.each([
    ['latin1', 2, 26],
    ['utf16le', 1, 1],
  ] as const)(
    'of other bytes than UTF-8 are refused with their place: %s',
    async (encoding, line, column) => {
      const text = Buffer.from(
        '\ufeffmax_batch_size: 4\ndefault_model_filename: "ä.onnx"'.slice(encoding === 'latin1' ? 1 : 0),
        encoding,
      )
      const error = await refusal({ 'm/1/model.onnx': model, 'm/config.pbtxt': text })
      expect(error).toMatchObject({
        code: 'ERR_MODEL_CONFIG',
        argument: 'config.pbtxt',
        expected: 'text in UTF-8',
      })
      expect(error.message).toMatch(new RegExp(`config\\.pbtxt:${line}:${column}$`))
    },
  )
  it('that cannot be read are named by their path', async () => {
    const path = temporaryFolder({ 'm/1/model.onnx': model })
    mkdirSync(join(path, 'm/config.pbtxt'))
    const error = (await errorOf(ownEngine().loadRepository(path))).cause as AggregateError
    expect(error.errors[0].message).toBe(
      `config.pbtxt of model 'm': expected a readable file, received 'it is a directory'. At ${join(path, 'm/config.pbtxt')}`,
    )
  })
  it.each([
    [
      'control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } }',
      'control_input[0].control',
      "TYPE_FP32, as 'START' has it in the model",
      'TYPE_INT32',
    ],
    [
      'control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }',
      'control_input[0].control',
      "TYPE_UINT64, as 'ID' has it in the model",
      'TYPE_STRING',
    ],
    [
      'state { input_name: "before" output_name: "state" data_type: TYPE_INT8 dims: 1 }',
      'state[0].data_type',
      "TYPE_FP32, as 'before' has it in the model",
      'TYPE_INT8',
    ],
    [
      'state { input_name: "before" output_name: "state" data_type: TYPE_FP32 dims: 2 }',
      'state[0].dims',
      "[1], as 'before' has it in the model",
      [2],
    ],
    [
      'state { input_name: "before" output_name: "ended" data_type: TYPE_FP32 dims: 1 }',
      'state[0].data_type',
      "TYPE_BOOL, as 'ended' has it in the model",
      'TYPE_FP32',
    ],
  ])('contradict the model where a sequence does: %s', async (field, argument, expected, received) => {
    const error = await refusal({
      'm/1/model.onnx': readFileSync(accumulator()),
      'm/config.pbtxt': `max_batch_size: 4\nsequence_batching {\n${field} }`,
    })
    expect(error).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument: `sequence_batching.${argument}`,
      expected,
      received,
    })
    expect(error.message).toMatch(/config\.pbtxt:3:\d+$/)
  })
  it('are where the sequences of a model begin', async () => {
    const pbtxt = (file: string) => `max_batch_size: 4
      input { name: "x" data_type: TYPE_FP32 dims: 1 }
      output { name: "sum" data_type: TYPE_FP32 dims: 1 }
      sequence_batching {
        control_input [
          { name: "START" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 1, 0 ] } },
          { name: "END" control { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } },
          { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
        ]
        state { input_name: "before" output_name: "state" data_type: TYPE_FP32 dims: 1 initial_state { data_type: TYPE_FP32 dims: 1 data_file: "${file}" name: "first" } }
      }`
    const files = {
      'm/1/model.onnx': readFileSync(accumulator()),
      'm/initial_state/forty': Buffer.from(Float32Array.of(40).buffer),
    }
    const [loaded] = await load({ ...files, 'm/config.pbtxt': pbtxt('forty') })
    const send = async (value: number, start: boolean) =>
      (await loaded!.infer({ x: Float32Array.of(value) }, { sequenceId: 1, sequenceStart: start }))['sum']!
        .data[0]
    expect([await send(2, true), await send(1, false), await send(3, true)]).toEqual([42, 43, 43])
    expect(await refusal({ ...files, 'm/config.pbtxt': pbtxt('none') })).toMatchObject({
      argument: 'sequence_batching.state[0].initial_state[0].data_file',
      received: 'no such file',
    })
  })
})
