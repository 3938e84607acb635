import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { InferenceEngine, type InferenceError, type RepositoryEvent } from '../../src/index.ts'
import { readModelFolder } from '../../src/features/triton-repository/model-folder.ts'
import { RepositoryWatch } from '../../src/features/triton-repository/watch.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import { FakeClock } from '../fake-clock.ts'
import { runFixture } from '../process/child.ts'
import { deferred } from '../support/deferred.ts'
import { identity } from '../models/small.ts'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { markedModel, markOf } from '../support/versions.ts'
import { temporaryFolder, type Files } from './temporary.ts'

const debounceMs = 100

/** A watch whose time is told, and what it had done: each as `load m 1`, `loaded m 1` and the like. */
function watching(files: Files, names?: readonly string[], clock = new FakeClock()) {
  const folder = temporaryFolder(files)
  const done: string[] = []
  /** By what is done: whether it fails, or waits. */
  const answers = new Map<string, Error | Promise<void>>()
  const answer = async (what: string): Promise<void> => {
    done.push(what)
    const given = answers.get(what)
    if (given instanceof Error) throw given
    await given
  }
  const watch = new RepositoryWatch(folder, names, { pollMs: 10, debounceMs }, clock, {
    read: async (name) => (await readModelFolder(folder, name)).configs,
    load: async (name, { version }, accept) => {
      await answer(`load ${name} ${version}`)
      await accept()
    },
    unload: (name, version) => answer(`unload ${name} ${version}`),
    tell: ({ type, model, version, error }) =>
      void done.push([type, model, version, error?.code].filter((part) => part !== undefined).join(' ')),
  })
  /** Looks as often as fits into that time, and gives what was done meanwhile. */
  const after = async (ms: number): Promise<string[]> => {
    for (let passed = 0; passed < ms; passed += 10) {
      clock.stall(10)
      await watch.look()
      await watch.done()
    }
    return done.splice(0)
  }
  /** Begins to watch; what is new is given the time to be old enough. */
  const start = async (): Promise<string[]> => {
    let hasStarted = false
    const starting = watch.start().then(() => (hasStarted = true))
    await until(() => hasStarted || clock.nextMs === clock.nowMs() + debounceMs)
    if (!hasStarted) clock.advanceBy(debounceMs)
    await starting
    return [...done.splice(0), ...(await after(debounceMs + 10))]
  }
  return { folder, clock, done, answers, watch, after, start }
}

const loaded = (model: string, version = 1) => [`load ${model} ${version}`, `loaded ${model} ${version}`]
const long = 5 * debounceMs

