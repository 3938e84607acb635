import { describe, expect, it } from 'vitest'
import {
  InferenceEngine,
  type EngineOptions,
  type InferenceError,
  type ModelConfig,
} from '../../src/index.ts'
import { expectNoWarnings, expectRefusal, rejectionOf, type Refusal } from './refusal.ts'

expectNoWarnings()

const path = 'model.onnx'
type Case = [what: string, config: unknown, argument: string, received?: unknown]

const cases: Record<string, Case[]> = {
  'the whole is not an object': [
    ['missing', undefined, 'config', undefined],
    ['null', null, 'config', null],
    ['a path alone', 'model.onnx', 'config', 'model.onnx'],
    ['an array', [path], 'config'],
    ['empty', {}, 'path', undefined],
  ],
  'a key is unknown': [
    ['at the top', { path, maxBatch: 4 }, 'maxBatch', 'maxBatch'],
    ['in dynamicBatching', { path, dynamicBatching: { delay: 4 } }, 'dynamicBatching.delay', 'delay'],
    [
      'in the queue policy',
      { path, dynamicBatching: { defaultQueuePolicy: { size: 4 } } },
      'dynamicBatching.defaultQueuePolicy.size',
      'size',
    ],
    ['in a group', { path, instanceGroup: [{ kind: 'cpu', gpu: 0 }] }, 'instanceGroup[0].gpu', 'gpu'],
    ['in a warm-up sample', { path, warmup: [{ feeds: {}, times: 2 }] }, 'warmup[0].times', 'times'],
  ],
  'a value is wrong': [
    ['a path that is empty', { path: '' }, 'path', ''],
    [
      'a path that is a URL of another scheme',
      { path: new URL('https://example.org/model.onnx') },
      'path',
      'https://example.org/model.onnx',
    ],
    [
      'a path that is an address of the web',
      { path: 'https://example.org/model.onnx' },
      'path',
      'https://example.org/model.onnx',
    ],
    ['a path that is a number', { path: 3 }, 'path', 3],
    ['bytes beside a path', { path, bytes: new Uint8Array(1) }, 'bytes'],
    ['bytes that are none', { bytes: new Uint8Array(0) }, 'bytes'],
    ['bytes that are numbers', { bytes: [8, 7] }, 'bytes'],
    ['bytes as text', { bytes: 'model.onnx' }, 'bytes', 'model.onnx'],
    ['bytes as other elements', { bytes: new Float32Array(4) }, 'bytes'],
    ['a negative maxBatchSize', { path, maxBatchSize: -1 }, 'maxBatchSize', -1],
    ['a fraction of a maxBatchSize', { path, maxBatchSize: 1.5 }, 'maxBatchSize', 1.5],
    ['a maxBatchSize of NaN', { path, maxBatchSize: NaN }, 'maxBatchSize', NaN],
    ['a maxBatchSize as text', { path, maxBatchSize: '8' }, 'maxBatchSize', '8'],
    ['a maxBatchSize of null', { path, maxBatchSize: null }, 'maxBatchSize', null],
    ['dynamicBatching of true', { path, dynamicBatching: true }, 'dynamicBatching', true],
    [
      'a preferred size of 0',
      { path, dynamicBatching: { preferredBatchSize: 0 } },
      'dynamicBatching.preferredBatchSize',
      0,
    ],
    [
      'no preferred sizes',
      { path, dynamicBatching: { preferredBatchSize: [] } },
      'dynamicBatching.preferredBatchSize',
    ],
    [
      'a negative delay',
      { path, dynamicBatching: { maxQueueDelayMs: -1 } },
      'dynamicBatching.maxQueueDelayMs',
      -1,
    ],
    [
      'an infinite delay',
      { path, dynamicBatching: { maxQueueDelayMs: Infinity } },
      'dynamicBatching.maxQueueDelayMs',
      Infinity,
    ],
    ['a weight of 0', { path, weight: 0 }, 'weight', 0],
    ['a weight by which no time can be divided', { path, weight: 5e-324 }, 'weight', 5e-324],
    ['a weight below a millionth', { path, weight: 9e-7 }, 'weight', 9e-7],
    ['a weight above a million', { path, weight: 1e6 + 1 }, 'weight', 1e6 + 1],
    ['an infinite weight', { path, weight: Infinity }, 'weight', Infinity],
    ['a weight of NaN', { path, weight: NaN }, 'weight', NaN],
    ['no groups', { path, instanceGroup: [] }, 'instanceGroup'],
    [
      'many groups of few instances',
      { path, instanceGroup: Array.from({ length: 100_000 }, () => ({ count: 1 })) },
      'instanceGroup',
      100_000,
    ],
    ['one group without a list', { path, instanceGroup: { count: 2 } }, 'instanceGroup'],
    ['a count of 0', { path, instanceGroup: [{ count: 0 }] }, 'instanceGroup[0].count', 0],
    ['a count beyond reason', { path, instanceGroup: [{ count: 1e6 }] }, 'instanceGroup[0].count', 1e6],
    [
      'a fewest above the most',
      { path, instanceGroup: [{ minInstances: 3, maxInstances: 2 }] },
      'instanceGroup[0].minInstances',
      3,
    ],
    [
      'a count below the fewest',
      { path, instanceGroup: [{ minInstances: 2, count: 1 }] },
      'instanceGroup[0].count',
      1,
    ],
    [
      'a count above the most',
      { path, instanceGroup: [{ maxInstances: 2, count: 3 }] },
      'instanceGroup[0].count',
      3,
    ],
    [
      'a count on the CPU beyond what it scales to',
      { path, instanceGroup: [{ maxInstances: 2, cpuCount: 3 }] },
      'instanceGroup[0].cpuCount',
      3,
    ],
    [
      'a count on the CPU below the fewest',
      { path, instanceGroup: [{ minInstances: 2, maxInstances: 3, cpuCount: 1 }] },
      'instanceGroup[0].cpuCount',
      1,
    ],
    [
      'many instances on the CPU',
      { path, instanceGroup: Array.from({ length: 2 }, () => ({ cpuCount: 200 })) },
      'instanceGroup',
      400,
    ],
    [
      'fewest instances of 0',
      { path, instanceGroup: [{ minInstances: 0 }] },
      'instanceGroup[0].minInstances',
      0,
    ],
    [
      'many groups that may become large',
      { path, instanceGroup: Array.from({ length: 2 }, () => ({ maxInstances: 200 })) },
      'instanceGroup',
      400,
    ],
    [
      'no time before it grows',
      { path, instanceGroup: [{ maxInstances: 2, scaleUpAfterMs: 0 }] },
      'instanceGroup[0].scaleUpAfterMs',
      0,
    ],
    [
      'an endless time before it shrinks',
      { path, instanceGroup: [{ maxInstances: 2, scaleDownAfterMs: Infinity }] },
      'instanceGroup[0].scaleDownAfterMs',
      Infinity,
    ],
    ['a kind that there is not', { path, instanceGroup: [{ kind: 'tpu' }] }, 'instanceGroup[0].kind', 'tpu'],
    [
      'a negative GPU',
      { path, instanceGroup: [{ kind: 'cuda', gpus: [-1] }] },
      'instanceGroup[0].gpus[0]',
      -1,
    ],
    ['no GPU', { path, instanceGroup: [{ kind: 'cuda', gpus: [] }] }, 'instanceGroup[0].gpus'],
    ['providers as text', { path, executionProviders: 'cpu' }, 'executionProviders', 'cpu'],
    ['no providers', { path, executionProviders: [] }, 'executionProviders'],
    [
      'a provider without a name',
      { path, executionProviders: [{ deviceId: 0 }] },
      'executionProviders[0].name',
    ],
  ],
  'a session option is wrong': [
    ['all of them a text', { path, sessionOptions: 'fast' }, 'sessionOptions', 'fast'],
    [
      'extra with a number',
      { path, sessionOptions: { extra: { session: { dynamic_block_base: 4 } } } },
      'sessionOptions.extra.session.dynamic_block_base',
      4,
    ],
    [
      'extra with a boolean',
      { path, sessionOptions: { extra: { session: { disable_prepacking: true } } } },
      'sessionOptions.extra.session.disable_prepacking',
      true,
    ],
    ['extra as text', { path, sessionOptions: { extra: 'session' } }, 'sessionOptions.extra', 'session'],
    [
      'a function, which no thread can be sent',
      { path, sessionOptions: { logId: () => 'me' } },
      'sessionOptions.logId',
    ],
    [
      'the option that has its own place',
      { path, sessionOptions: { executionProviders: ['cpu'] } },
      'sessionOptions.executionProviders',
    ],
  ],
}

