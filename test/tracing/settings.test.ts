import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { InferenceEngine } from '../../src/index.ts'
import { readTraceFile } from '../../packages/perf/src/trace-files/read-trace-file.ts'
import { loadGate, loadNumber, one } from '../pipelines/arithmetic.ts'
import { ownEngine } from '../support/open.ts'
import { errorOf, temporaryFolder } from '../triton-repository/temporary.ts'
import { tracedEngine } from './traced-engine.ts'

/** Two functions, and a way to call them so often. */
async function twoModels(...options: Parameters<typeof tracedEngine>) {
  const traced = tracedEngine(...options)
  for (const name of ['a', 'b']) await loadNumber(traced.engine, name, (x) => x)
  const call = async (name: string, times: number) => {
    for (let count = 0; count < times; count++) await traced.engine.infer(name, { x: one(count) })
  }
  return { ...traced, call, counts: async () => countsOf((await traced.traces()).map(({ model }) => model)) }
}

const countsOf = (names: readonly string[]) =>
  Object.fromEntries(
    [...new Set(names)].sort().map((name) => [name, names.filter((other) => other === name).length]),
  )

describe('settings of traces', () => {
  it('take each how-manieth request, of all models together, and so many at most', async () => {
    const { engine, call, counts } = await twoModels({ rate: 3, count: 4 })
    await call('a', 7)
    await call('b', 2)
    expect(engine.trace.settings()).toMatchObject({ rate: 3, count: 1 })
    await call('b', 30)
    expect(engine.trace.settings().count).toBe(0)
    expect(await counts()).toEqual({ a: 2, b: 2 })
    engine.trace.update({ count: 1, rate: 1 })
    await call('a', 3)
    expect(await counts()).toEqual({ a: 3, b: 2 })
  })

  it('of a model hold instead of those of the engine, and can be taken back one by one', async () => {
    const { engine, file, call, counts } = await twoModels({ rate: 1000, models: { a: { rate: 1 } } })
    await call('a', 3)
    await call('b', 3)
    expect(await counts()).toEqual({ a: 3 })
    expect(engine.trace.update({ rate: 2 }, 'b')).toEqual({
      level: ['TIMESTAMPS'],
      rate: 2,
      count: -1,
      file,
      logFrequency: 0,
    })
    await call('b', 4)
    expect(engine.trace.update({ rate: null }, 'a').rate).toBe(1000)
    await call('a', 3)
    expect(await counts()).toEqual({ a: 3, b: 2 })
    engine.trace.update({ rate: 1 })
    expect([engine.trace.settings('a').rate, engine.trace.settings('b').rate]).toEqual([1, 2])
    engine.trace.update({ level: 'OFF' })
    await call('a', 3)
    await call('b', 4)
    expect(await counts()).toEqual({ a: 3, b: 2 })
    expect(engine.trace.update({ level: null, rate: null })).toMatchObject({
      level: ['TIMESTAMPS'],
      rate: 1000,
    })
  })

  it('can be given when nothing was traced so far, and name another file', async () => {
    const folder = temporaryFolder({})
    const engine = ownEngine()
    await loadNumber(engine, 'a', (x) => x)
    await engine.infer('a', { x: one(1) })
    const [first, second] = [join(folder, 'first.json'), join(folder, 'second.json')]
    engine.trace.update({ level: ['TIMESTAMPS', 'TIMESTAMPS'], rate: 1, file: pathToFileURL(first) })
    expect(engine.trace.settings()).toEqual({
      level: ['TIMESTAMPS'],
      rate: 1,
      count: -1,
      file: first,
      logFrequency: 0,
    })
    await engine.infer('a', { x: one(2) })
    engine.trace.update({ file: second })
    await engine.infer('a', { x: one(3) })
    await engine.infer('a', { x: one(4) })
    await engine.close()
    expect((await readTraceFile(first)).traces).toHaveLength(1)
    expect((await readTraceFile(second)).traces).toHaveLength(2)
    expect((await errorOf(() => engine.trace.update({ rate: 1 }))).code).toBe('ERR_CLOSED')
  })

  it('begin another file after so many traces', async () => {
    const { engine, file, call } = await twoModels({ logFrequency: 2 })
    await call('a', 5)
    await engine.trace.flush()
    expect(existsSync(file)).toBe(false)
    const lengths = [0, 1, 2].map(
      (number) => (JSON.parse(readFileSync(`${file}.${number}`, 'utf8')) as unknown[]).length / 2,
    )
    expect(lengths).toEqual([2, 2, 1])
    engine.trace.update({ logFrequency: 0 })
    await call('a', 3)
    engine.trace.update({ logFrequency: 1 })
    await call('a', 1)
    engine.trace.update({ logFrequency: 0 })
    await call('a', 1)
    await engine.close()
    expect((await readTraceFile(file)).traces).toHaveLength(4)
    expect((await readTraceFile(`${file}.3`)).traces).toHaveLength(1)
  })

  it('begin another file for those alone that say so, where others trace to the same', async () => {
    const { engine, file, call } = await twoModels({ models: { b: { logFrequency: 2 } } })
    for (let count = 0; count < 3; count++) {
      await call('a', 1)
      await call('b', 1)
    }
    await engine.close()
    const lengths = await Promise.all(
      [file, `${file}.0`, `${file}.1`].map(async (path) => (await readTraceFile(path)).traces.length),
    )
    expect(lengths).toEqual([3, 2, 1])
  })

  it('that are taken back and given again go on with the same file, while requests of before are under way', async () => {
    const { engine, file, traces } = tracedEngine()
    const gate = await loadGate(engine, 'gate')
    const ask = () => engine.infer('gate', { x: one(1) })
    const asked = [ask()]
    const others = [{ level: 'OFF' }, { file: `${file}.other` }, { logFrequency: 1 }] as const
    for (const settings of others) {
      engine.trace.update(settings)
      asked.push(ask())
      engine.trace.update({ level: null, file: null, logFrequency: null })
      asked.push(ask())
    }
    gate.open()
    await Promise.all(asked)
    expect((await traces()).length).toBe(4)
    engine.trace.update({ level: 'OFF' })
    await engine.trace.flush()
    engine.trace.update({ level: null })
    await ask()
    expect((await traces()).length).toBe(5)
    engine.trace.update({ logFrequency: 1, file: `${file}.other` })
    await ask()
    await engine.close()
    expect((await readTraceFile(`${file}.0`)).traces).toHaveLength(1)
    expect((await readTraceFile(`${file}.other`)).traces).toHaveLength(1)
    expect((await readTraceFile(`${file}.other.0`)).traces).toHaveLength(1)
    expect(engine.trace.stats()).toMatchObject({
      begun: 8,
      written: 8,
      failed: 0,
      dropped: 0,
      bufferedBytes: 0,
    })
  })

  it('of models are checked, too, when those of the engine change', async () => {
    const { file } = tracedEngine()
    const other = join(temporaryFolder({}), 'other.json')
    const engine = ownEngine({ trace: { level: 'OFF', file: other, models: { a: { level: 'TIMESTAMPS' } } } })
    expect(await errorOf(() => engine.trace.update({ file }))).toMatchObject({
      argument: 'settings.file',
      received: file,
    })
    expect(engine.trace.settings('a').file).toBe(other)
    expect(await errorOf(() => new InferenceEngine({ trace: { file, count: 0 } }))).toMatchObject({
      argument: 'options.trace.file',
    })
    const without = ownEngine()
    without.trace.update({ file: join(temporaryFolder({}), 'late.json') })
    expect(without.trace.update({ file: null }).file).toBe(null)
  })

  it.each([
    ['a rate of 0', { rate: 0 }, 'settings.rate', 0],
    ['half a count', { count: 0.5 }, 'settings.count', 0.5],
    ['a count below -1', { count: -2 }, 'settings.count', -2],
    ['an unknown level', { level: 'MAX' }, 'settings.level', 'MAX'],
    [
      'a list with an unknown level',
      { level: ['TIMESTAMPS', 'OFF'] },
      'settings.level',
      ['TIMESTAMPS', 'OFF'],
    ],
    ['a file that is a number', { file: 3 }, 'settings.file', 3],
    ['no name of a file', { file: '' }, 'settings.file', ''],
    ['a log frequency as text', { logFrequency: '1' }, 'settings.logFrequency', '1'],
    ['an unknown setting', { mode: 'triton' }, 'settings.mode', 'mode'],
    ['no object', 4, 'settings', 4],
  ])('refuse %s, and stay', async (_, settings, argument, received) => {
    const { engine } = tracedEngine({ rate: 5 })
    const before = engine.trace.settings()
    const error = await errorOf(() => engine.trace.update(settings as never))
    expect(error).toMatchObject({ code: 'ERR_INVALID_ARG', argument, received })
    expect(engine.trace.settings()).toEqual(before)
    if (argument === 'settings') return
    const name = argument.replace('settings', 'options.trace')
    expect(
      await errorOf(() => new InferenceEngine({ trace: { file: 'trace.json', ...(settings as object) } })),
    ).toMatchObject({ code: 'ERR_INVALID_ARG', argument: name })
    const ofModel = () =>
      new InferenceEngine({ trace: { file: 'trace.json', models: { m: settings as object } } })
    expect(await errorOf(ofModel)).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: argument.replace('settings', 'options.trace.models.m'),
    })
  })

  it('refuse a level without a file, a file of another engine, and a model that there is not', async () => {
    const { engine, file } = tracedEngine()
    const other = ownEngine()
    expect(await errorOf(() => new InferenceEngine({ trace: {} }))).toMatchObject({
      argument: 'options.trace.file',
    })
    expect(await errorOf(() => other.trace.update({ level: 'TENSORS' }))).toMatchObject({
      argument: 'settings.file',
    })
    expect(
      await errorOf(() => new InferenceEngine({ trace: { file, maxBufferedBytes: 2 ** 28 + 1 } })),
    ).toMatchObject({ argument: 'options.trace.maxBufferedBytes' })
    expect(await errorOf(() => other.trace.update({ level: 'TENSORS', file }))).toMatchObject({
      argument: 'settings.file',
      received: file,
    })
    expect(await errorOf(() => new InferenceEngine({ trace: { file } }))).toMatchObject({
      argument: 'options.trace.file',
    })
    expect((await errorOf(() => engine.trace.update({ rate: 1 }, 'none'))).code).toBe('ERR_MODEL_NOT_FOUND')
    expect((await errorOf(() => engine.trace.settings('none'))).code).toBe('ERR_MODEL_NOT_FOUND')
    expect(await errorOf(() => engine.trace.update({ rate: 1 }, 3 as never))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'model',
    })
    await engine.close()
    expect(other.trace.update({ level: 'TENSORS', file })).toMatchObject({ file, level: ['TENSORS'] })
  })
})
