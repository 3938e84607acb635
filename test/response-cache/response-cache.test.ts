import { describe, expect, it } from 'vitest'
import { Tensor, type Feeds, type Model, type ModelOptions } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { outcomeOf, reported } from '../scheduling/outcome.ts'

const engine = sharedEngine()
const floats = (values: readonly number[], dims: readonly number[] = [1, values.length]) =>
  new Tensor('float32', Float32Array.from(values), dims)
const x = (...values: number[]): Feeds => ({ x: floats(values) })
const valuesOf = (value: unknown) => [...((value as Tensor).data as Float32Array)]
const open = (options: ModelOptions = {}, path = small.elementSquares()) =>
  load(engine, path, { responseCache: true, ...options })
const counts = (model: Model) => {
  const { hits, misses, coalesced, entries } = model.stats().responseCache!
  return { hits, misses, coalesced, entries }
}

describe('a model with a response cache', () => {
  it('runs what it was asked once, and answers the same from then on', async () => {
    const model = await open()
    const feeds = x(1, 2, 3, 4)
    const first = await model.infer(feeds)
    const second = await model.infer(x(1, 2, 3, 4))
    expect([valuesOf(first.y), valuesOf(second.y)]).toEqual([
      [1, 4, 9, 16],
      [1, 4, 9, 16],
    ])
    expect(second.y).toBeInstanceOf(Tensor)
    expect(second.y!.dims).toEqual([1, 4])
    expect(valuesOf((await model.infer(x(1, 2, 3, 5))).y)).toEqual([1, 4, 9, 25])
    expect(counts(model)).toEqual({ hits: 1, misses: 2, coalesced: 0, entries: 2 })
    expect(model.stats().executionCount).toBe(2)
  })

  it('runs one row for ten identical requests at once', async () => {
    const model = await open({}, small.identity('float32'))
    const answers = await Promise.all(Array.from({ length: 10 }, () => model.infer(x(1, 2, 3, 4))))
    for (const { y } of answers) expect(valuesOf(y)).toEqual([1, 2, 3, 4])
    const { inferenceCount, executionCount, inferenceStats } = model.stats()
    expect([inferenceCount, executionCount, inferenceStats.success.count]).toEqual([1, 1, 10])
    expect(counts(model)).toEqual({ hits: 0, misses: 1, coalesced: 9, entries: 1 })
  })

  it('gives equal bytes of another shape an answer of their own', async () => {
    const model = await load(engine, small.identityVariable('float32'), { responseCache: true })
    const shapes = [
      [1, 4],
      [2, 2],
      [4, 1],
      [1, 4],
    ]
    for (const dims of shapes) {
      const { y } = await model.infer({ x: floats([1, 2, 3, 4], dims) })
      expect([y!.dims, valuesOf(y)]).toEqual([dims, [1, 2, 3, 4]])
    }
    const at_once = await Promise.all(shapes.map((dims) => model.infer({ x: floats([5, 6, 7, 8], dims) })))
    expect(at_once.map(({ y }) => y!.dims)).toEqual(shapes)
    expect(counts(model)).toEqual({ hits: 1, misses: 6, coalesced: 1, entries: 6 })
  })

  it('gives equal bytes of another type, in a model of that type, an answer of their own', async () => {
    const types = ['float32', 'int32', 'uint32'] as const
    const bits = Uint32Array.from([1, 2, 3, 4])
    for (const type of types) {
      const model = await open({}, small.identity(type))
      const data = { float32: Float32Array, int32: Int32Array, uint32: Uint32Array }[type]
      const { y } = await model.infer({
        x: new Tensor(type as 'float32', new data(bits.slice().buffer) as Float32Array, [1, 4]),
      })
      expect(y!.type).toBe(type)
      expect(counts(model)).toMatchObject({ hits: 0, misses: 1 })
    }
  })

  it('does not mix up what is in one input with what is in another', async () => {
    const model = await open({}, small.addSub('float32'))
    const [one, two] = [1, 2].map((value) => floats(Array<number>(16).fill(value)))
    const differences = [
      [one, two],
      [two, one],
      [one, two],
    ].map(async ([a, b]) => valuesOf((await model.infer({ a: a!, b: b! })).difference)[0])
    expect(await Promise.all(differences)).toEqual([-1, 1, -1])
  })

  it('keeps answers by the outputs that were asked for', async () => {
    const model = await open({}, small.addSub('float32'))
    const feeds = { a: floats(Array<number>(16).fill(1)), b: floats(Array<number>(16).fill(2)) }
    const names: (string[] | undefined)[] = [
      ['sum'],
      ['difference'],
      undefined,
      ['sum'],
      ['sum', 'difference'],
      ['difference', 'sum'],
    ]
    for (const outputs of names)
      expect(Object.keys(await model.infer(feeds, outputs && { outputs })).sort()).toEqual(
        [...(outputs ?? ['sum', 'difference'])].sort(),
      )
    expect(counts(model)).toEqual({ hits: 3, misses: 3, coalesced: 0, entries: 3 })
  })

  it('gives every caller an answer of its own', async () => {
    for (const size of [4, 4096]) {
      const model = await open({}, small.identity('float32', [size]))
      const values = Array.from({ length: size }, (_, at) => at)
      const answers = await Promise.all([1, 2, 3].map(() => model.infer({ x: floats(values) })))
      answers.push(await model.infer({ x: floats(values) }), await model.infer({ x: floats(values) }))
      expect(new Set(answers.map(({ y }) => (y!.data as Float32Array).buffer)).size).toBe(answers.length)
      for (const { y } of answers) {
        expect(valuesOf(y)).toEqual(values)
        ;(y!.data as Float32Array).fill(-1)
        ;(y!.dims as number[]).fill(7)
        structuredClone((y!.data as Float32Array).buffer, {
          transfer: [(y!.data as Float32Array).buffer as ArrayBuffer],
        })
      }
      const { y } = await model.infer({ x: floats(values) })
      expect([y!.dims, valuesOf(y)]).toEqual([[1, size], values])
      expect(counts(model)).toMatchObject({ hits: 3, misses: 1, coalesced: 2 })
    }
  })

  it('reads the data when it is called, also where another thread has it, too', async () => {
    const model = await open()
    for (const [buffer, base] of [
      [new ArrayBuffer(16), 1],
      [new SharedArrayBuffer(16), 5],
    ] as const) {
      const data = new Float32Array(buffer).fill(base)
      const calls = [model.infer({ x: new Tensor('float32', data, [1, 4]) })]
      data.fill(base + 1)
      calls.push(model.infer({ x: new Tensor('float32', data, [1, 4]) }))
      data.fill(base + 2)
      const answers = await Promise.all(calls)
      expect(answers.map(({ y }) => valuesOf(y)[0])).toEqual([base ** 2, (base + 1) ** 2])
      const again = [base, base + 1].map(
        async (value) => valuesOf((await model.infer(x(value, value, value, value))).y)[0],
      )
      expect(await Promise.all(again)).toEqual([base ** 2, (base + 1) ** 2])
    }
  })

  it('keeps no error', async () => {
    const model = await open({ sessionOptions: { logSeverityLevel: 4 } }, small.gatherRow())
    const index = (value: bigint) => ({ index: new Tensor('int64', BigInt64Array.from([value]), [1, 1]) })
    for (let time = 0; time < 2; time++)
      expect(await outcomeOf(model.infer(index(99n)))).toBe('ERR_EXECUTION')
    expect(counts(model)).toEqual({ hits: 0, misses: 2, coalesced: 0, entries: 0 })
    expect(await outcomeOf(model.infer({ x: floats([1]) }))).toBe('ERR_INVALID_ARG')
    expect(counts(model).misses).toBe(2) // it never came to be looked up
  })

  it('drops what was not asked for longest when there is no room', async () => {
    const model = await open({ responseCache: { maxBytes: 20_000 } })
    for (let value = 0; value < 100; value++) {
      await model.infer(x(value, 0, 0, 0))
      await model.infer(x(0, 0, 0, 0))
    }
    const { hits, misses, evictions, entries, bytes } = model.stats().responseCache!
    expect([misses, hits]).toEqual([100, 100])
    expect(entries).toBeGreaterThan(3)
    expect([entries + evictions, bytes <= 20_000]).toEqual([100, true])
    expect(valuesOf((await model.infer(x(5, 0, 0, 0))).y)).toEqual([25, 0, 0, 0])
    expect(model.stats().responseCache!.misses).toBe(101)
  })

  it('forgets all when it is unloaded, and one loaded under its name knows nothing of it', async () => {
    const own = ownEngine()
    const load = (path: string) => own.load('same', { path, responseCache: true })
    const squares = await load(small.elementSquares())
    expect(valuesOf((await squares.infer(x(1, 2, 3, 4))).y)).toEqual([1, 4, 9, 16])
    await own.unload('same')
    expect(squares.stats().responseCache).toMatchObject({ entries: 0, bytes: 0 })
    const identity = await load(small.identity('float32'))
    expect(valuesOf((await identity.infer(x(1, 2, 3, 4))).y)).toEqual([1, 2, 3, 4])
    expect(await outcomeOf(squares.infer(x(1, 2, 3, 4)))).toBe('ERR_CLOSED')
  })

  it('is never asked for what has taken its place, or stands beside it in another version', async () => {
    const own = ownEngine()
    const load = (path: string, version: number) => own.load('same', { path, version, responseCache: true })
    const first = async (version?: number) =>
      valuesOf((await own.infer('same', x(1, 2, 3, 4), version === undefined ? {} : { version })).y)
    await load(small.elementSquares(), 1)
    for (let time = 0; time < 2; time++) expect(await first()).toEqual([1, 4, 9, 16])
    const waiting = Promise.all([first(), first()])
    await load(small.identity('float32'), 1)
    expect(await waiting).toEqual([
      [1, 4, 9, 16],
      [1, 4, 9, 16],
    ])
    for (let time = 0; time < 2; time++) expect(await first()).toEqual([1, 2, 3, 4])
    await load(small.elementSquares(), 2)
    for (let time = 0; time < 2; time++)
      expect([await first(1), await first(2)]).toEqual([
        [1, 2, 3, 4],
        [1, 4, 9, 16],
      ])
  })

  it('lets the event loop go on while calls that are all answered from the cache follow each other', async () => {
    const model = await open()
    await model.infer(x(1, 2, 3, 4))
    let stop = false
    setTimeout(() => (stop = true), 5)
    let calls = 0
    for (; !stop; calls++) await model.infer(x(1, 2, 3, 4))
    expect(calls).toBeGreaterThan(5)
    expect(counts(model)).toMatchObject({ hits: calls, misses: 1 })
  })
})

