import { channel } from 'node:diagnostics_channel'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { constants, getPriority } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { InferenceEngine, InferenceError, type EngineOptions } from '../../src/index.ts'
import { identity } from '../models/small.ts'
import { modelsCompiled } from '../../src/engine/engine-resources.ts'
import { full } from '../support/full.ts'
import { describeNative } from '../support/native.ts'
import { until } from '../support/until.ts'
import { startOfSystem } from '../../src/models/compiled-models/entry-lock.ts'
import { readSealed, writeSealed } from '../../src/models/compiled-models/cache-folder.ts'
import type { Manifest } from '../../src/models/compiled-models/entry.ts'
import { cachedLoad, entriesIn, ownFolder, plainLoad } from './cached.ts'
import { loadElsewhere, loadProgram } from './in-processes.ts'
import { deadlyToOpen, endless, perceptron, row, wide } from './models.ts'

function trialEngine(options: EngineOptions = {}): InferenceEngine {
  const engine = new InferenceEngine({ cache: false, verify: 'child', ...options })
  onTestFinished(() => engine.destroy())
  return engine
}

/** The processes that are started in this one from now on. */
function startedChildren(): ChildProcess[] {
  const started: ChildProcess[] = []
  const note = (message: unknown) => void started.push((message as { process: ChildProcess }).process)
  channel('child_process').subscribe(note)
  onTestFinished(() => void channel('child_process').unsubscribe(note))
  return started
}

/** Stops a process where it runs its model, for a loop without end: it need not compute until it is killed. */
function stopWhereItRuns(child: ChildProcess): void {
  child.on('message', (word) => {
    if ((word as { stage?: string }).stage === 'model') child.kill('SIGSTOP')
  })
}

const rejection = (promise: Promise<unknown>) =>
  promise.then(
    () => null,
    (error: InferenceError) => error,
  )

describe('a model that nobody knows', () => {
  it('is tried in one process, however many load it, and not again', async () => {
    const engine = trialEngine()
    const started = startedChildren()
    await Promise.all(['a', 'b', 'c'].map((name) => engine.load(name, { path: perceptron(11) })))
    await engine.load('d', { path: perceptron(11) })
    expect(started.length).toBe(1)
  })

  it('is tried when it comes as bytes, too, and once', async () => {
    const engine = trialEngine()
    const started = startedChildren()
    const bytes = readFileSync(perceptron(12))
    for (const name of ['a', 'b']) expect((await engine.load(name, { bytes })).state).toBe('ready')
    expect(started.length).toBe(1)
  })

  it('is tried at a lower priority than the application has, from the start of that process', async () => {
    const { PRIORITY_BELOW_NORMAL } = constants.priority
    const started = startedChildren()
    const engine = trialEngine()
    const loading = rejection(engine.load('model', { path: endless() }))
    while (started.length === 0) await new Promise(setImmediate)
    expect(getPriority(started[0]!.pid!)).toBe(Math.min(19, getPriority() + PRIORITY_BELOW_NORMAL))
    await engine.destroy()
    await loading
  })

  it('leaves no process behind when its load is aborted', async () => {
    const started = startedChildren()
    const engine = trialEngine()
    const aborted = new AbortController()
    const loading = rejection(engine.load('model', { path: endless() }, { signal: aborted.signal }))
    while (started.length === 0) await new Promise(setImmediate)
    const ended = once(started[0]!, 'close')
    aborted.abort(new Error('not any more'))
    expect((await loading)?.message).toBe('not any more')
    expect((await ended)[1]).toBe('SIGKILL')
  })

  it('leaves no process behind when its engine is destroyed', async () => {
    const started = startedChildren()
    const engine = trialEngine()
    const loading = rejection(engine.load('model', { path: endless() }))
    while (started.length === 0) await new Promise(setImmediate)
    const ended = once(started[0]!, 'close')
    await engine.destroy()
    expect((await loading)?.code).toBe('ERR_CLOSED')
    expect((await ended)[1]).toBe('SIGKILL')
  })
})

