import { mkdirSync, copyFileSync } from 'node:fs'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import * as small from '../models/small.ts'
import { simple, simpleSequence } from '../models/triton-examples.ts'
import { ownEngine } from '../support/open.ts'
import { Serving } from './serving.ts'

const input = [{ name: 'x', shape: [1, 4], datatype: 'FP32', data: [1, 2, 3, 4] }]

/** A repository of the model `simple`. */
function repository(): string {
  const folder = mkdtempSync(join(tmpdir(), 'kserve-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'simple/1'), { recursive: true })
  copyFileSync(simple(), join(folder, 'simple/1/model.onnx'))
  return folder
}

describe('a server', () => {
  it('is live, ready, and tells of itself and of its extensions', async () => {
    const serving = await Serving.of(ownEngine(), { serverName: 'triton' })
    expect((await serving.call('GET', '/v2/health/live')).status).toBe(200)
    expect((await serving.call('GET', '/v2/health/ready?a=1')).status).toBe(200)
    expect((await serving.call('HEAD', '/v2/health/ready')).status).toBe(200)
    const { json } = await serving.get('/v2')
    expect(json).toMatchObject({ name: 'triton', version: expect.stringMatching(/^\d+\.\d+/) as string })
    expect(json.extensions).toEqual(
      expect.arrayContaining([
        'binary_tensor_data',
        'classification',
        'statistics',
        'schedule_policy',
        'sequence',
      ]),
    )
  })

  it('is not ready once its engine is closed, and says so for each model', async () => {
    const engine = ownEngine()
    await engine.load('m', { path: small.identity('float32') })
    const serving = await Serving.of(engine)
    expect((await serving.get('/v2/health/ready')).status).toBe(200)
    await engine.close()
    expect(await serving.get('/v2/health/ready')).toMatchObject({
      status: 503,
      json: { error: 'Not every model is ready' },
    })
    expect(await serving.get('/v2/models/m/ready')).toMatchObject({ status: 503 })
    expect((await serving.post('/v2/models/m/infer', { inputs: input })).status).toBe(503)
  })

  it('answers what is not of the protocol with 404, where there are no others to leave it to', async () => {
    const serving = await Serving.of(ownEngine())
    for (const path of ['/', '/v2x', '/v1/models', '/metrics'])
      expect((await serving.call('GET', path)).status).toBe(404)
  })

  it('answers an unknown path, a wrong method and what of Triton it has not by name', async () => {
    const serving = await Serving.of(ownEngine())
    expect(await serving.get('/v2/nothing')).toMatchObject({
      status: 404,
      json: { error: expect.stringContaining('/v2/nothing') as string },
    })
    const wrong = await serving.call('GET', '/v2/repository/index')
    expect([wrong.status, wrong.headers.allow]).toEqual([405, 'POST'])
    expect((await serving.post('/v2/health/live', {})).status).toBe(405)
    const refused = [
      '/v2/systemsharedmemory/region/mine/register',
      '/v2/systemsharedmemory/status',
      '/v2/cudasharedmemory/unregister',
      '/v2/trace/setting',
      '/v2/models/m/trace/setting',
      '/v2/logging',
      '/v2/models/m/generate',
    ]
    for (const path of refused)
      expect(await serving.post(path, {})).toMatchObject({
        status: 501,
        json: { error: expect.stringMatching(/ (?:is|are) not supported .*\. \w/) as string },
      })
    expect((await serving.get('/v2/systemsharedmemory/status')).json.error).toMatch(
      /^System shared memory is not supported .* binary data/,
    )
  })
})

describe('a model', () => {
  it('is described as Triton does it, by name and by version', async () => {
    const engine = ownEngine()
    await engine.load('simple', { path: simple(), maxBatchSize: 8, version: 3 })
    const serving = await Serving.of(engine)
    const tensor = (name: string) => ({ name, datatype: 'INT32', shape: [-1, 16] })
    const metadata = {
      name: 'simple',
      versions: ['3'],
      platform: 'onnxruntime_onnx',
      inputs: [tensor('INPUT0'), tensor('INPUT1')],
      outputs: [tensor('OUTPUT0'), tensor('OUTPUT1')],
    }
    expect(await serving.get('/v2/models/simple')).toEqual({ status: 200, json: metadata })
    expect((await serving.get('/v2/models/simple/versions/3')).json).toEqual(metadata)
    const config = await serving.get('/v2/models/simple/config')
    expect(config.json).toMatchObject({
      name: 'simple',
      max_batch_size: 8,
      dynamic_batching: {},
      input: [{ name: 'INPUT0', data_type: 'TYPE_INT32', dims: [16] }, {}],
    })
    expect((await serving.get('/v2/models/simple/ready')).status).toBe(200)
    expect((await serving.get('/v2/models/simple/versions/3/ready')).status).toBe(200)
  })

  it('has what is in effect of its configuration, as Triton has it', async () => {
    const engine = ownEngine()
    const levels = {
      priorityLevels: 2,
      defaultPriorityLevel: 1,
      priorityQueuePolicy: { 2: { maxQueueSize: 7 } },
      defaultQueuePolicy: { defaultTimeoutMs: 1.5, timeoutAction: 'DELAY' as const },
    }
    await engine.load('m', {
      path: small.identity('float32'),
      maxBatchSize: 4,
      dynamicBatching: { preferredBatchSize: [2, 4], maxQueueDelayMs: 0.25, ...levels },
      instanceGroup: [{ kind: 'cpu', count: 2 }],
    })
    await engine.loadPipeline('both', {
      inputs: [{ name: 'in', type: 'float32', dims: [4] }], outputs: [{ name: 'out', type: 'float32', dims: [4] }],
      steps: [{ model: 'm', inputs: { x: 'in' }, outputs: { y: 'between' } }, { model: 'm', version: 1, inputs: { x: 'between' }, outputs: { y: 'out' } }],
    }) // prettier-ignore
    const serving = await Serving.of(engine)
    const config = async (name: string) => (await serving.get(`/v2/models/${name}/config`)).json
    expect(await config('m')).toMatchObject({
      platform: 'onnxruntime_onnx',
      backend: 'onnxruntime',
      max_batch_size: 4,
      instance_group: [{ kind: 'KIND_CPU', count: 2, gpus: [] }],
      response_cache: { enable: false },
      input: [{ name: 'x', data_type: 'TYPE_FP32', dims: [4], optional: false, allow_ragged_batch: false }],
      dynamic_batching: {
        preferred_batch_size: [2, 4],
        max_queue_delay_microseconds: 250,
        preserve_ordering: false,
        priority_levels: 2,
        default_priority_level: 1,
        default_queue_policy: { timeout_action: 'DELAY', default_timeout_microseconds: 1500 },
        priority_queue_policy: { 2: { max_queue_size: 7 } },
      },
    })
    const step = [
      { model_name: 'm', model_version: -1, input_map: { x: 'in' }, output_map: { y: 'between' } },
      { model_name: 'm', model_version: 1, input_map: { x: 'between' }, output_map: { y: 'out' } },
    ]
    expect(await config('both')).toMatchObject({
      platform: 'ensemble',
      backend: '',
      max_batch_size: 4,
      ensemble_scheduling: { step },
    })
    expect((await serving.get('/v2/models/both')).json.platform).toBe('ensemble')
    await engine.load('sequences', {
      path: simpleSequence(),
      maxBatchSize: 4,
      sequence: { maxSequenceIdleMs: 5000, controls: [{ input: 'START', kind: 'start' }] },
    })
    expect((await config('sequences')).sequence_batching).toMatchObject({
      max_sequence_idle_microseconds: 5_000_000,
      control_input: [{ name: 'START', control: [{ kind: 'CONTROL_SEQUENCE_START' }] }],
      oldest: { max_candidate_sequences: 0 },
    })
  })

  it('that is not there is told of in the words that clients of Triton look for', async () => {
    const engine = ownEngine()
    await engine.load('m', { path: small.identity('float32') })
    const serving = await Serving.of(engine)
    const error = "Request for unknown model: 'absent' is not found"
    for (const path of ['', '/ready', '/config', '/stats'])
      expect(await serving.get(`/v2/models/absent${path}`)).toEqual({ status: 404, json: { error } })
    expect(await serving.post('/v2/models/absent/infer', { inputs: input })).toMatchObject({
      status: 404,
      json: { error },
    })
    expect(await serving.get('/v2/models/m/versions/7')).toMatchObject({
      status: 404,
      json: { error: "Request for unknown model: 'm' version 7 is not found" },
    })
    expect((await serving.get('/v2/models/m/versions/one')).status).toBe(400)
    expect((await serving.get('/v2/models/%ff')).status).toBe(400)
    expect((await serving.get('/v2/models/..%2fm')).status).toBe(404)
  })

  it('has statistics in the shape of the extension, of one version, of all and of all models', async () => {
    const engine = ownEngine()
    for (const version of [1, 2]) await engine.load('m', { path: small.identity('float32'), version })
    await engine.load('other', { path: small.identity('float32') })
    const serving = await Serving.of(engine)
    for (let at = 0; at < 3; at++)
      expect((await serving.post('/v2/models/m/infer', { inputs: input })).status).toBe(200)
    const names = async (path: string) =>
      (await serving.get(path)).json.model_stats.map(
        ({ name, version }: Record<string, string>) => `${name}/${version}`,
      )
    expect(await names('/v2/models/stats')).toEqual(['m/1', 'm/2', 'other/1'])
    expect(await names('/v2/models/m/stats')).toEqual(['m/1', 'm/2'])
    const { json } = await serving.get('/v2/models/m/versions/2/stats')
    expect(json.model_stats).toMatchObject([
      {
        name: 'm',
        version: '2',
        inference_count: 3,
        execution_count: 3,
        inference_stats: { success: { count: 3 }, fail: { count: 0 } },
        batch_stats: [{ batch_size: 1, compute_infer: { count: 3 } }],
      },
    ])
    const {
      success,
      queue,
      compute_input: gather,
      compute_infer: run,
      compute_output: scatter,
    } = json.model_stats[0].inference_stats
    expect(success.ns).toBeGreaterThanOrEqual(queue.ns + gather.ns + run.ns + scatter.ns)
  })
})

describe('the repository', () => {
  it('lists the versions of all models, or those that are ready', async () => {
    const engine = ownEngine()
    for (const version of [1, 2]) await engine.load('m', { path: small.identity('float32'), version })
    const serving = await Serving.of(engine)
    const ready = (version: string) => ({ name: 'm', version, state: 'READY', reason: '' })
    expect((await serving.post('/v2/repository/index', '')).json).toEqual([ready('1'), ready('2')])
    expect((await serving.post('/v2/repository/index', { ready: true })).json).toEqual([
      ready('1'),
      ready('2'),
    ])
    expect(await serving.post('/v2/repository/index', { ready: 'yes' })).toMatchObject({
      status: 400,
      json: { error: expect.stringContaining('ready') as string },
    })
  })

  it('is not to be changed by clients unless the option says so', async () => {
    const engine = ownEngine()
    await engine.loadRepository(repository())
    const serving = await Serving.of(engine)
    for (const action of ['load', 'unload'])
      expect(await serving.post(`/v2/repository/models/simple/${action}`, {})).toMatchObject({
        status: 403,
        json: { error: expect.stringContaining('modelControl') as string },
      })
    expect(engine.model('simple').state).toBe('ready')
  })

  it('loads and unloads models where it may, and says why it cannot', async () => {
    const engine = ownEngine()
    await engine.loadRepository(repository())
    const serving = await Serving.of(engine, { modelControl: true })
    const control = (name: string, action: string, body: unknown = '') =>
      serving.post(`/v2/repository/models/${name}/${action}`, body)
    expect(await control('simple', 'unload', { parameters: { unload_dependents: false } })).toMatchObject({
      status: 200,
      json: undefined,
    })
    expect((await serving.get('/v2/models/simple/ready')).status).toBe(404)
    expect((await control('simple', 'load')).status).toBe(200)
    expect((await serving.get('/v2/models/simple/ready')).status).toBe(200)
    expect(await control('wrong', 'load')).toMatchObject({
      status: 404,
      json: { error: expect.stringMatching(/^failed to load 'wrong': /) as string },
    })
    expect(await control('..%2f..%2fetc', 'load')).toMatchObject({ status: 404 })
    expect(await control('wrong', 'unload')).toMatchObject({
      status: 404,
      json: { error: expect.stringMatching(/^failed to unload 'wrong': /) as string },
    })
    expect(await control('simple', 'load', { parameters: { 'file:1/model.onnx': 'AAAA' } })).toMatchObject({
      status: 501,
      json: { error: expect.stringMatching(/^failed to load 'simple': parameters.file:1/) as string },
    })
    expect((await control('simple', 'unload', { parameters: { unload_dependents: true } })).status).toBe(501)
    expect((await control('simple', 'load', '{')).status).toBe(400)
  })

  it('lists what is not loaded as well, and not where only the ready ones are asked for', async () => {
    const engine = ownEngine()
    await engine.loadRepository(repository(), { models: [] })
    const serving = await Serving.of(engine, { modelControl: true })
    expect((await serving.post('/v2/repository/index', '')).json).toEqual([
      { name: 'simple', state: 'UNAVAILABLE', reason: 'unloaded' },
    ])
    expect((await serving.post('/v2/repository/index', { ready: true })).json).toEqual([])
    await serving.post('/v2/repository/models/simple/load', '')
    expect((await serving.post('/v2/repository/index', '')).json).toEqual([
      { name: 'simple', version: '1', state: 'READY', reason: '' },
    ])
  })

  it('loads a model by the configuration that is sent, until it is loaded without one', async () => {
    const engine = ownEngine()
    await engine.loadRepository(repository())
    const serving = await Serving.of(engine, { modelControl: true })
    const load = (config?: unknown) =>
      serving.post(
        '/v2/repository/models/simple/load',
        config === undefined
          ? ''
          : { parameters: { config: typeof config === 'string' ? config : JSON.stringify(config) } },
      )
    const largest = async () => (await serving.get('/v2/models/simple/config')).json.max_batch_size
    const tensor = (name: string) => ({ name, data_type: 'TYPE_INT32', dims: [16] })
    const config = {
      name: 'simple',
      backend: 'onnxruntime',
      max_batch_size: 5,
      input: [tensor('INPUT0'), { name: 'INPUT1', dataType: 'TYPE_INT32', dims: ['16'] }],
      dynamicBatching: { preferred_batch_size: [2], max_queue_delay_microseconds: '100' },
      instance_group: [{ count: 2, kind: 'KIND_CPU' }],
      parameters: { intra_op_thread_count: { string_value: '1' } },
      version_policy: { all: {} },
      model_warmup: null,
    }
    expect((await load(config)).status).toBe(200)
    expect([await largest(), engine.model('simple').stats().instanceCount]).toEqual([5, 2])
    const refused: [config: unknown, told: RegExp][] = [
      ['{', /config of model 'simple': expected a JSON object/],
      ['[]', /expected a JSON object/],
      [{ max_batch_size: 'many' }, /max_batch_size/],
      [{ nothing: 1 }, /nothing/],
      [{ 'a b': 1 }, /fields of ModelConfig/],
      [{ input: [[]] }, /input/],
      [{ input: 7 }, /input/],
      [{ name: 'other' }, /name/],
      [{ max_batch_size: { a: 1 } }, /max_batch_size/],
      [{ parameters: { a: 'b' } }, /parameters/],
      [{ default_model_filename: '../../secret.onnx' }, /default_model_filename/],
      [{ name: '"\n max_batch_size: 9 #' }, /name/],
    ]
    for (const [wrong, told] of refused) {
      const { status, json } = await load(wrong)
      expect([wrong, status, json.error]).toEqual([wrong, 400, expect.stringMatching(told)])
    }
    expect(await largest()).toBe(5)
    const whole = async () => (await serving.get('/v2/models/simple/config')).json
    const before = await whole()
    expect(await load(before)).toMatchObject({ status: 200 }) // as clients do that change a part of what they were told
    expect(await whole()).toEqual(before)
    expect((await load()).status).toBe(200)
    expect(await largest()).toBe(4)
  })
})
