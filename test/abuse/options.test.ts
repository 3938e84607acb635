import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type CloseOptions,
  type EngineOptions,
  InferenceEngine,
  type InferenceError,
  type InferOptions,
  type ModelConfig,
} from '../../src/index.ts'
import { identity } from '../models/small.ts'
import { type Bench, benchOfTwoInputs, keepsGoodOnesWell, refusedAmongGoodOnes } from './among-good-ones.ts'
import { expectNoWarnings, expectRefusal, type Refusal, rejectionOf } from './refusal.ts'

expectNoWarnings()

type Case = [what: string, options: unknown, argument: string, received?: unknown]

const cases: Case[] = [
  ['null', null, 'options', null],
  ['a number', 4, 'options', 4],
  ['an array', [], 'options'],
  ['an unknown option', { threads: 4 }, 'options.threads', 'threads'],
  ['no workers', { cpuWorkers: 0 }, 'options.cpuWorkers', 0],
  ['half a worker', { cpuWorkers: 0.5 }, 'options.cpuWorkers', 0.5],
  ['workers beyond reason', { cpuWorkers: 1e6 }, 'options.cpuWorkers', 1e6],
  ['workers as text', { cpuWorkers: '2' }, 'options.cpuWorkers', '2'],
  ['a kind of memory that there is not', { staging: { kind: 'fast' } }, 'options.staging.kind', 'fast'],
  ['an unknown option of staging', { staging: { limit: 1 } }, 'options.staging.limit', 'limit'],
  ['a negative limit of staging', { staging: { limitBytes: -1 } }, 'options.staging.limitBytes', -1],
  ['staging as text', { staging: 'native' }, 'options.staging', 'native'],
  ['an unknown option of workers', { workers: { stackSize: 4 } }, 'options.workers.stackSize', 'stackSize'],
  [
    'resource limits as text',
    { workers: { resourceLimits: { maxOldGenerationSizeMb: '64' } } },
    'options.workers.resourceLimits.maxOldGenerationSizeMb',
    '64',
  ],
  [
    'an unknown resource limit',
    { workers: { resourceLimits: { maxHeapMb: 64 } } },
    'options.workers.resourceLimits.maxHeapMb',
    'maxHeapMb',
  ],
  [
    'a stack on which no thread starts',
    { workers: { resourceLimits: { stackSizeMb: 0.1 } } },
    'options.workers.resourceLimits.stackSizeMb',
    0.1,
  ],
  [
    'execArgv as text',
    { workers: { execArgv: '--no-warnings' } },
    'options.workers.execArgv',
    '--no-warnings',
  ],
  ['a number in env', { workers: { env: { LEVEL: 1 } } }, 'options.workers.env.LEVEL', 1],
  ['a cache that is true', { cache: true }, 'options.cache', true],
  ['an unknown option of the cache', { cache: { folder: 'x' } }, 'options.cache.folder', 'folder'],
  ['a cache in no folder', { cache: { dir: '' } }, 'options.cache.dir', ''],
  ['a cache of half a byte', { cache: { maxBytes: 0.5 } }, 'options.cache.maxBytes', 0.5],
  ['a way to verify that there is not', { verify: 'thread' }, 'options.verify', 'thread'],
  ['no time to verify', { verifyTimeoutMs: 0 }, 'options.verifyTimeoutMs', 0],
  ['no time to start', { workers: { startTimeoutMs: 0 } }, 'options.workers.startTimeoutMs', 0],
]

describe('new InferenceEngine', () => {
  it.each(cases)('throws for %s', (...[, options, argument, ...received]) => {
    let error: unknown
    try {
      new InferenceEngine(options as EngineOptions)
    } catch (reason) {
      error = reason
    }
    expectRefusal(error, { argument, ...(received.length === 0 ? {} : { received: received[0] }) })
  })
})

describe('what only shows when the first model is loaded', () => {
  it('rejects that load: a flag that worker threads do not take', async () => {
    const engine = new InferenceEngine({ executor: 'binding', workers: { execArgv: ['--no-such-flag'] } })
    const error = await rejectionOf(() => engine.load('good', { path: identity('float32') }))
    expectRefusal(error, { code: 'ERR_MODEL_LOAD', argument: 'workers' })
    await engine.close()
  })

  it('rejects that load: shared memory asked for where ONNX Runtime refuses it', async () => {
    const engine = new InferenceEngine({ staging: { kind: 'shared' } })
    const outcome = await engine.load('good', { path: identity('float32') }).then(
      ({ state }) => state,
      (error: { code: string }) => error.code,
    )
    expect(outcome).toBe(Number(process.versions.node.split('.')[0]) < 22 ? 'ERR_NATIVE_LOAD' : 'ready')
    await engine.close()
  })
})

describe('close', () => {
  const bad: [what: string, options: unknown, argument: string][] = [
    ['null', null, 'options'],
    ['a number', 5, 'options'],
    ['a negative timeoutMs', { timeoutMs: -1 }, 'options.timeoutMs'],
    ['timeoutMs of NaN', { timeoutMs: NaN }, 'options.timeoutMs'],
    ['timeoutMs as text', { timeoutMs: '5' }, 'options.timeoutMs'],
    ['an unknown option', { timeout: 5 }, 'options.timeout'],
  ]
  it.each(bad)('rejects and leaves the engine open for %s', async (_, options, argument) => {
    const engine = new InferenceEngine()
    expectRefusal(await rejectionOf(() => engine.close(options as CloseOptions)), { argument })
    const model = await engine.load('good', { path: identity('float32') })
    expect(model.state).toBe('ready')
    await engine.close()
  })
})