describeNative('the compiled form of a new model', () => {
  const manifestIn = (dir: string) => join(entriesIn(dir)[0]!, 'manifest.json')
  const isSealed = (dir: string) => readSealed<Manifest>(manifestIn(dir))!.unsealedIn === null
  const leftIn = (dir: string) =>
    ['unfinished', 'locks', 'entries'].map(
      (room) => readdirSync(join(dir, 'compiled-models-v1', room)).length,
    )

  it('is what the model is opened from, here and elsewhere, and is sealed while it serves', async () => {
    const dir = ownFolder()
    const engine = trialEngine({ cache: { dir } })
    const expected = await plainLoad({ path: perceptron(17) })
    const model = await engine.load('model', { path: perceptron(17) })
    const { y } = await model.infer({ x: row() })
    expect([...(y as { data: Float32Array }).data]).toEqual(expected)
    expect(engine.capabilities().cache.models['model']).toMatchObject({ compiled: true })
    await engine.load('again', { path: perceptron(17) })
    const elsewhere = await loadElsewhere(dir, perceptron(17)).loaded
    expect([elsewhere?.y, elsewhere?.compiled]).toEqual([expected, true])
    await modelsCompiled(engine)
    expect([isSealed(dir), leftIn(dir)]).toEqual([true, [0, 0, 1]])
  })

  it('is believed before it is sealed until the system is started again, and sealed by the next load', async () => {
    const dir = ownFolder()
    await cachedLoad(dir, { path: perceptron(17) })
    const path = manifestIn(dir)
    const manifest = readSealed<Manifest>(path)!
    const files = manifest.files!.map((file) => ({ ...file, hash: null }))
    const isAsMade = () => readSealed<Manifest>(path)!.triedAtMs === manifest.triedAtMs
    await writeSealed(path, { ...manifest, files, unsealedIn: startOfSystem() }, 0o400)
    expect(isSealed(dir)).toBe(false)
    expect((await cachedLoad(dir, { path: perceptron(17) })).origin.compiled).toBe(true)
    expect([isSealed(dir), isAsMade()]).toEqual([true, true])
    await writeSealed(path, { ...manifest, files, unsealedIn: 'an earlier start' }, 0o400)
    expect((await cachedLoad(dir, { path: perceptron(17) })).origin.compiled).toBe(true)
    expect([isSealed(dir), isAsMade()]).toEqual([true, false])
  })

  it('is not used when the process ends over it; the model is tried again without', async () => {
    const dir = ownFolder()
    const started = startedChildren()
    const engine = trialEngine({ cache: { dir } })
    const loading = engine.load('model', { path: wide() })
    while (started.length === 0) await new Promise(setImmediate)
    started[0]!.on('message', (word) => {
      if ((word as { stage?: string }).stage === 'writing') started[0]!.kill('SIGKILL')
    })
    const model = await loading
    expect(started.length).toBe(2)
    expect(engine.capabilities().cache.models['model']!.reason).toContain(
      'its compiled form cannot be made: a process that made it ended with SIGKILL',
    )
    expect(model.state).toBe('ready')
    expect(leftIn(dir)).toEqual([0, 0, 1])
  })
})

