import { checkConnectOptions, checkServeOptions } from '../../src/adapters/processes/process-options.ts'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runInNewContext } from 'node:vm'
import type { InferenceSession } from 'onnxruntime-common'
import { describe, expect, it } from 'vitest'
import { InferenceError } from '../../src/errors.ts'
import { resolveEngineOptions } from '../../src/options/engine-options.ts'
import { resolveFunctionConfig } from '../../src/options/function-config.ts'
import { checkInferOptions } from '../../src/options/infer-options.ts'
import { checkLoadOptions } from '../../src/options/method-options.ts'
import { checkBatchSizes, resolveConfig } from '../../src/options/model-config.ts'
import { resolvePipelineConfig } from '../../src/options/pipeline-config.ts'
import { secondSession, sessionOptions, type SessionRuntime } from '../../src/options/session-options.ts'

describe('a preferred batch size above maxBatchSize', () => {
  const dynamicBatching = { preferredBatchSize: [8, 64] }

  it('is refused with the advice to give maxBatchSize where that is found by the check', () => {
    const config = resolveConfig('m', { path: 'm.onnx', dynamicBatching })
    expect(() => checkBatchSizes('m', config, 32)).toThrow(
      'sizes of at most maxBatchSize (32), received 64 (number). Give maxBatchSize for larger batches',
    )
  })

  it('is refused without it where maxBatchSize was given', () => {
    expect(() => resolveConfig('m', { path: 'm.onnx', maxBatchSize: 32, dynamicBatching })).toThrow(
      /received 64 \(number\)$/,
    )
  })
})

describe('sizes and delays of batches', () => {
  const dynamicBatching = { preferredBatchSize: [8, 64], maxQueueDelayMs: 5 }

  it('do no harm to a model that turns out to have no batches', () => {
    expect(() =>
      checkBatchSizes('m', resolveConfig('m', { path: 'm.onnx', dynamicBatching }), 0),
    ).not.toThrow()
  })

  it('are refused beside a maxBatchSize of 0', () => {
    expect(() => resolveConfig('m', { path: 'm.onnx', maxBatchSize: 0, dynamicBatching })).toThrow(
      /\(0\), received 64 \(number\)$/,
    )
    expect(() =>
      resolveConfig('m', { path: 'm.onnx', maxBatchSize: 0, dynamicBatching: { maxQueueDelayMs: 5 } }),
    ).toThrow(/expected 0 where maxBatchSize is 0, received 5/)
  })

  it.each([Infinity, -1, 2 ** 31])('say what a delay may be where it is %d', (maxQueueDelayMs) => {
    expect(() => resolveConfig('m', { path: 'm.onnx', dynamicBatching: { maxQueueDelayMs } })).toThrow(
      /^dynamicBatching.maxQueueDelayMs of model 'm': expected milliseconds, at least 0 and less than 2\^31, received/,
    )
  })
})

const path = 'model.onnx'
const metadata = {
  name: 'm',
  path,
  inputs: [],
  outputs: [{ name: 'y', type: 'float32', shape: [] }],
  properties: null,
  unservableOutputs: [],
  executionProviders: [],
  maxBatchSize: 0,
  joining: { rows: 'unknown', how: 'unknown', largestDifference: null, reason: '' },
} as const

function errorOf(call: () => unknown): InferenceError {
  try {
    call()
  } catch (error) {
    expect(error).toBeInstanceOf(InferenceError)
    return error as InferenceError
  }
  throw new Error('it was not refused')
}

class Options {}
const notPlain: [what: string, value: unknown][] = [
  ['an array', []],
  ['a Map', new Map()],
  ['a Set', new Set()],
  ['a Date', new Date(0)],
  ['an instance of a class', new Options()],
  ['a function', () => ({})],
  ['a boxed number', Object(1)],
  ['an Error', new Error('options')],
  ['what inherits options', Object.create({ kind: 'cpu' })],
  ['a typed array', new Uint8Array(1)],
]