describe('infer options', () => {
  let bench: Bench
  beforeAll(async () => void (bench = await benchOfTwoInputs()))
  afterAll(() => bench.engine.close())
  expectNoWarnings()

  const feeds = { a: new Float32Array(4), b: new BigInt64Array(1) }
  const infer = (options: unknown) => bench.model.infer(feeds, options as InferOptions)

  const timeout = { argument: 'options.timeoutMs' }
  const outputs = { argument: 'options.outputs' }
  type Case = [what: string, options: unknown, refusal: Refusal]

  const cases: Case[] = [
    ['null', null, { argument: 'options', received: null }],
    ['a number', 5, { argument: 'options', received: 5 }],
    ['an array', [], { argument: 'options' }],
    [
      'a signal instead of options',
      new AbortController().signal,
      { argument: 'options', expected: /a plain object/ },
    ],
    [
      'an unknown option',
      { timeout: 5 },
      { argument: 'options.timeout', expected: /timeoutMs/, received: 'timeout' },
    ],
    ['timeoutMs of 0', { timeoutMs: 0 }, { ...timeout, received: 0 }],
    ['a negative timeoutMs', { timeoutMs: -1 }, { ...timeout, received: -1 }],
    ['timeoutMs of NaN', { timeoutMs: NaN }, { ...timeout, received: NaN }],
    ['an infinite timeoutMs', { timeoutMs: Infinity }, { ...timeout, received: Infinity }],
    ['timeoutMs as text', { timeoutMs: '100' }, { ...timeout, received: '100' }],
    ['timeoutMs of null', { timeoutMs: null }, { ...timeout, received: null }],
    ['timeoutMs that no timer can keep', { timeoutMs: 2 ** 31 }, timeout],
    [
      'a signal of another kind',
      { signal: { aborted: false } },
      { argument: 'options.signal', expected: /AbortSignal/ },
    ],
    ['a controller for a signal', { signal: new AbortController() }, { argument: 'options.signal' }],
    [
      'what only inherits from a signal',
      { signal: Object.create(AbortSignal.prototype) as AbortSignal },
      { argument: 'options.signal' },
    ],
    [
      'a proxy of a signal',
      { signal: new Proxy(new AbortController().signal, {}) },
      { argument: 'options.signal' },
    ],
    ['a signal of null', { signal: null }, { argument: 'options.signal', received: null }],
    ['no outputs', { outputs: [] }, { ...outputs, received: [] }],
    ['an unknown output', { outputs: ['y', 'z'] }, { ...outputs, expected: /'y'/, received: 'z' }],
    ['an output twice', { outputs: ['y', 'y'] }, { ...outputs, expected: /each name once/, received: 'y' }],
    ['outputs as text', { outputs: 'y' }, { ...outputs, received: 'y' }],
    ['an output by index', { outputs: [0] }, { ...outputs, received: 0 }],
    ['outputs as an object', { outputs: { y: null } }, outputs],
    ['a requestId of a number', { requestId: 7 }, { argument: 'options.requestId', received: 7 }],
  ]

  describe('a request is refused alone when its options are wrong', () => {
    it.each(cases)('%s', (_, options, refusal) => refusedAmongGoodOnes(bench, () => infer(options), refusal))
  })

  describe('an aborted signal', () => {
    it('rejects with its own reason when it was aborted before', async () => {
      const reason = { why: 'changed my mind' }
      expect(await keepsGoodOnesWell(bench, () => infer({ signal: AbortSignal.abort(reason) }))).toBe(reason)
    })

    it('rejects with an AbortError when it has no reason of its own', async () => {
      const error = await keepsGoodOnesWell(bench, () => infer({ signal: AbortSignal.abort() }))
      expect(error).toMatchObject({ name: 'AbortError' })
    })

    it('takes its request out of the batch that is being gathered', async () => {
      const controller = new AbortController()
      const abort = () => {
        const call = infer({ signal: controller.signal })
        controller.abort('withdrawn')
        return call
      }
      expect(await keepsGoodOnesWell(bench, abort, true)).toBe('withdrawn')
    })
  })

  describe('a name the engine does not know', () => {
    const names: [what: string, name: unknown, received?: unknown][] = [
      ['of no model', 'three'],
      ["of an object's own making", '__proto__'],
      ['that is empty', ''],
      ['that is undefined', undefined],
      ['that is an object', {}, 'an instance of Object'],
    ]

    it.each(names)('is refused: one %s', async (_, name, received = name) => {
      const refusal: Refusal = { code: 'ERR_MODEL_NOT_FOUND', argument: 'name', expected: /'two'/, received }
      await refusedAmongGoodOnes(bench, () => bench.engine.infer(name as string, feeds), refusal)
    })

    it('cannot be unloaded either', async () => {
      expect(await rejectionOf(() => bench.engine.unload('three'))).toMatchObject({
        code: 'ERR_MODEL_NOT_FOUND',
        received: 'three',
      })
    })
  })
})

describe('model config', () => {
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
        { path, instanceGroup: Array.from({ length: 10_000 }, () => ({ count: 1 })) },
        'instanceGroup',
        10_000,
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
      [
        'a kind that there is not',
        { path, instanceGroup: [{ kind: 'tpu' }] },
        'instanceGroup[0].kind',
        'tpu',
      ],
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
    expect(await rejectionOf(async () => new InferenceEngine({ threads: 4 } as EngineOptions))).toMatchObject(
      {
        expected: expect.stringMatching(/^one of .*cpuWorkers/),
      },
    )
  })
})
