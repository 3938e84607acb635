import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Serving } from '../kserve/serving.ts'
import * as small from '../models/small.ts'
import { field, message, tensorType, value } from '../onnx-file/wire.ts'
import { served } from '../processes/served.ts'
import { ownEngine, sharedEngine } from '../support/open.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'

const entry = (key: string, text: string) => field(14, message(field(1, key), field(2, text)))
const names = "{0: 'person', 1: 'bicycle'}"

/** y = x, with all that a file may say of itself. */
const telling = (...more: Uint8Array[]): Uint8Array =>
  message(
    field(1, 8), field(2, 'pytorch'), field(3, '2.4.0'), field(4, 'com.example'), field(5, 7), field(6, 'finds people'),
    field(7, message(
      field(1, message(field(1, 'x'), field(2, 'y'), field(4, 'Identity'))), field(2, 'main_graph'), field(10, 'of the trunk'),
      field(11, message(value('x', tensorType(1, ['N', 4])), field(3, 'pixels, from 0 to 1'))), field(12, value('y', tensorType(1, ['N', 4]))),
    )),
    field(8, field(2, 17)), entry('names', names), entry('stride', '32'), ...more,
  ) // prettier-ignore

const properties = {
  producer: { name: 'pytorch', version: '2.4.0' },
  domain: 'com.example',
  version: 7,
  description: 'finds people',
  graph: { name: 'main_graph', description: 'of the trunk' },
  custom: { names, stride: '32' },
}
const parameters = {
  'onnx.producer_name': { string_value: 'pytorch' }, 'onnx.producer_version': { string_value: '2.4.0' }, 'onnx.domain': { string_value: 'com.example' }, 'onnx.model_version': { string_value: '7' },
  'onnx.description': { string_value: 'finds people' }, 'onnx.graph_name': { string_value: 'main_graph' }, 'onnx.graph_description': { string_value: 'of the trunk' },
  names: { string_value: names }, stride: { string_value: '32' },
} // prettier-ignore

const engine = sharedEngine()

describe('what a model says of itself', () => {
  it.each(['auto', 'binding'] as const)(
    'is in its metadata, from a file and from bytes, with executor %s',
    async (executor) => {
      const own = ownEngine({ executor })
      const path = join(temporaryFolder({ 'telling.onnx': telling() }), 'telling.onnx')
      const [file, bytes] = await Promise.all([
        own.load('file', { path }),
        own.load('bytes', { bytes: telling() }),
      ])
      for (const { metadata } of [file, bytes]) {
        expect(metadata.properties).toEqual(properties)
        expect(metadata.inputs).toMatchObject([{ name: 'x', description: 'pixels, from 0 to 1' }])
        expect(metadata.outputs[0]).not.toHaveProperty('description')
      }
      writeFileSync(path, telling(entry('stride', '64')))
      expect((await own.load('file', { path })).metadata.properties!.custom['stride']).toBe('64')
      expect((await file.infer({ x: new Float32Array(4) }))['y']!.dims).toEqual([1, 4])
    },
  )

  it('is known of a model that says nothing, and of no function and no pipeline', async () => {
    const { metadata } = await engine.load('silent', { path: small.identity('float32') })
    expect(metadata.properties).toMatchObject({ domain: '', version: 0, description: '', custom: {} })
    const doubled = await engine.loadFunction('function', {
      inputs: [{ name: 'x', type: 'int32' }],
      outputs: [{ name: 'y', type: 'int32' }],
      run: ({ x }) => ({ y: x.data }),
    })
    const line = await engine.loadPipeline('line', {
      inputs: ['x'],
      steps: [{ model: 'silent', inputs: { x: 'x' }, outputs: { y: 'y' } }],
      outputs: ['y'],
    })
    expect([doubled.metadata.properties, line.metadata.properties]).toEqual([null, null])
  })

  it('has empty texts where they are too long to be kept', async () => {
    const { metadata } = await engine.load('long', {
      bytes: telling(entry('weights', 'w'.repeat(2 ** 20 + 1)), entry('__proto__', 'own')),
    })
    expect(Object.entries(metadata.properties!.custom)).toEqual([
      ['names', names],
      ['stride', '32'],
      ['weights', ''],
      ['__proto__', 'own'],
    ])
  })

  it('is told in another process as well', async () => {
    const { remote } = await served(false)
    expect((await (await remote.load('m', { bytes: telling() })).metadata()).properties).toEqual(properties)
  })
})

describe('the parameters of a configuration over KServe', () => {
  it("are what the model's file says", async () => {
    await engine.load('told', { bytes: telling() })
    const serving = await Serving.of(engine)
    expect((await serving.get('/v2/models/told/config')).json.parameters).toEqual(parameters)
  })

  it('are those that it was loaded with as well, which go before the others', async () => {
    await engine.load('own', {
      bytes: telling(),
      parameters: { stride: '8', metadata: "{'task': 'detect'}" },
    })
    const serving = await Serving.of(engine)
    expect((await serving.get('/v2/models/own/config')).json.parameters).toEqual({
      ...parameters,
      stride: { string_value: '8' },
      metadata: { string_value: "{'task': 'detect'}" },
    })
    await expect(
      engine.load('own', { bytes: telling(), parameters: { stride: 8 } as never }),
    ).rejects.toMatchObject({ code: 'ERR_MODEL_CONFIG', argument: 'parameters.stride' })
  })

  it('are those of config.pbtxt as they stand, of a model and of an ensemble', async () => {
    const text = `{0: 'person',\n 1: "bicycle's"}`
    const said = `parameters { key: "metadata" value { string_value: ${JSON.stringify(text)} } } parameters { key: "intra_op_thread_count" value { string_value: "1" } }`
    const folder = temporaryFolder({
      'detector/1/model.onnx': telling(), 'detector/config.pbtxt': said,
      'line/1/.keep': '', 'line/config.pbtxt': `platform: "ensemble" max_batch_size: 4 input { name: "a" data_type: TYPE_FP32 dims: [4] } output { name: "b" data_type: TYPE_FP32 dims: [4] } ${said}
        ensemble_scheduling { step { model_name: "detector" model_version: -1 input_map { key: "x" value: "a" } output_map { key: "y" value: "b" } } }`,
    }) // prettier-ignore
    const own = ownEngine()
    await own.loadRepository(folder)
    const serving = await Serving.of(own)
    const configured = { metadata: { string_value: text }, intra_op_thread_count: { string_value: '1' } }
    expect((await serving.get('/v2/models/detector/config')).json.parameters).toEqual({
      ...parameters,
      ...configured,
    })
    expect((await serving.get('/v2/models/line/config')).json.parameters).toEqual(configured)
  })
})
