import { copyFileSync, readdirSync, readFileSync, rmSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { ModelPreparation } from '../../src/models/compiled-models/model-preparation.ts'
import { resolveCache, resolveVerify } from '../../src/options/engine-options.ts'
import type { ModelRuntime } from '../../src/options/session-options.ts'
import { resolveConfig } from '../../src/options/model-config.ts'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { InferenceEngine, type ModelConfig, type ModelOptions } from '../../src/index.ts'
import { WorkerSession } from '../../src/run/worker-session.ts'
import { decided } from '../support/decided.ts'
import { modelsCompiled } from '../../src/engine/engine-resources.ts'
import { describeNative, runsInPlace } from '../support/native.ts'
import { until } from '../support/until.ts'
import { cachedLoad, compiledFolder, entriesIn, ownFolder, plainLoad } from './cached.ts'
import { perceptron, perceptronOutside, row, unfollowed } from './models.ts'

const ort = openNativeOrt()
const runtime = {
  executor: runsInPlace ? 'native' : 'binding', // as engines are by default
  ortVersion: ort.version ?? '',
  onCpuOnly: true,
} as const
const options = (dir: string) =>
  ({
    cache: resolveCache({ dir }),
    verify: 'none',
    verifyTimeoutMs: undefined,
    providers: [],
    workers: {},
  }) as const

describe('a model that was loaded before', () => {
  it.each([
    ['in a file', () => ({ path: perceptron() })],
    ['in a file with weights beside it', () => ({ path: perceptronOutside() })],
    ['in memory', () => ({ bytes: readFileSync(perceptron()) })],
  ])('is opened in its compiled form, and answers as it is (%s)', async (_, config) => {
    const dir = ownFolder()
    const first = await cachedLoad(dir, config())
    const second = await cachedLoad(dir, config())
    const expected = await plainLoad(config())
    expect([first.y, second.y]).toEqual([expected, expected])
    expect([first.origin.compiled, second.origin.compiled]).toEqual([true, true])
    expect(entriesIn(dir).length).toBe(1)
    expect(second.cache).toMatchObject({ enabled: true, dir: join(dir, 'compiled-models-v1') })
  })

  it('is the same model wherever its file lies', async () => {
    const [dir, folder] = [await compiledFolder(), ownFolder()]
    copyFileSync(perceptron(), join(folder, 'elsewhere.onnx'))
    expect(
      (await cachedLoad(dir, { path: join(folder, 'elsewhere.onnx') }, { verify: 'none' })).origin.compiled,
    ).toBe(true)
  })

  it.each([
    ['its graph has said of its rows, nor is that read', perceptron, 'proved', 'proof '],
    ['runs have shown of them', unfollowed, 'checked', 'checked '],
  ] as const)('is not run to find out again what %s', async (_, path, how, note) => {
    const dir = ownFolder()
    const config: ModelConfig = { path: path(), warmup: [{ feeds: { x: row() } }] }
    const joining = async () => {
      const engine = new InferenceEngine({ cache: { dir }, verify: 'child' })
      const model = await engine.load('model', config)
      await decided(model)
      await modelsCompiled(engine)
      await engine.close()
      return model.metadata.joining
    }
    const first = await joining()
    expect(first).toMatchObject({ rows: 'independent', how })
    const notes = join(dir, 'compiled-models-v1', 'notes')
    const written = () =>
      readdirSync(notes)
        .filter((name) => name.endsWith('.json')) // others are still being written
        .some((name) => readFileSync(join(notes, name), 'utf8').includes(`"${note}`))
    await until(written) // nobody waits for it
    const asked = vi.spyOn(WorkerSession.prototype, 'prove').mockClear()
    const runs = vi.spyOn(WorkerSession.prototype, 'runSample').mockClear()
    expect(await joining()).toEqual(first)
    expect([asked.mock.calls.length, runs.mock.calls.length]).toEqual([0, 1]) // the sample of the user
    vi.restoreAllMocks()
  })

  it('keeps what all of its loads have learnt, in whichever order they do', async () => {
    const dir = await compiledFolder()
    const preparation = new ModelPreparation(options(dir))
    const prepare = () =>
      preparation.prepare(
        'model',
        resolveConfig('model', { path: perceptron() }),
        () => runtime,
        new AbortController().signal,
      )
    const [one, other] = await Promise.all([prepare(), prepare()])
    for (let at = 0; at < 5; at++) {
      one!.learnt({ [`one ${at}`]: '1' })
      other!.learnt({ [`other ${at}`]: '1' })
    }
    const notes = join(dir, 'compiled-models-v1', 'notes')
    const written = () =>
      readdirSync(notes)
        .filter((name) => name.endsWith('.json'))
        .flatMap((name) => readFileSync(join(notes, name), 'utf8').match(/(one|other) \d/g) ?? [])
    await until(() => written().length === 10) // nobody waits for it
  })

  it('is served on by another thread when its compiled form is gone', async () => {
    const dir = ownFolder()
    await cachedLoad(dir, { path: perceptron() }, { executor: 'binding' })
    const engine = new InferenceEngine({
      cache: { dir },
      verify: 'child',
      executor: 'binding',
      cpuWorkers: 1,
    })
    const threads: { terminate(): Promise<number> }[] = []
    const note = (thread: { terminate(): Promise<number> }) => void threads.push(thread)
    process.on('worker', note)
    const model = await engine.load('model', { path: perceptron() })
    process.off('worker', note)
    for (const entry of entriesIn(dir)) rmSync(entry, { recursive: true })
    await threads.at(-1)!.terminate()
    const { y } = await model.infer({ x: row() })
    expect([...(y as { data: Float32Array }).data]).toEqual(await plainLoad({ path: perceptron() }))
    expect(engine.capabilities().cache.models['model']).toMatchObject({ compiled: false })
    await engine.close()
  })
})

describe('another entry is made for', () => {
  async function isKnown(
    dir: string,
    config: ModelOptions,
    other: Partial<ModelRuntime> = {},
  ): Promise<boolean> {
    const preparation = new ModelPreparation(options(dir))
    const resolved = resolveConfig('model', { path: perceptron(), ...config })
    const { origin } = await preparation.prepare(
      'model',
      resolved,
      () => ({ ...runtime, ...other }),
      new AbortController().signal,
    )
    return origin.compiled
  }

  describeNative('(with the native executor)', () => {
    it('another version of ONNX Runtime, and what changes the graph', async () => {
      const dir = await compiledFolder()
      const same = await Promise.all([
        isKnown(dir, {}),
        isKnown(dir, {
          sessionOptions: {
            intraOpNumThreads: 1,
            enableCpuMemArena: false,
            logId: 'mine',
            extra: { 'session.intra_op.allow_spinning': '1' },
          },
        }),
        isKnown(dir, { maxBatchSize: 4, warmup: false, instanceGroup: [{ kind: 'cpu', count: 3 }] }),
      ])
      const others = await Promise.all([
        isKnown(dir, {}, { ortVersion: '1.29.0' }),
        isKnown(dir, {}, { executor: runsInPlace ? 'binding' : 'native' }),
        isKnown(dir, { sessionOptions: { graphOptimizationLevel: 'basic' } }),
        isKnown(dir, { sessionOptions: { freeDimensionOverrides: { N: 1 } } }),
        isKnown(dir, { sessionOptions: { extra: { 'session.disable_prepacking': '1' } } }),
      ])
      expect([same, others]).toEqual([
        [true, true, true],
        [false, false, false, false, false],
      ])
    })
  })

  it.each([
    [
      'a graph that is written elsewhere',
      { sessionOptions: { optimizedModelFilePath: '/nowhere/model.onnx' } },
      'optimizedModelFilePath',
    ],
    ['a profile', { sessionOptions: { enableProfiling: true, profileFilePrefix: 'x' } }, 'profiled'],
    [
      'external data in memory',
      { sessionOptions: { externalData: [{ path: 'w', data: new Uint8Array(1) }] } },
      'in memory',
    ],
  ] as const)('but none with %s, which says why', async (_, config, why) => {
    const dir = ownFolder()
    const preparation = new ModelPreparation({ ...options(dir), verify: 'child' })
    const resolved = resolveConfig('model', { path: perceptron(), ...config })
    const { origin } = await preparation.prepare(
      'model',
      resolved,
      () => runtime,
      new AbortController().signal,
    )
    expect(origin.compiled).toBe(false)
    expect(origin.reason).toContain(why)
  })
})

describe('a cache that grows over its limit', () => {
  const bytes = (entry: string) =>
    ['model.onnx', 'model.weights', 'manifest.json'].reduce(
      (sum, file) => sum + statSync(join(entry, file)).size,
      0,
    )

  it('loses what was not used for the longest time', async () => {
    const dir = ownFolder()
    const names: string[] = []
    for (const seed of [1, 2]) {
      await cachedLoad(dir, { path: perceptron(seed) })
      const name = entriesIn(dir).find((entry) => !names.includes(entry))!
      names.push(name)
      const used = join(dir, 'compiled-models-v1', 'used', name.split('/').at(-1)!)
      const longAgo = new Date(Date.now() - 3_600_000 * (3 - seed))
      utimesSync(used, longAgo, longAgo)
    }
    await cachedLoad(dir, { path: perceptron(1) }) // used again
    const maxBytes = Math.ceil(2.5 * bytes(names[0]!))
    await cachedLoad(dir, { path: perceptron(3) }, { cache: { maxBytes } })
    const left = entriesIn(dir)
    expect([left.length, left.includes(names[0]!), left.includes(names[1]!)]).toEqual([2, true, false])
  })

  it('loses what was used at a time that has not come yet, as before a clock was set right', async () => {
    const dir = await compiledFolder()
    const [ahead] = entriesIn(dir)
    const nextYear = new Date(Date.now() + 365 * 24 * 3_600_000)
    utimesSync(join(dir, 'compiled-models-v1', 'used', ahead!.split('/').at(-1)!), nextYear, nextYear)
    const { origin } = await cachedLoad(
      dir,
      { path: perceptron(2) },
      { cache: { maxBytes: Math.ceil(1.5 * bytes(ahead!)) } },
    )
    expect([origin.compiled, entriesIn(dir).length, entriesIn(dir).includes(ahead!)]).toEqual([
      true,
      1,
      false,
    ])
  })

  it('does not take in a model that is larger than it, and says so; a larger cache does', async () => {
    const dir = ownFolder()
    const small = await cachedLoad(dir, { path: perceptron() }, { cache: { maxBytes: 1000 } })
    expect(small.origin).toMatchObject({
      compiled: false,
      reason: expect.stringContaining('cache.maxBytes is 1000') as string,
    })
    expect((await cachedLoad(dir, { path: perceptron() })).origin.compiled).toBe(true)
  })
})

describe('the environment', () => {
  it('says where the cache is, and whether models are tried, where the options do not', () => {
    expect(resolveCache(undefined, 'off')).toBe(null)
    expect(resolveCache(undefined, '/somewhere')?.dir).toBe('/somewhere')
    expect(resolveCache({ dir: '/else' }, '/somewhere')?.dir).toBe('/else')
    expect(resolveCache({ maxBytes: 5 }, 'off')).toEqual({ dir: null, maxBytes: 5 })
    expect(resolveCache(false, '/somewhere')).toBe(null)
    expect([
      resolveVerify(undefined, 'none'),
      resolveVerify(undefined, ''),
      resolveVerify('child', 'none'),
    ]).toEqual(['none', 'child', 'child'])
  })
})