describe('a repository that is watched', () => {
  it('is left alone as long as nothing changes', async () => {
    const { start, after } = watching({
      'a/1/model.onnx': 'one',
      'a/config.pbtxt': '',
      'b/2/model.onnx': 'two',
    })
    expect((await start()).sort()).toEqual([...loaded('a'), ...loaded('b', 2)].sort())
    expect(await after(long)).toEqual([])
  })

  it('has what has just been copied loaded before it resolves, also when a timer fires too soon', async () => {
    class HastyClock extends FakeClock {
      override setTimer(callback: () => void, delayMs: number): ReturnType<FakeClock['setTimer']> {
        return super.setTimer(callback, delayMs > 1 ? delayMs - 1 : delayMs)
      }
    }
    const { watch, clock, done } = watching({ 'a/1/model.onnx': 'one' }, undefined, new HastyClock())
    const starting = watch.start()
    await until(() => clock.nextMs === debounceMs - 1)
    clock.advanceBy(debounceMs - 1)
    await until(() => clock.nextMs === debounceMs)
    clock.advanceBy(1)
    await starting
    expect(done).toEqual(loaded('a'))
  })

  it('has models loaded that come, replaced that change, and unloaded that go', async () => {
    const { folder, start, after } = watching({ 'a/1/model.onnx': 'one' })
    expect(await start()).toEqual(loaded('a'))
    mkdirSync(join(folder, 'b/1'), { recursive: true })
    writeFileSync(join(folder, 'b/1/model.onnx'), 'two')
    expect(await after(long)).toEqual(loaded('b'))
    writeFileSync(join(folder, 'b/1/model.onnx'), 'six')
    expect(await after(long)).toEqual(loaded('b'))
    writeFileSync(join(folder, 'b/config.pbtxt'), 'max_batch_size: 4')
    expect(await after(long)).toEqual(loaded('b'))
    rmSync(join(folder, 'a'), { recursive: true })
    expect(await after(long)).toEqual(['unload a 1', 'unloaded a 1'])
  })

  it('has a new version loaded, and the old one unloaded after it', async () => {
    const { folder, start, after } = watching({ 'a/1/model.onnx': 'one' })
    await start()
    mkdirSync(join(folder, 'a/2'))
    expect(await after(long)).toEqual(['failed a ERR_MODEL_NOT_FOUND']) // there is no file in it
    writeFileSync(join(folder, 'a/2/model.onnx'), 'two')
    expect(await after(long)).toEqual([...loaded('a', 2), 'unload a 1', 'unloaded a 1'])
    rmSync(join(folder, 'a/2'), { recursive: true })
    expect(await after(long)).toEqual([...loaded('a', 1), 'unload a 2', 'unloaded a 2'])
  })

  it('has no version loaded again for what happens to another', async () => {
    const { folder, start, after } = watching({ 'a/1/model.onnx': 'one', 'a/2/model.onnx': 'two' })
    await start()
    writeFileSync(join(folder, 'a/1/model.onnx'), 'another')
    expect(await after(long)).toEqual([])
  })

  it('is not read while files are being copied, however slowly', async () => {
    const { folder, start, after } = watching({ 'a/1/model.onnx': 'one' })
    await start()
    mkdirSync(join(folder, 'b/1'), { recursive: true })
    for (let part = 0; part < 20; part++) {
      appendFileSync(join(folder, 'a/1/model.onnx'), `${part}`)
      appendFileSync(join(folder, 'b/1/model.onnx'), `${part}`)
      expect(await after(debounceMs - 20)).toEqual([])
    }
    expect((await after(long)).sort()).toEqual([...loaded('a'), ...loaded('b')].sort())
  })

  it('is not served as it was read when files change until it is loaded', async () => {
    const { folder, answers, start, after, watch, clock, done } = watching({ 'a/1/model.onnx': 'one' })
    await start()
    const gate = deferred<void>()
    answers.set('load a 1', gate.promise)
    writeFileSync(join(folder, 'a/1/model.onnx'), 'half')
    for (let looks = 0; looks < 12; looks++) {
      clock.stall(10)
      await watch.look()
    }
    await until(() => done.length === 1)
    appendFileSync(join(folder, 'a/1/model.onnx'), 'and half')
    gate.resolve()
    await watch.done()
    expect(done.splice(0)).toEqual(['load a 1']) // nobody is told: it comes again
    expect(await after(long)).toEqual(loaded('a'))
  })

  it('goes on where a model fails, which is tried again once it has changed', async () => {
    const { folder, answers, start, after } = watching({
      'a/1/model.onnx': 'one',
      'b/1/model.onnx': 'two',
      'c/1/model.onnx': '',
      'c/config.pbtxt': '{',
    })
    answers.set('load a 1', new Error('no such operator'))
    expect((await start()).sort()).toEqual(
      ['failed a 1 ERR_MODEL_LOAD', 'failed c ERR_MODEL_CONFIG', 'load a 1', ...loaded('b')].sort(),
    )
    expect(await after(long)).toEqual([])
    answers.clear()
    writeFileSync(join(folder, 'a/1/model.onnx'), 'better')
    writeFileSync(join(folder, 'c/config.pbtxt'), '')
    expect((await after(long)).sort()).toEqual([...loaded('a'), ...loaded('c')].sort())
  })

  it('keeps an old version where the new one cannot be loaded', async () => {
    const { folder, answers, start, after } = watching({ 'a/1/model.onnx': 'one' })
    await start()
    answers.set('load a 2', new Error('half a model'))
    mkdirSync(join(folder, 'a/2'))
    writeFileSync(join(folder, 'a/2/model.onnx'), 'tw')
    expect(await after(long)).toEqual(['load a 2', 'failed a 2 ERR_MODEL_LOAD'])
    answers.clear()
    writeFileSync(join(folder, 'a/2/model.onnx'), 'two')
    expect(await after(long)).toEqual([...loaded('a', 2), 'unload a 1', 'unloaded a 1'])
  })

  it('holds up no model for another that takes long', async () => {
    const { folder, answers, start, watch, clock, done } = watching({ 'a/1/model.onnx': 'one' })
    await start()
    const gate = deferred<void>()
    answers.set('load slow 1', gate.promise)
    for (const name of ['slow', 'quick']) {
      mkdirSync(join(folder, name, '1'), { recursive: true })
      writeFileSync(join(folder, name, '1/model.onnx'), name)
    }
    for (let looks = 0; looks < 50; looks++) {
      clock.stall(10)
      await watch.look()
    }
    await until(() => done.includes('loaded quick 1'))
    gate.resolve()
    await watch.done()
    expect(done).toContain('loaded slow 1')
  })

  it('loses no model for a folder that goes and comes again at once', async () => {
    const { folder, start, after } = watching({ 'a/1/model.onnx': 'one' })
    await start()
    renameSync(join(folder, 'a'), join(folder, '.a'))
    expect(await after(debounceMs - 20)).toEqual([])
    cpSync(join(folder, '.a'), join(folder, 'a'), { recursive: true })
    expect(await after(long)).toEqual(loaded('a'))
  })

  it('that cannot be read for a while has its models serve on, and tells of it once', async () => {
    const { folder, start, after } = watching({ 'a/1/model.onnx': 'one' })
    await start()
    renameSync(folder, `${folder}-away`)
    expect(await after(long)).toEqual(['failed  ERR_MODEL_NOT_FOUND'])
    renameSync(`${folder}-away`, folder)
    expect(await after(long)).toEqual([])
  })

  it(
    'is looked at in reasonable time where links lead back up, and a version that is a link is seen to change',
    { timeout: 10_000 },
    async () => {
      const { folder, start, after } = watching({ 'a/1/model.onnx': 'one' })
      for (let link = 0; link < 30; link++) symlinkSync('.', join(folder, `a/here_${link}`))
      for (let link = 0; link < 30; link++) symlinkSync('../..', join(folder, `a/1/up_${link}`))
      symlinkSync('1', join(folder, 'a/2'))
      expect(await start()).toEqual(loaded('a', 2))
      writeFileSync(join(folder, 'a/1/model.onnx'), 'two')
      expect(await after(long)).toEqual(loaded('a', 2))
    },
  )

  it('has those models loaded that were asked for, now or later', async () => {
    const { folder, start, after } = watching({ 'a/1/model.onnx': 'one', 'b/1/model.onnx': 'two' }, [
      'b',
      'c',
    ])
    expect(await start()).toEqual(loaded('b'))
    mkdirSync(join(folder, 'c/1'), { recursive: true })
    writeFileSync(join(folder, 'c/1/model.onnx'), 'three')
    expect(await after(long)).toEqual(loaded('c'))
  })

  it('has models loaded at the start that have just been copied, but none that is being copied still', async () => {
    const { folder, clock, watch, done, after } = watching({
      'a/1/model.onnx': 'one',
      'b/1/model.onnx': 'two',
    })
    const starting = watch.start()
    await until(() => clock.timers === 1)
    clock.stall(debounceMs - 1)
    appendFileSync(join(folder, 'b/1/model.onnx'), 'more')
    clock.advanceBy(1)
    await starting
    expect(done.splice(0)).toEqual(loaded('a'))
    expect(await after(long)).toEqual(loaded('b'))
  })

  it('is not waited for any more when the watch is closed', async () => {
    const { clock, watch, done } = watching({ 'a/1/model.onnx': 'one' })
    const starting = watch.start()
    await until(() => clock.timers === 1)
    watch.close()
    await starting
    expect([done, clock.timers]).toEqual([[], 0])
  })

  it('is looked at again and again until the watch is closed', async () => {
    const { folder, start, watch, clock, done } = watching({ 'a/1/model.onnx': 'one' })
    await start()
    writeFileSync(join(folder, 'a/1/model.onnx'), 'other')
    for (let looks = 0; looks < 15; looks++) {
      await until(() => clock.timers === 1)
      clock.advanceBy(10)
    }
    await until(() => done.length === 2)
    await until(() => clock.timers === 1)
    watch.close()
    expect(clock.timers).toBe(0)
  })
})