describe('statistics and reports', () => {
  it('say what was answered from where', async () => {
    const model = await open()
    const own = await reported(model, x(1, 2, 3, 4), { requestId: 'first' })
    const { outputs, report } = await reported(model, x(1, 2, 3, 4))
    expect(own.report).not.toHaveProperty('cached')
    expect(valuesOf(outputs.y)).toEqual([1, 4, 9, 16])
    expect(report).toEqual({ ...own.report, queuedMs: 0, computeMs: 0, cached: true })
    report.batchId = 99
    expect((await reported(model, x(1, 2, 3, 4))).report.batchId).toBe(own.report.batchId)
  })

  it('count hits as successes, which have taken no run', async () => {
    const model = await open()
    const before = Date.now()
    for (let time = 0; time < 5; time++) await model.infer(x(1, 2, 3, 4))
    const { inferenceStats, inferenceCount, executionCount, latency, batchStats, lastInferenceMs } =
      model.stats()
    const { success, queue, computeInput, computeInfer, computeOutput, cacheHit, cacheMiss } = inferenceStats
    expect(
      [success, queue, computeInput, computeInfer, computeOutput, cacheHit, cacheMiss].map(
        ({ count }) => count,
      ),
    ).toEqual([5, 5, 1, 1, 1, 4, 1])
    expect([inferenceCount, executionCount, batchStats[0]!.computeInfer.count]).toEqual([1, 1, 1])
    expect([latency.total.count, latency.queue.count, latency.compute.count]).toEqual([5, 5, 1])
    expect(cacheHit.ns).toBeGreaterThan(0)
    expect(cacheMiss.ns).toBeGreaterThan(0)
    expect(success.ns).toBeGreaterThanOrEqual(cacheHit.ns)
    expect(lastInferenceMs).toBeGreaterThanOrEqual(before)
  })

  it('say how long each caller of a shared run has waited', async () => {
    const model = await open({ dynamicBatching: { maxQueueDelayMs: 200 } })
    await reported(model, x(4, 3, 2, 1))
    const before = model.stats().inferenceStats
    const first = reported(model, x(1, 2, 3, 4))
    const calledMs = performance.now()
    await until(() => performance.now() > calledMs + 3)
    const laterMs = performance.now() - calledMs
    const second = reported(model, x(1, 2, 3, 4))
    const queuedMs = [(await first).report.queuedMs, (await second).report.queuedMs]
    expect((await second).report.coalesced).toBe(true)
    expect(queuedMs[1]).toBeGreaterThan(0)
    expect(queuedMs[0]! - queuedMs[1]!).toBeGreaterThanOrEqual(laterMs)
    const { queue, success } = model.stats().inferenceStats
    const queuedNs = queue.ns - before.queue.ns
    expect([
      queue.count - before.queue.count,
      Math.abs(queuedNs / 1e6 - queuedMs[0]! - queuedMs[1]!) < 1,
      success.ns > queue.ns,
    ]).toEqual([2, true, true])
  })

  it('have nothing of it in a model without', async () => {
    const model = await load(engine, small.elementSquares())
    const { report } = await reported(model, x(1, 2, 3, 4))
    const { inferenceStats, responseCache } = model.stats()
    expect(responseCache).toBeNull()
    expect([inferenceStats.cacheHit, inferenceStats.cacheMiss]).toEqual([
      { count: 0, ns: 0 },
      { count: 0, ns: 0 },
    ])
    expect([report.cached, report.coalesced]).toEqual([undefined, undefined])
    expect(engine.stats().models[model.name]!.responseCache).toBeNull()
  })
})