describe.each(Object.entries(cases))(
  'a configuration is refused before anything is loaded when %s',
  (_, table) => {
    it.each(table)('%s', async (...[, config, argument, ...received]) => {
      const engine = new InferenceEngine()
      const error = await rejectionOf(() => engine.load('bad', config as ModelConfig))
      const refusal: Refusal = {
        code: 'ERR_MODEL_CONFIG',
        argument,
        ...(received.length === 0 ? {} : { received: received[0] }),
      }
      expectRefusal(error, refusal)
      expect(error).toMatchObject({ model: 'bad' })
      expect(engine.models()).toEqual([])
    })
  },
)

it('an option that there is not is told those that there are', async () => {
  const engine = new InferenceEngine()
  const expectedOf = async (config: object) =>
    ((await rejectionOf(() => engine.load('bad', { path, ...config }))) as InferenceError).expected
  expect(await expectedOf({ max_batch_size: 8 })).toMatch(
    /^one of path, bytes, version, maxBatchSize, .*, coalesce, autoTune$/,
  )
  expect(await expectedOf({ dynamicBatching: { maxQueueDelay: 8 } })).toMatch(/^one of .*maxQueueDelayMs/)
  expect(await rejectionOf(async () => new InferenceEngine({ threads: 4 } as EngineOptions))).toMatchObject({
    expected: expect.stringMatching(/^one of .*cpuWorkers/),
  })
})
