import { describe, expect, it } from 'vitest'
import { InferenceEngine, type CloseOptions, type EngineOptions } from '../../src/index.ts'
import { identity } from '../models/small.ts'
import { expectNoWarnings, expectRefusal, rejectionOf } from './refusal.ts'

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
    const engine = new InferenceEngine({ workers: { execArgv: ['--no-such-flag'] } })
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
