import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Tensor, type ModelOptions } from '../../src/index.ts'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { sessionSettings, sharable } from '../../src/run/executors/native/session-opener.ts'
import { withExternalData } from '../models/arithmetic.ts'
import { mlp } from '../models/networks.ts'
import { matchesPlain } from '../support/against-plain.ts'
import { load, ownEngine } from '../support/open.ts'
import { feedsOf, runPlain } from '../support/plain.ts'
import { expectClose } from '../support/same.ts'
import { noise } from '../support/samples.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'

const { version, reason } = openNativeOrt()

describe('options of execution providers', () => {
  const settings = (executionProviders: ModelOptions['executionProviders']) =>
    sessionSettings({ executionProviders } as never)

  it('go to ONNX Runtime by the names that it has for them', () => {
    const cuda = {
      name: 'cuda',
      deviceId: 1,
      gpu_mem_limit: 2 ** 30,
      arena_extend_strategy: 'kSameAsRequested',
      user_compute_stream: '0',
    }
    expect(
      settings([
        cuda,
        { name: 'tensorrt', trt_fp16_enable: 1 },
        { name: 'qnn', backend_path: 'x.so' },
        'cpu',
      ]),
    ).toEqual([
      {
        name: 'provider',
        key: 'CUDA',
        entries: {
          device_id: '1',
          gpu_mem_limit: '1073741824',
          arena_extend_strategy: 'kSameAsRequested',
          user_compute_stream: '0',
        },
      },
      { name: 'provider', key: 'TensorRT', entries: { trt_fp16_enable: '1' } },
      { name: 'provider', key: 'QNN', entries: { backend_path: 'x.so' } },
    ])
  })

  it('leave a session to one thread where the provider does', () => {
    expect(sharable({ executionProviders: ['cuda', 'cpu'] })).toBe(true)
    expect(sharable({ executionProviders: ['tensorrt', 'cpu'] })).toBe(false)
  })
})

describe('session options', () => {
  it.each<[string, ModelOptions, string]>([
    [
      'a length that is no number',
      { sessionOptions: { freeDimensionOverrides: { N: '2' as never } } },
      'sessionOptions.freeDimensionOverrides.N',
    ],
    [
      'lengths in a list',
      { sessionOptions: { freeDimensionOverridesByDenotation: [] as never } },
      'sessionOptions.freeDimensionOverridesByDenotation',
    ],
    [
      'a path as external data',
      { sessionOptions: { externalData: ['weights.data'] } },
      'sessionOptions.externalData',
    ],
    ['a run entry that is no text', { runOptions: { extra: { a: 1 } } }, 'runOptions.extra.a'],
  ])('are refused with %s', async (_, options, argument) => {
    await expect(ownEngine().load('m', { path: mlp(), ...options })).rejects.toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument,
    })
  })

  it.each<[ModelOptions, string]>([
    [{ sessionOptions: { freeDimensionOverrides: { N: 2 } } }, 'sessionOptions.freeDimensionOverrides'],
    [
      { sessionOptions: { freeDimensionOverridesByDenotation: { DATA_BATCH: 2 } } },
      'sessionOptions.freeDimensionOverridesByDenotation',
    ],
    [{ runOptions: { extra: { a: '1' } } }, 'runOptions.extra'],
    [
      { executionProviders: ['cpu', { name: 'cuda', deviceId: 0, gpu_mem_limit: 1 }] },
      'executionProviders[1].gpu_mem_limit',
    ],
  ])('that onnxruntime-node ignores are refused with its executor: %o', async (options, argument) => {
    const loading = ownEngine({ executor: 'binding' }).load('m', { path: mlp(), ...options })
    await expect(loading).rejects.toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument,
      message: expect.stringContaining("Take executor: 'native'"),
    })
  })
})

describe.skipIf(version === undefined)(
  `with the native executor${reason === undefined ? '' : ` (skipped: ${reason.split('\n', 1)[0]})`}`,
  () => {
    const native = () => ownEngine({ executor: 'native', cpuWorkers: 1 })

    it('fixed dimensions are part of the model', async () => {
      const model = await load(native(), mlp(), { sessionOptions: { freeDimensionOverrides: { N: 2 } } })
      expect(model.metadata.inputs[0]!.shape).toEqual([2, 64])
      await matchesPlain(model, [{ input: noise([2, 64]) }])
    })

    it('a model in memory has its external data from memory, a session for each content', async () => {
      const path = withExternalData()
      const weights = readFileSync(path.replace(/\.onnx$/, '.data'))
      const engine = native()
      const open = (name: string, data: Uint8Array) =>
        engine.load(name, {
          bytes: readFileSync(path),
          sessionOptions: { externalData: [{ path: 'external-data.data', data }] },
        })
      const [model, zero] = [
        await open('m', new Uint8Array(weights)),
        await open('zero', new Uint8Array(weights.length)),
      ]
      const request = { x: noise([3, 16]) }
      expect((await model.infer(feedsOf(request)))['y']!.data).toEqual(
        (await runPlain(path, request))['y']!.data,
      )
      expect((await zero.infer(feedsOf(request)))['y']!.data).toEqual(new Float32Array(12))
    })

    it('each run has the config entries of its model', async () => {
      const engine = native()
      const shrinking = await load(engine, mlp(), {
        runOptions: { extra: { memory: { enable_memory_arena_shrinkage: 'cpu:0' } } },
      })
      await matchesPlain(shrinking, [{ input: noise([2, 64]) }])
      const wrong = await load(engine, mlp(), {
        warmup: false,
        checkRows: false,
        runOptions: { extra: { 'memory.enable_memory_arena_shrinkage': 'nowhere:0' } },
      })
      const run = wrong.infer({ input: new Tensor('float32', new Float32Array(64), [1, 64]) })
      await expect(run).rejects.toMatchObject({
        code: 'ERR_EXECUTION',
        message: expect.stringContaining('nowhere'),
      })
    })

    it('WebGPU, which is built in, serves or says what it lacks', async () => {
      const loading = native().load('m', { path: mlp(), instanceGroup: [{ kind: 'webgpu' }] })
      const [outcome] = await Promise.allSettled([loading])
      if (outcome.status === 'fulfilled')
        await matchesPlain(outcome.value, [{ input: noise([2, 64]) }], { same: expectClose })
      else
        expect(outcome.reason).toMatchObject({
          code: 'ERR_MODEL_LOAD',
          argument: 'instanceGroup',
          received: ['webgpu'],
        })
    })

    it('a profile is written when the model is released', async () => {
      const folder = temporaryFolder({})
      const model = await load(native(), mlp(), {
        sessionOptions: { enableProfiling: true, profileFilePrefix: join(folder, 'profile') },
      })
      await matchesPlain(model, [{ input: noise([1, 64]) }])
      await model.unload()
      const [file] = readdirSync(folder)
      const events = JSON.parse(readFileSync(join(folder, file!), 'utf8')) as { name: string }[]
      expect(events.some(({ name }) => /model_run/.test(name))).toBe(true)
    })
  },
)