describe('engine.loadRepository in mode watch', () => {
  const options = { mode: 'watch', pollMs: 5, debounceMs: 25 } as const
  const feeds = { x: new Float32Array(4).fill(1) }
  const markFrom = async (engine: InferenceEngine, name: string) => markOf(await engine.infer(name, feeds), 1)

  function eventsOf(engine: InferenceEngine): string[] {
    const events: string[] = []
    engine.on('repository', ({ type, model, version, error }: RepositoryEvent) =>
      events.push([type, model, version, error?.code].join(' ').trim()),
    )
    return events
  }

  it('serves what the folder has, at any time', async () => {
    const engine = ownEngine()
    const events = eventsOf(engine)
    const folder = temporaryFolder({ 'a/1/model.onnx': markedModel(1), 'broken/1/model.onnx': 'no model' })
    const [model, ...others] = await engine.loadRepository(folder, options)
    expect([model!.name, model!.version, others]).toEqual(['a', 1, []])
    expect(events).toEqual(expect.arrayContaining(['loaded a 1', 'failed broken 1 ERR_MODEL_LOAD']))
    expect(await markFrom(engine, 'a')).toBe(1)

    mkdirSync(join(folder, 'a/2'))
    writeFileSync(join(folder, 'a/2/model.onnx'), markedModel(2))
    await until(() => events.includes('unloaded a 1'))
    expect([await markFrom(engine, 'a'), model!.version]).toEqual([2, 2])

    writeFileSync(join(folder, 'a/2/model.onnx'), markedModel(3))
    await until(() => events.filter((event) => event === 'loaded a 2').length === 2)
    expect(await markFrom(engine, 'a')).toBe(3)

    rmSync(join(folder, 'a'), { recursive: true })
    await until(() => events.includes('unloaded a 2'))
    expect(engine.models()).toEqual([])
  })

  it('answers every request with a whole model while files are written piece by piece', async () => {
    const engine = ownEngine()
    const folder = temporaryFolder({ 'a/1/model.onnx': markedModel(1) })
    const path = join(folder, 'a/1/model.onnx')
    const events = eventsOf(engine)
    expect(await engine.loadRepository(folder, options)).toHaveLength(1)
    expect(events).toEqual(['loaded a 1'])
    const marks = new Set<number>()
    for (let mark = 2; mark < 5; mark++) {
      const bytes = markedModel(mark)
      writeFileSync(path, '')
      for (let at = 0; at < bytes.length; at += 40) {
        appendFileSync(path, bytes.subarray(at, at + 40))
        marks.add(await markFrom(engine, 'a'))
        await new Promise((resolve) => setTimeout(resolve, 3))
      }
      while (!marks.has(mark)) {
        marks.add(await markFrom(engine, 'a'))
        await new Promise(setImmediate)
      }
    }
    expect([...marks]).toEqual([1, 2, 3, 4])
  })

  it('ends with the engine', async () => {
    const engine = new InferenceEngine()
    const folder = temporaryFolder({ 'a/1/model.onnx': markedModel(1) })
    await engine.loadRepository(folder, options)
    await engine.close()
    const events = eventsOf(engine)
    writeFileSync(join(folder, 'a/1/model.onnx'), markedModel(2))
    await new Promise((resolve) => setTimeout(resolve, 5 * options.debounceMs))
    expect([events, engine.models().map(({ state }) => state)]).toEqual([
      [],
      engine.models().map(() => 'closed'),
    ])
    expect(await rejectionOf(() => engine.loadRepository(folder, options))).toMatchObject({
      code: 'ERR_CLOSED',
    })
  })

  it('is not waited for by an engine that is closed', async () => {
    const engine = new InferenceEngine()
    const loading = rejectionOf(() =>
      engine.loadRepository(temporaryFolder({ 'a/1/model.onnx': markedModel(1) }), {
        mode: 'watch',
        debounceMs: 1e6,
      }),
    )
    await new Promise(setImmediate)
    await engine.close()
    expect(await loading).toMatchObject({ code: 'ERR_CLOSED' })
  })

  it('does not keep the process alive', async () => {
    const folder = temporaryFolder({ 'a/1/model.onnx': markedModel(1) })
    const ending = await runFixture('watching.mjs', folder)
    expect(ending).toMatchObject({ code: 0, signal: null, hung: false, answer: ['a'], stderr: '' })
  })

  it('says which of the models that are asked for are not there yet', async () => {
    const engine = ownEngine()
    const folder = temporaryFolder({ 'a/1/model.onnx': markedModel(1) })
    const models = await engine.loadRepository(folder, { ...options, models: ['a', 'b'] })
    expect(models.missing).toMatchObject([
      { name: 'b', error: { code: 'ERR_MODEL_NOT_FOUND', argument: 'models', received: 'b' } },
    ])
  })

  it('rejects where there is no such folder, and refuses wrong options', async () => {
    const engine = ownEngine()
    expect(await rejectionOf(() => engine.loadRepository('/no/such/folder', options))).toMatchObject({
      code: 'ERR_MODEL_NOT_FOUND',
      argument: 'path',
    })
    const cases: [object, string][] = [
      [{ mode: 'poll' }, 'options.mode'],
      [{ mode: null }, 'options.mode'],
      [{ ...options, pollMs: 0 }, 'options.pollMs'],
      [{ ...options, debounceMs: '1' }, 'options.debounceMs'],
      [{ pollMs: 5 }, 'options.pollMs'],
      [{ ...options, models: 'a' }, 'options.models'],
      [{ ...options, every: 5 }, 'options.every'],
      [{ ...options, failures: 'reject' }, 'options.failures'],
    ]
    for (const [wrong, argument] of cases)
      expectRefusal(await rejectionOf(() => engine.loadRepository('.', wrong)), { argument })
  })
})

