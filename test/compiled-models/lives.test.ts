import { copyFileSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { ModelPreparation } from '../../src/models/compiled-models/model-preparation.ts'
import { NativeExecutor } from '../../src/run/executors/native/native-executor.ts'
import { holdsLater } from '../../src/models/warm-up.ts'
import { cudaProviderInstalled } from '../../src/run/built-in-providers.ts'
import { EngineProviders } from '../../src/run/engine-providers.ts'
import { WorkerSession } from '../../src/run/worker-session.ts'
import {
  InferenceEngine,
  type EngineOptions,
  type Model,
  type ModelConfig,
  type ModelOptions,
} from '../../src/index.ts'
import { accumulator } from '../models/accumulator.ts'
import { modelsCompiled } from '../../src/engine/engine-resources.ts'
import { describeNative } from '../support/native.ts'
import { until } from '../support/until.ts'
import { cachedLoad, compiledFolder, entriesIn, ownFolder, plainLoad } from './cached.ts'
import { loadElsewhere } from './in-processes.ts'
import { perceptron, row } from './models.ts'

afterEach(() => void vi.restoreAllMocks())

function cachedEngine(dir: string, options: EngineOptions = {}): InferenceEngine {
  const engine = new InferenceEngine({ cache: { dir }, verify: 'child', cpuWorkers: 2, ...options })
  onTestFinished(() => engine.destroy())
  return engine
}

const answerOf = async (model: Model) => {
  const { y } = await model.infer({ x: row() })
  return [...(y as { data: Float32Array }).data]
}
const compiledIn = (engine: InferenceEngine) => engine.capabilities().cache.models['model']?.compiled

describe('instances that come later', () => {
  it('are opened from the compiled form of the model that was loaded, whatever its path holds by then', async () => {
    const [dir, folder] = [await compiledFolder(), ownFolder()]
    const path = join(folder, 'model.onnx')
    copyFileSync(perceptron(1), path)
    const engine = cachedEngine(dir)
    const model = await engine.load('model', { path })
    copyFileSync(perceptron(2), path)
    await model.scale({ count: 2 })
    const answers = await Promise.all(Array.from({ length: 8 }, () => answerOf(model)))
    const expected = await plainLoad({ path: perceptron(1) })
    expect(answers.every((answer) => answer.join() === expected.join())).toBe(true)
    expect([model.capacity().instances, compiledIn(engine)]).toEqual([2, true])
  })

  it('of a model that replaces another are opened from what that was prepared as', async () => {
    const engine = cachedEngine(await compiledFolder(2))
    const model = await engine.load('model', { path: perceptron(1) })
    await engine.load('model', { path: perceptron(2), instanceGroup: [{ count: 2 }] })
    expect(await answerOf(model)).toEqual(await plainLoad({ path: perceptron(2) }))
    expect(compiledIn(engine)).toBe(true)
  })
})

describe.skipIf(cudaProviderInstalled())('a model whose first execution provider cannot be used', () => {
  it('is compiled for those that remain, and is the model that asks for no other', async () => {
    const dir = ownFolder()
    const falling = await cachedLoad(dir, { path: perceptron(), executionProviders: ['cuda', 'cpu'] })
    const plain = await cachedLoad(dir, { path: perceptron() }, { verify: 'none' })
    expect([falling.origin.compiled, plain.origin.compiled, entriesIn(dir).length]).toEqual([true, true, 1])
  })

  it('is prepared again when that turns out only as its session is opened', async () => {
    const dir = await compiledFolder()
    const prepare = vi.spyOn(ModelPreparation.prototype, 'prepare')
    const only = (is: boolean) => vi.spyOn(EngineProviders.prototype, 'leaveCpuOnly').mockReturnValueOnce(is)
    only(false)
    const lacking = vi.spyOn(EngineProviders.prototype, 'lacking').mockImplementationOnce(async () => {
      only(true)
      return true
    })
    vi.spyOn(WorkerSession.prototype, 'open').mockRejectedValueOnce(new Error('no such device'))
    const engine = cachedEngine(dir)
    const model = await engine.load('model', { path: perceptron() })
    expect([prepare.mock.calls.length, lacking.mock.calls.length, compiledIn(engine)]).toEqual([2, 1, true])
    expect(await answerOf(model)).toEqual(await plainLoad({ path: perceptron() }))
  })
})

describe('a model is tried with what is said of it', () => {
  const sequence: ModelOptions = {
    maxBatchSize: 8,
    sequence: {
      controls: [
        { input: 'START', kind: 'start' },
        { input: 'END', kind: 'end' },
        { input: 'ID', kind: 'correlationId' },
      ],
      state: [{ input: 'before', output: 'state' }],
    },
  }
  it.each<[string, () => ModelConfig]>([
    ['sequences', () => ({ path: accumulator(), ...sequence })],
    [
      'shapes of requests',
      () => ({
        path: perceptron(),
        inputs: [{ name: 'x', dims: [8, 8], reshape: [64] }],
        outputs: [{ name: 'y', labels: [...'abcdefgh'] }],
      }),
    ],
    [
      'instances that come and go',
      () => ({ path: perceptron(), instanceGroup: [{ minInstances: 2, maxInstances: 4, gpus: 'all' }] }),
    ],
    [
      'warming in all sizes, and shared answers',
      () => ({ path: perceptron(), warmup: { data: 'random', batchSizes: 'all' }, responseCache: true }),
    ],
  ])('%s', async (_, config) => {
    const engine = cachedEngine(ownFolder())
    const model = await engine.load('model', config())
    await modelsCompiled(engine)
    const origin = engine.capabilities().cache.models['model']!
    expect(origin.reason).toMatch(/^compiled for this machine; its outputs were compared in (1 run|2 runs)$/)
    expect(model.state).toBe('ready')
  })
})

describe('a model that is known', () => {
  /** Runs of samples in a second load, which knows of the first what it has written. */
  async function runsOfSecond(config: ModelOptions): Promise<{ runs: number; notes: string }> {
    const dir = ownFolder()
    const notes = join(dir, 'compiled-models-v1', 'notes')
    const written = () =>
      readdirSync(notes)
        .map((name) => readFileSync(join(notes, name), 'utf8'))
        .join()
    await cachedLoad(dir, { path: perceptron(), ...config })
    await until(() => written().includes('proof '))
    const spy = vi.spyOn(WorkerSession.prototype, 'runSample').mockClear()
    const { origin } = await cachedLoad(dir, { path: perceptron(), ...config })
    expect(origin.compiled).toBe(true)
    return { runs: spy.mock.calls.length, notes: written() }
  }

  it('is run with nothing but what its user wants it to be warmed with', async () => {
    expect((await runsOfSecond({})).runs).toBe(0)
    const asked = await runsOfSecond({ warmup: { data: 'zeros', batchSizes: [1, 4], count: 3 } })
    expect(asked.runs).toBe(6)
    expect(asked.notes).not.toContain('zeros')
    expect(['warm', 'warm ["harmless",null]', 'proof []', 'warm ["zeros",[1]]'].map(holdsLater)).toEqual([
      true,
      true,
      true,
      false,
    ])
  })
})

describe('a model that could not be compiled', () => {
  it.runIf(process.platform === 'linux')('is tried again a day later', async () => {
    const dir = ownFolder()
    const failed = await loadElsewhere(dir, perceptron(), {}, { limits: '-f 32' }).loaded // no file may be larger
    expect([failed?.compiled, failed?.y]).toEqual([false, await plainLoad({ path: perceptron() })])
    const loadedAfter = async (hours: number) => {
      const now = Date.now() + hours * 3_600_000
      vi.spyOn(Date, 'now').mockImplementation(() => now)
      const loaded = await cachedLoad(dir, { path: perceptron() })
      vi.restoreAllMocks()
      return loaded
    }
    expect([await loadedAfter(0), await loadedAfter(23)].map(({ origin }) => origin.reason)).toEqual([
      failed!.reason,
      failed!.reason,
    ])
    expect((await loadedAfter(25)).origin.compiled).toBe(true)
  })

  it('and never can be is not', async () => {
    const dir = ownFolder()
    const config = {
      path: perceptron(),
      sessionOptions: { enableProfiling: true, profileFilePrefix: join(dir, 'profile') },
    }
    await cachedLoad(dir, config)
    const [entry] = entriesIn(dir)
    const manifest = readFileSync(join(entry!, 'manifest.json'), 'utf8')
    const now = Date.now() + 25 * 3_600_000
    vi.spyOn(Date, 'now').mockImplementation(() => now)
    await cachedLoad(dir, config)
    expect(readFileSync(join(entry!, 'manifest.json'), 'utf8')).toBe(manifest)
  })
})

describeNative('a compiled model', () => {
  /** An engine whose only worker serves another model, and the folder of a cache that has the model. */
  async function busyEngine(): Promise<{ dir: string; engine: InferenceEngine }> {
    const dir = await compiledFolder()
    const engine = cachedEngine(dir, { executor: 'native', cpuWorkers: 1 })
    await engine.load('other', { path: perceptron(2) })
    return { dir, engine }
  }

  it('is opened where nothing is run while its worker serves another, and once', async () => {
    const { dir, engine } = await busyEngine()
    const ahead = vi.spyOn(NativeExecutor.prototype, 'openAhead')
    const second = await engine.load('model', { path: perceptron() })
    expect(await answerOf(second)).toEqual(await plainLoad({ path: perceptron() }))
    expect(compiledIn(engine)).toBe(true)
    expect(
      ahead.mock.calls.map(([model]) =>
        entriesIn(dir)
          .map((entry) => join(entry, 'model.onnx'))
          .includes(model as string),
      ),
    ).toEqual([true])
  })

  it('that cannot be opened there either is opened as it is', async () => {
    const { dir, engine } = await busyEngine()
    const { openAhead } = NativeExecutor.prototype
    vi.spyOn(NativeExecutor.prototype, 'openAhead').mockImplementation(function (
      this: NativeExecutor,
      _,
      options,
    ) {
      return openAhead.call(this, join(dir, 'nothing.onnx'), options)
    })
    const second = await engine.load('model', { path: perceptron() })
    expect(await answerOf(second)).toEqual(await plainLoad({ path: perceptron() }))
    expect(compiledIn(engine)).toBe(true)
  })

  it('is let go of when its load is aborted while it is opened ahead', async () => {
    const { engine } = await busyEngine()
    const aborted = new AbortController()
    const { openAhead } = NativeExecutor.prototype
    const releases: boolean[] = []
    vi.spyOn(NativeExecutor.prototype, 'openAhead').mockImplementation(function (
      this: NativeExecutor,
      ...args
    ) {
      const ahead = openAhead.apply(this, args)!
      aborted.abort(new Error('not any more'))
      return { opened: ahead.opened, release: () => void (releases.push(true), ahead.release()) }
    })
    const error = await engine
      .load('model', { path: perceptron() }, { signal: aborted.signal })
      .catch((reason: Error) => reason)
    expect((error as Error).message).toBe('not any more')
    await engine.close()
    expect(releases.length).toBeGreaterThan(0)
  })
})