const places: [name: string, config: (value: unknown) => unknown][] = [
  ['config', (value) => value],
  ['dynamicBatching', (value) => ({ path, dynamicBatching: value })],
  [
    'dynamicBatching.defaultQueuePolicy',
    (value) => ({ path, dynamicBatching: { defaultQueuePolicy: value } }),
  ],
  [
    'dynamicBatching.priorityQueuePolicy',
    (value) => ({ path, dynamicBatching: { priorityQueuePolicy: value } }),
  ],
  [
    'dynamicBatching.priorityQueuePolicy.1',
    (value) => ({ path, dynamicBatching: { priorityLevels: 2, priorityQueuePolicy: { 1: value } } }),
  ],
  ['instanceGroup[0]', (value) => ({ path, instanceGroup: [value] })],
  ['sessionOptions', (value) => ({ path, sessionOptions: value })],
  ['sessionOptions.extra', (value) => ({ path, sessionOptions: { extra: value } })],
  ['sessionOptions.extra.session', (value) => ({ path, sessionOptions: { extra: { session: value } } })],
  ['executionProviders[0]', (value) => ({ path, executionProviders: [value] })],
  ['warmup[0]', (value) => ({ path, warmup: [value] })],
  ['warmup[0].feeds', (value) => ({ path, warmup: [{ feeds: value }] })],
  ['padding', (value) => ({ path, padding: [value] })],
]

describe.each(places)('the configuration at %s', (name, configWith) => {
  it.each(notPlain)('is refused when it is %s', (_, value) => {
    const { code, argument, expected } = errorOf(() => resolveConfig('m', configWith(value)))
    expect(code).toBe('ERR_MODEL_CONFIG')
    expect(argument).toContain(name)
    expect(String(expected)).toMatch(/plain object|a string, as all values in extra/)
  })
})

describe.each<[string, (value: unknown) => unknown]>([
  ['options', (value) => value],
  ['options.staging', (value) => ({ staging: value })],
  ['options.workers', (value) => ({ workers: value })],
  ['options.workers.resourceLimits', (value) => ({ workers: { resourceLimits: value } })],
  ['options.workers.env', (value) => ({ workers: { env: value } })],
])("the engine's %s", (name, optionsWith) => {
  it.each(notPlain)('is refused when it is %s', (_, value) => {
    expect(errorOf(() => resolveEngineOptions(optionsWith(value)))).toMatchObject({
      argument: name,
      expected: 'a plain object',
    })
  })
})