it('the configuration of a folder says its version', async () => {
  const folder = temporaryFolder({ 'a/12/model.onnx': 'one' })
  const { configs } = await readModelFolder(folder, 'a')
  expect(configs.map(({ version }) => version)).toEqual(['12'])
})

it('the error of a model that cannot be loaded comes with the event', async () => {
  const engine = ownEngine()
  const folder = temporaryFolder({ 'a/1/model.onnx': 'no model' })
  const told = deferred<InferenceError>()
  engine.on('repository', ({ error, repository }) => (expect(repository).toBe(folder), told.resolve(error!)))
  await engine.loadRepository(folder, { mode: 'watch', pollMs: 5, debounceMs: 10 })
  expect(await told.promise).toMatchObject({
    code: 'ERR_MODEL_LOAD',
    model: 'a',
    message: expect.stringContaining(folder),
  })
})

it('all versions that the policy allows are served, the newest first, and a mistake in a configuration names its file', async () => {
  const engine = ownEngine()
  const model = readFileSync(identity('float32', [2]))
  const folder = temporaryFolder({
    'a/1/model.onnx': model,
    'a/2/model.onnx': model,
    'a/3/model.onnx': model,
    'a/config.pbtxt': 'version_policy { latest { num_versions: 2 } }',
    'b/1/model.onnx': model,
    'b/config.pbtxt': 'max_batch_size: 2 input { name: "z" data_type: TYPE_FP32 dims: 2 }',
    'c/1/model.pt': '',
    'd/1/none': '',
  })
  const models = await engine.loadRepository(folder, { mode: 'watch', pollMs: 5, debounceMs: 10 })
  expect(models.map(({ name, versions }) => [name, versions.map(({ version }) => version)])).toEqual([
    ['a', [2, 3]],
  ])
  expect(
    [models.unsupported, models.missing, models.failed].map((list) => list.map(({ name }) => name)),
  ).toEqual([['c'], ['d'], ['b']])
  expect(models.failed[0]!.reason).toMatch(/input\[0\]\.name.*b.config\.pbtxt:1:27$/)
})