describeNative('a model that', () => {
  it('ends the process in which it is opened rejects its load, and others are served', async () => {
    const dir = ownFolder()
    const engine = trialEngine({ cache: { dir }, executor: 'native' })
    const other = await engine.load('other', { path: identity('float32') })
    const loading = rejection(engine.load('deadly', { path: deadlyToOpen() }))
    let settled = false
    void loading.then(() => (settled = true))
    let served = 0
    for (; !settled; served++) {
      await other.infer({ x: new Float32Array(4) })
      await sleep(2)
    }
    const error = await loading
    expect(error).toBeInstanceOf(InferenceError)
    expect(error).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      model: 'deadly',
      argument: 'path',
      received: 'SIGFPE',
    })
    expect(error?.message).toContain('SIGFPE')
    expect(served).toBeGreaterThan(10)
    await modelsCompiled(engine)
    expect(entriesIn(dir).length).toBe(1)
  })

  it('never comes back rejects its load after the time-out, and others are served', async () => {
    const engine = trialEngine({ executor: 'native', verifyTimeoutMs: 2000 })
    const other = await engine.load('other', { path: identity('float32') })
    const started = startedChildren()
    const loading = rejection(engine.load('endless', { path: endless() }))
    await until(() => started.length > 0)
    if (!full) stopWhereItRuns(started[0]!)
    const error = await loading
    expect(error).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      model: 'endless',
      received: 'no answer within 2000 ms',
    })
    expect((await other.infer({ x: new Float32Array(4) })).y!.dims).toEqual([1, 4])
    expect(engine.models().map(({ name }) => name)).toEqual(['other'])
  })

  it('is not run when the user says so', async () => {
    const engine = trialEngine({ executor: 'native', verifyTimeoutMs: 20_000 })
    const model = await engine.load('endless', { path: endless(), warmup: false, checkRows: false })
    expect(model.state).toBe('ready')
  })
})

describeNative('a model that was loaded without being run', () => {
  // Time enough to start the process of the trial.
  const verifyTimeoutMs = full ? 6000 : 3000
  const caches: [how: string, hasCache: boolean][] = [['with a cache', true]]
  if (full) caches.push(['without a cache', false])

  it.each(caches)('is tried again for who has it run (%s)', async (_, hasCache) => {
    const engine = trialEngine({
      cache: hasCache && { dir: ownFolder() },
      executor: 'native',
      verifyTimeoutMs,
    })
    const started = startedChildren()
    const notRun = { path: endless(), warmup: false, checkRows: false } as const
    for (const name of ['a', 'b']) await engine.load(name, notRun)
    const before = started.length
    const loading = rejection(engine.load('c', { path: endless() }))
    await until(() => started.length > before)
    stopWhereItRuns(started[before]!)
    expect((await loading)?.received).toBe(`no answer within ${verifyTimeoutMs} ms`)
    await engine.load('d', notRun)
    expect(started.length - before).toBe(1)
  })
})

describe.runIf(process.platform === 'linux')('where Node.js runs nothing but the application', () => {
  it('that is started once for the trial, and not again and again; models are loaded untried', async () => {
    const folder = ownFolder()
    const [execPath, started] = [join(folder, 'application'), join(folder, 'started')]
    const task = JSON.stringify({ dir: null, path: perceptron(), execPath })
    writeFileSync(
      execPath,
      `#!/bin/sh\necho once >> ${started}\nexec ${process.execPath} ${loadProgram} '${task}'\n`,
      { mode: 0o755 },
    )
    const loaded = await loadElsewhere(null, perceptron(), { execPath }).loaded
    expect([loaded?.compiled, loaded?.children, readFileSync(started, 'utf8')]).toEqual([false, 1, 'once\n'])
  })
})

describe('a model that cannot be loaded', () => {
  it('is refused in the words in which it would be without a trial', async () => {
    const messages = []
    for (const verify of ['child', 'none'] as const) {
      const engine = trialEngine({ verify })
      messages.push((await rejection(engine.load('model', { bytes: new Uint8Array(100) })))?.message)
    }
    expect(messages[0]).toBe(messages[1])
    expect(messages[0]).not.toBe(undefined)
  })
})

describe('verify: none', () => {
  it('starts no process, and takes what the cache has', async () => {
    const dir = ownFolder()
    const started = startedChildren()
    const none = await cachedLoad(dir, { path: perceptron(13) }, { verify: 'none' })
    expect([none.origin.compiled, started.length, entriesIn(dir)]).toEqual([false, 0, []])
    await cachedLoad(dir, { path: perceptron(13) })
    const known = await cachedLoad(dir, { path: perceptron(13) }, { verify: 'none' })
    expect([known.origin.compiled, started.length]).toEqual([true, 1])
  })
})