describe('options', () => {
  it('may be without a prototype, of another realm, or a module', () => {
    const bare = Object.assign(Object.create(null) as object, { path, maxBatchSize: 4 })
    const foreign: unknown = runInNewContext(
      '({ path: "model.onnx", maxBatchSize: 4, dynamicBatching: { maxQueueDelayMs: 2 } })',
    )
    expect(resolveConfig('m', bare).maxBatchSize).toBe(4)
    expect(resolveConfig('m', foreign)).toMatchObject({ maxBatchSize: 4, maxQueueDelayMs: 2 })
    expect(checkInferOptions(Object.create(null), metadata).report).toBe(false)
  })

  it('are read once each', () => {
    const reads: string[] = []
    const counted = <T extends object>(values: T): T =>
      Object.defineProperties(
        {},
        Object.fromEntries(
          Object.entries(values).map(([name, value]) => [
            name,
            { enumerable: true, get: () => (reads.push(name), value as unknown) },
          ]),
        ),
      ) as T
    resolveConfig(
      'm',
      counted({
        path,
        maxBatchSize: 8,
        dynamicBatching: counted({
          preferredBatchSize: [4],
          maxQueueDelayMs: 1,
          defaultQueuePolicy: counted({ maxQueueSize: 3 }),
        }),
        instanceGroup: [counted({ kind: 'cpu', count: 2 })],
        sessionOptions: counted({ logId: 'me', extra: counted({ session: counted({ flag: '1' }) }) }),
        executionProviders: [counted({ name: 'cpu', threads: 2 })],
        warmup: [counted({ feeds: counted({ x: new Float32Array(1) }) })],
        padding: counted({ input: 'x', dim: 1, sizes: [8] }),
      }),
    )
    resolveEngineOptions(
      counted({
        cpuWorkers: 2,
        staging: counted({ limitBytes: 5 }),
        workers: counted({ env: counted({ A: 'b' }) }),
      }),
    )
    checkInferOptions(counted({ timeoutMs: 5, outputs: ['y'] }), metadata)
    expect(reads.filter((name, index) => reads.indexOf(name) !== index)).toEqual([])
    expect(reads.length).toBeGreaterThan(25)
  })

  it('whose reading throws are refused with that as the cause', () => {
    const thrown = new Error('from a getter')
    const throwing = {
      get path(): string {
        throw thrown
      },
    }
    const proxy = new Proxy(
      {},
      {
        ownKeys: () => {
          throw thrown
        },
      },
    )
    const { proxy: revoked, revoke } = Proxy.revocable({}, {})
    revoke()
    for (const value of [throwing, proxy]) {
      expect(errorOf(() => resolveConfig('m', value))).toMatchObject({
        code: 'ERR_INVALID_ARG',
        argument: 'config',
        cause: thrown,
      })
      expect(errorOf(() => resolveConfig('m', { path, instanceGroup: [value] }))).toMatchObject({
        code: 'ERR_INVALID_ARG',
        cause: thrown,
      })
      expect(errorOf(() => resolveConfig('m', { path, sessionOptions: { extra: value } }))).toMatchObject({
        code: 'ERR_INVALID_ARG',
        cause: thrown,
      })
      expect(errorOf(() => resolveEngineOptions(value))).toMatchObject({
        code: 'ERR_INVALID_ARG',
        argument: 'options',
        cause: thrown,
      })
    }
    for (const value of [
      {
        get timeoutMs(): number {
          throw thrown
        },
      },
      proxy,
    ]) {
      expect(errorOf(() => checkInferOptions(value, metadata))).toMatchObject({
        code: 'ERR_INVALID_ARG',
        argument: 'options',
        cause: thrown,
      })
    }
    for (const read of [
      () => resolveConfig('m', revoked),
      () => resolveEngineOptions(revoked),
      () => checkInferOptions(revoked, metadata),
      () => checkInferOptions({ outputs: revoked }, metadata),
      () => resolveConfig('m', { path, optionalInputs: revoked }),
    ]) {
      expect(errorOf(read)).toMatchObject({ code: 'ERR_INVALID_ARG', cause: expect.any(TypeError) })
    }
  })

  it('have bounded messages where a model has many outputs', () => {
    const outputs = Array.from(
      { length: 10_000 },
      (_, index) => ({ name: `output-${index}`, type: 'float32', shape: [] }) as const,
    )
    const { message } = errorOf(() => checkInferOptions({ outputs: ['z'] }, { ...metadata, outputs }))
    expect(message).toContain('9990 more')
    expect(message.length).toBeLessThan(500)
  })
})

describe('options that are no object, or no limit, are answered with what to write', () => {
  it.each<[what: string, call: () => unknown, message: string]>([
    ['a path for a model', () => resolveConfig('m', 'model.onnx'), "config of model 'm': expected a plain object, as { path: 'model.onnx' }, received 'model.onnx'"],
    ['a path for a server', () => checkServeOptions('/folder/socket'), "options: expected a plain object, as { path: '/folder/socket' }, received '/folder/socket'"],
    ['a module to spawn', () => checkConnectOptions('/folder/socket', { spawn: './m.mjs' }), "options.spawn: expected a plain object, as { module: './engine.js' }, received './m.mjs'"],
    ['an endless queue', () => resolveConfig('m', { path, dynamicBatching: { defaultQueuePolicy: { maxQueueSize: Infinity } } }), "dynamicBatching.defaultQueuePolicy.maxQueueSize of model 'm': expected a whole number, 0 for no limit, received Infinity (number)"],
    ['an endless default timeout', () => resolveConfig('m', { path, dynamicBatching: { defaultQueuePolicy: { defaultTimeoutMs: Infinity } } }), "dynamicBatching.defaultQueuePolicy.defaultTimeoutMs of model 'm': expected milliseconds, 0 for no limit and less than 2^31, received Infinity (number)"],
    ['an endless timeout', () => checkInferOptions({ timeoutMs: Infinity }, metadata), "options.timeoutMs of model 'm': expected milliseconds, more than 0 and less than 2^31, received Infinity (number). Leave it out for no limit"],
  ])('%s', (_, call, message) => {
    expect(errorOf(call).message).toBe(message)
  }) // prettier-ignore
})