describe('the options', () => {
  it.each<[ModelOptions, boolean, boolean]>([
    [{}, false, false],
    [{ responseCache: false }, false, false],
    [{ responseCache: true }, true, true],
    [{ responseCache: {} }, true, true],
    [{ responseCache: { coalesce: false } }, true, false],
    [{ responseCache: true, coalesce: false }, true, false],
    [{ coalesce: true }, false, true],
    [{ responseCache: false, coalesce: true }, false, true],
    [{ coalesce: false }, false, false],
    [{ responseCache: { coalesce: true }, coalesce: true }, true, true],
  ])('%j keep answers: %s, share runs: %s', async (options, keeps, shares) => {
    const model = await load(engine, small.elementSquares(), options)
    await Promise.all([model.infer(x(1, 2, 3, 4)), model.infer(x(1, 2, 3, 4))])
    await model.infer(x(1, 2, 3, 4))
    const { responseCache, inferenceCount } = model.stats()
    expect(inferenceCount).toBe((shares ? 1 : 2) + (keeps ? 0 : 1))
    if (!keeps && !shares) expect(responseCache).toBeNull()
    else
      expect(responseCache).toMatchObject({
        hits: keeps ? 1 : 0,
        coalesced: shares ? 1 : 0,
        entries: keeps ? 1 : 0,
      })
  })

  it.each<[ModelOptions, string, RegExp]>([
    [{ responseCache: 5 as never }, 'responseCache', /boolean|Object|plain/],
    [{ responseCache: { maxBytes: 0 } }, 'responseCache.maxBytes', />=1/],
    [{ responseCache: { maxBytes: 1.5 } }, 'responseCache.maxBytes', /whole number/],
    [{ responseCache: { maxBites: 5 } as never }, 'responseCache.maxBites', /one of maxBytes, coalesce/],
    [{ responseCache: { coalesce: 'yes' as never } }, 'responseCache.coalesce', /boolean/],
    [{ coalesce: 1 as never }, 'coalesce', /boolean/],
    [
      { responseCache: { coalesce: true }, coalesce: false },
      'responseCache.coalesce',
      /false, as coalesce beside it/,
    ],
  ])('%j are refused', async (options, argument, expected) => {
    const error = await engine.load('refused', { path: small.elementSquares(), ...options }).then(
      () => null,
      (reason: unknown) => reason,
    )
    expect(error).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument,
      expected: expect.stringMatching(expected),
    })
  })
})