describe('a misspelt option', () => {
  it.each<[where: string, call: () => unknown, message: string]>([
    ['of an engine', () => resolveEngineOptions({ cpuWorker: 1 }), 'options.cpuWorker: did you mean cpuWorkers? Expected one of cpuWorkers, '],
    ['of a part of an engine', () => resolveEngineOptions({ inline: { maxMs: 1 } }), 'options.inline.maxMs: did you mean maxUs? Expected one of maxUs, loopShare'],
    ['of a model', () => resolveConfig('m', { path, maxbatchsize: 1 }), "maxbatchsize of model 'm': did you mean maxBatchSize? Expected one of path, "],
    ['of a part of a model', () => resolveConfig('m', { path, dynamicBatching: { maxQueueDelay: 1 } }), "dynamicBatching.maxQueueDelay of model 'm': did you mean maxQueueDelayMs? Expected one of "],
    ['of an entry of a list', () => resolveConfig('m', { path, instanceGroup: [{ cout: 1 }] }), "instanceGroup[0].cout of model 'm': did you mean count? Expected one of "],
    ['of a session', () => resolveConfig('m', { path, sessionOptions: { intraOpThreads: 1 } }), "sessionOptions.intraOpThreads of model 'm': did you mean intraOpNumThreads? Expected one of "],
    ['of a function', () => resolveFunctionConfig('m', { module: path, inputs: [], outputs: [], concurency: 1 }, {}), "concurency of model 'm': did you mean concurrency? Expected one of "],
    ['of a step of a pipeline', () => resolvePipelineConfig('m', { inputs: ['x'], outputs: ['y'], steps: [{ modle: 'a' }] }), "steps[0].modle of model 'm': did you mean model? Expected one of "],
    ['of a call', () => checkInferOptions({ timeout: 1 }, metadata), "options.timeout of model 'm': did you mean timeoutMs? Expected one of signal, timeoutMs, "],
    ['of another method', () => checkLoadOptions({ singal: 1 }), 'options.singal: did you mean signal? Expected one of signal, '],
  ])('%s is answered with the name that was meant', (_, call, message) => {
    expect(errorOf(call).message.slice(0, message.length)).toBe(message)
  }) // prettier-ignore

  it.each<[what: string, call: () => unknown, message: string]>([
    ['deeper', () => resolveConfig('m', { path, maxQueueSize: 9 }), "maxQueueSize of model 'm': did you mean dynamicBatching.defaultQueuePolicy.maxQueueSize? Expected one of path, "],
    ['deeper, in one of two groups', () => resolveConfig('m', { path, maxQueueDelayMs: 9 }), "maxQueueDelayMs of model 'm': did you mean dynamicBatching.maxQueueDelayMs? Expected one of path, "],
    ['deeper in its group', () => resolveConfig('m', { path, dynamicBatching: { maxQueueSize: 9 } }), "dynamicBatching.maxQueueSize of model 'm': did you mean dynamicBatching.defaultQueuePolicy.maxQueueSize? Expected one of preferredBatchSize, "],
    ['less deep', () => resolveConfig('m', { path, dynamicBatching: { maxBatchSize: 9 } }), "dynamicBatching.maxBatchSize of model 'm': did you mean maxBatchSize, outside dynamicBatching? Expected one of preferredBatchSize, "],
    ['in a list', () => resolveConfig('m', { path, count: 2 }), "count of model 'm': did you mean instanceGroup[0].count? Expected one of path, "],
    ['in a group of an engine', () => resolveEngineOptions({ limitBytes: 9 }), 'options.limitBytes: did you mean staging.limitBytes? Expected one of cpuWorkers, '],
  ])('that belongs %s is answered with its place', (_, call, message) => {
    expect(errorOf(call).message.slice(0, message.length)).toBe(message)
  }) // prettier-ignore

  it('that is like no other is answered with all names', () => {
    expect(errorOf(() => resolveEngineOptions({ colour: 1 })).message).toMatch(
      /^options\.colour: expected one of cpuWorkers, .*, received 'colour'$/,
    )
  })
})

const placement = { kind: 'cpu', gpu: 0, intraOpNumThreads: 2 } as const
const runtime: SessionRuntime = { ortVersion: '1.30.0', useProvider: (entry) => entry }
const extraOf = (extra: unknown, ortVersion = '1.30.0') =>
  sessionOptions(resolveConfig('m', { path: 'm.onnx', sessionOptions: { extra } }), placement, {
    ...runtime,
    ortVersion,
  }).extra
const spinning = 'session.intra_op.allow_spinning'
const spinUs = 'session.intra_op.spin_duration_us'

describe('the second session of a model', () => {
  const megabyte = 2 ** 20
  const second = (options: object, cores: number, compiledBytes = 100 * megabyte, memory = {}) =>
    secondSession(
      resolveConfig('m', { path: 'm.onnx', sessionOptions: options, memory }),
      { ...placement, cores },
      compiledBytes,
    )

  it('has all cores where its instances have a part of them', () => {
    const lone = { secondThreads: 4, secondFor: 'lone requests' }
    expect(second({}, 4)).toEqual(lone)
    expect(second({}, 4, megabyte)).toEqual(lone)
  })

  it('has one thread where its instances have all cores, and it is small', () => {
    expect(second({}, 2, megabyte)).toEqual({ secondThreads: 1, secondFor: 'short runs' })
    expect(second({}, 2)).toEqual({})
  })

  it('is not there on one core, nor on another device', () => {
    const of = { ...placement, intraOpNumThreads: 1 }
    const config = resolveConfig('m', { path: 'm.onnx' })
    for (const cores of [0, 1]) expect(secondSession(config, { ...of, cores }, megabyte)).toEqual({})
    expect(secondSession(config, of, megabyte)).toEqual({})
  })

  it('is not there where the application says how many threads a run has', () => {
    expect(second({ intraOpNumThreads: 1 }, 4)).toEqual({})
    expect(second({ intraOpNumThreads: 2 }, 2, megabyte)).toEqual({})
  })

  it('is not there where the memory that is kept is limited', () => {
    expect(second({}, 4, megabyte, { limitBytes: megabyte })).toEqual({})
  })
})

describe('sessionOptions.extra', () => {
  it.each([
    ['in groups', { session: { intra_op: { allow_spinning: '1' } } }],
    ['by its full name', { [spinning]: '1' }],
    ['in part as one, in part as the other', { 'session.intra_op': { allow_spinning: '1' } }],
    ['twice with the same value', { [spinning]: '1', session: { intra_op: { allow_spinning: '1' } } }],
  ])('overrides a default of this library when it is given %s', (_, extra) => {
    expect(extraOf(extra)).toEqual({ [spinning]: '1' })
  })

  it('keeps the default beside other entries', () => {
    expect(extraOf({ session: { dynamic_block_base: '4' }, 'ep.context_enable': '0' })).toEqual({
      [spinning]: '1',
      [spinUs]: '20',
      'session.dynamic_block_base': '4',
      'ep.context_enable': '0',
    })
    expect(extraOf({ [spinUs]: '5' })).toEqual({ [spinning]: '1', [spinUs]: '5' })
  })

  it.each(['1.25.1', '0.9', 'unknown'])(
    'lets no threads spin where ONNX Runtime (%s) would not know for how long',
    (version) => {
      expect(extraOf({}, version)).toEqual({ [spinning]: '0' })
    },
  )

  it.each(['1.26.0', '1.30.0', '2.0.0'])('lets them spin for a moment where it does (%s)', (version) => {
    expect(extraOf({}, version)).toEqual({ [spinning]: '1', [spinUs]: '20' })
  })

  it('names an entry that ONNX Runtime knows: of others it says nothing', () => {
    const { version } = createRequire(import.meta.url)('onnxruntime-node/package.json') as { version: string }
    const folder = fileURLToPath(
      new URL(
        `../../node_modules/onnxruntime-node/bin/napi-v6/${process.platform}/${process.arch}/`,
        import.meta.url,
      ),
    )
    const libraries = readdirSync(folder).filter((file) =>
      /^(?:lib)?onnxruntime\.(?:so|dll|[\d.]*dylib)/.test(file),
    )
    const isKnown = libraries.some((file) => readFileSync(join(folder, file)).includes(spinUs))
    expect(isKnown).toBe(spinUs in extraOf({}, version)!)
  })

  it('is refused when one entry has two values, in two forms', () => {
    for (const extra of [
      { [spinning]: '1', session: { intra_op: { allow_spinning: '0' } } },
      { session: { 'intra_op.allow_spinning': '0' }, [spinning]: '1' },
    ]) {
      expect(() => extraOf(extra)).toThrow(
        expect.objectContaining({
          code: 'ERR_MODEL_CONFIG',
          argument: `sessionOptions.extra.${spinning}`,
          expected: expect.stringMatching(/^one value; it is also given as '[01]'$/),
        }),
      )
    }
  })

  it('is refused when it has no end', () => {
    const cyclic: Record<string, unknown> = {}
    cyclic['again'] = cyclic
    expect(() => extraOf(cyclic)).toThrow(
      expect.objectContaining({ code: 'ERR_MODEL_CONFIG', expected: 'groups at most 16 deep' }),
    )
  })
})

describe('sessionOptions', () => {
  const refusal = (options: object) => {
    try {
      resolveConfig('m', { path: 'm.onnx', sessionOptions: options })
    } catch (error) {
      return error as InferenceError
    }
    return expect.fail('not refused')
  }

  it.each([
    'intraOpThreads',
    'graphoptimizationlevel',
    'junk',
    'session.intra_op.allow_spinning',
    '',
    'x'.repeat(1_000_000),
    'constructor',
    '__proto__',
  ])('are refused when they have an option that ONNX Runtime would ignore: %.20s', (name) => {
    const { code, argument, message, ...error } = refusal(Object.fromEntries([[name, 1]]))
    expect({ code, expected: error.expected }).toEqual({
      code: 'ERR_MODEL_CONFIG',
      expected: expect.stringMatching(/^one of intraOpNumThreads, .*, extra$/),
    })
    expect(argument).toContain(`sessionOptions.${name.slice(0, 20)}`)
    expect(message.length).toBeLessThan(1000)
    expect(message.endsWith('belongs into sessionOptions.extra')).toBe(name.includes('.'))
  })

  it('may be every one that ONNX Runtime declares', () => {
    type Option = Exclude<keyof InferenceSession.SessionOptions, 'executionProviders'>
    const all: Record<Option, unknown> = {
      intraOpNumThreads: 1,
      interOpNumThreads: 1,
      freeDimensionOverrides: { N: 1 },
      graphOptimizationLevel: 'all',
      enableCpuMemArena: true,
      enableMemPattern: true,
      executionMode: 'parallel',
      optimizedModelFilePath: 'o.onnx',
      enableProfiling: false,
      profileFilePrefix: 'p',
      logId: 'l',
      logSeverityLevel: 4,
      logVerbosityLevel: 0,
      preferredOutputLocation: 'cpu',
      enableGraphCapture: false,
      externalData: [],
      extra: {},
    }
    expect(resolveConfig('m', { path: 'm.onnx', sessionOptions: all }).sessionOptions).toEqual(all)
  })
})

describe('numbers of threads', () => {
  it.each([1025, 2 ** 31, -1, 1.5, Number.NaN, '2', null])('are refused that no machine has: %s', (count) => {
    for (const name of ['intraOpNumThreads', 'interOpNumThreads']) {
      expect(() => resolveConfig('m', { path: 'm.onnx', sessionOptions: { [name]: count } })).toThrow(
        expect.objectContaining({
          code: 'ERR_MODEL_CONFIG',
          argument: `sessionOptions.${name}`,
          expected: 'a whole number from 0 to 1024',
        }),
      )
    }
  })

  it('may be left to ONNX Runtime', () => {
    const config = resolveConfig('m', { path: 'm.onnx', sessionOptions: { intraOpNumThreads: 0 } })
    expect(sessionOptions(config, placement, runtime).intraOpNumThreads).toBe(0)
  })
})
