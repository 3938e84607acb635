import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { BindingExecutor } from '../../src/run/executors/binding/binding-executor.ts'
import { NativeExecutor } from '../../src/run/executors/native/native-executor.ts'
import { Tensor, type Model } from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import { constant, graph } from '../models/builder.ts'
import { dependentRows } from '../models/dependent-rows.ts'
import { detector } from '../models/detectors.ts'
import { broadcast, divided, nodesAndEdges } from '../models/particular-rows.ts'
import { optionalBias } from '../models/scheduling.ts'
import * as small from '../models/small.ts'
import { executorKinds } from '../support/executors.ts'
import { batchSizes, largestBatch, matchesPlain } from '../support/against-plain.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { ortForm } from '../support/ort-form.ts'
import { requestsOf } from '../support/row-requests.ts'
import { noise } from '../support/samples.ts'

const engine = sharedEngine({ cpuWorkers: 1 })
const hold = (count: number) => ({ dynamicBatching: { holdUntilQueued: count } })
const ones = (count: number) => Array.from({ length: count }, () => ({ x: noise([1, 4]) }))

/** Warnings of this library from now on, that of a missing addon aside. */
function warnings(): { code?: string; message: string }[] {
  const seen: { code?: string; message: string }[] = []
  const note = (warning: Error & { code?: string }) => {
    if (warning.name === 'ZerohopWarning' && warning.code !== 'ZEROHOP_STAGING_FALLBACK') seen.push(warning)
  }
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  return seen
}
afterEach(() => void vi.restoreAllMocks())
const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('a model whose maxBatchSize is given', () => {
  it('is joined though its rows meet in the graph, without a run, and one warning names the node', async () => {
    const seen = warnings()
    const runs = vi.spyOn(NativeExecutor.prototype, 'runSample')
    const model = await load(engine, small.mixesRows(), {
      maxBatchSize: 8,
      warmup: false,
      ...hold(2),
      instanceGroup: [{ count: 2 }],
    })
    const { joining } = model.metadata
    expect(joining).toEqual({
      rows: 'declared',
      how: 'declared',
      node: expect.any(String),
      largestDifference: null,
      reason: expect.stringContaining('maxBatchSize'),
    })
    expect(runs).not.toHaveBeenCalled()
    await Promise.all(
      ones(2).map(({ x }) => model.infer({ x: new Tensor('float32', x.data as Float32Array, x.dims) })),
    )
    expect(batchSizes(model)).toEqual([2])
    await turn()
    expect(seen).toEqual([
      expect.objectContaining({
        code: 'ZEROHOP_DEPENDENT_ROWS',
        message: expect.stringContaining(joining.node!),
      }),
    ])
  })

  it('is joined though runs show that its rows depend on each other, and one warning says by how much', async () => {
    const seen = warnings()
    const model = await load(engine, await ortForm(small.mixesRows()), {
      maxBatchSize: 8,
      ...hold(2),
      instanceGroup: [{ count: 2 }],
    })
    expect(model.metadata).toMatchObject({
      maxBatchSize: 8,
      joining: { rows: 'declared', reason: expect.stringContaining('maxBatchSize') },
    })
    await vi.waitFor(() => expect(model.metadata.joining.largestDifference).toBeGreaterThan(0.5))
    await Promise.all(
      ones(2).map(({ x }) => model.infer({ x: new Tensor('float32', x.data as Float32Array, x.dims) })),
    )
    expect(batchSizes(model)).toEqual([2])
    await turn()
    expect(seen).toEqual([
      expect.objectContaining({
        code: 'ZEROHOP_DEPENDENT_ROWS',
        message: expect.stringMatching(/difference .*%/),
      }),
    ])
  })

  it('is warned about once where it is a detector, with how its boxes are divided, and what runs show ends its joining', async () => {
    const seen = warnings()
    const model = await load(engine, detector(), { maxBatchSize: 8, ...hold(2) })
    const image = () => ({ x: new Tensor('float32', noise([1, 64]).data as Float32Array, [1, 1, 8, 8]) })
    expect(model.metadata.joining).toMatchObject({
      rows: 'declared',
      reason: expect.stringContaining('docs/guide/detectors.md'),
    })
    await Promise.all([model.infer(image()), model.infer(image())])
    await turn()
    expect(model.metadata.joining).toMatchObject({
      rows: 'dependent',
      reason: expect.stringContaining('outputs: [{ name, rows }]'),
    })
    expect(seen).toEqual([
      expect.objectContaining({
        code: 'ZEROHOP_DEPENDENT_ROWS',
        message: expect.stringMatching(
          /^Rows of model .* meet in its graph .*NonMaxSuppression .*docs\/guide\/detectors\.md/,
        ),
      }),
    ])
  })

  it('says of outputs whose rows are given that the graph is not asked of them', async () => {
    const outputs = [{ name: 'selected', rows: { index: 0 } }] as const
    const { joining } = (await load(engine, detector(), { outputs, checkRows: false })).metadata
    expect(joining).toMatchObject({
      rows: 'unknown',
      reason: expect.stringContaining(
        "output 'selected' says whose its entries are (rows), which the graph is not asked of",
      ),
    })
  })

  it('is not warned about where its rows are independent', async () => {
    const seen = warnings()
    const model = await load(engine, small.identity('float32'), { maxBatchSize: 8 })
    expect(model.metadata.joining).toMatchObject({
      rows: 'declared',
      how: 'declared',
      largestDifference: null,
    })
    const unread = await load(engine, await ortForm(small.identity('float32')), { maxBatchSize: 8 })
    await vi.waitFor(() =>
      expect(unread.metadata.joining).toMatchObject({ rows: 'declared', largestDifference: 0 }),
    )
    await turn()
    expect(seen).toEqual([])
  })

  it('is not checked with checkRows: false', async () => {
    const seen = warnings()
    const model = await load(engine, small.mixesRows(), { maxBatchSize: 8, checkRows: false })
    expect(model.metadata.joining).toMatchObject({ rows: 'declared', largestDifference: null })
    await turn()
    expect(seen).toEqual([])
  })

  it('refuses more rows, without advice that would change answers', async () => {
    const model = await load(engine, small.mixesRows(), { maxBatchSize: 2, checkRows: false })
    const error = await rejectionOf(() =>
      model.infer({ x: new Tensor('float32', new Float32Array(12), [3, 4]) }),
    )
    expectRefusal(error, { argument: "input 'x'", expected: /at most 2 rows/, received: 3 })
    expect((error as Error).message).toMatch(/Without maxBatchSize .* if no row depends on another/)
  })
})

describe('a model whose requests are not joined', () => {
  it('is not without a check where nothing is proved', async () => {
    const model = await load(engine, await ortForm(small.identity('float32')), {
      checkRows: false,
      ...hold(3),
    })
    expect(model.metadata).toMatchObject({
      maxBatchSize: 0,
      joining: { rows: 'unknown', largestDifference: null, reason: expect.stringContaining('checkRows') },
    })
    await matchesPlain(model, [...ones(2), { x: noise([5, 4]) }])
    expect(model.stats().executionCount).toBe(3)
  })

  it('is not checked when it was to be so', async () => {
    for (const config of [{ maxBatchSize: 0 }, { dynamicBatching: false }] as const) {
      const model = await load(engine, small.identity('float32'), config)
      expect(model.metadata.joining).toMatchObject({
        rows: 'unknown',
        largestDifference: null,
        reason: expect.stringContaining(Object.keys(config)[0]!),
      })
      await matchesPlain(model, [...ones(2), { x: noise([50, 4]) }])
    }
  })

  it('is served as it is whatever its scheduling says', async () => {
    const dynamicBatching = { maxQueueDelayMs: 5, preferredBatchSize: [4, 8], holdUntilQueued: 3 }
    const model = await load(engine, small.gram(), { dynamicBatching, splitOversized: true })
    expect(model.metadata.joining.rows).toBe('dependent')
    await matchesPlain(
      model,
      [3, 1, 50].map((rows) => ({ x: noise([rows, 4]) })),
    )
    expect(model.stats().executionCount).toBe(3)
  })

  it('is so too where its shapes are the reason', async () => {
    const dynamicBatching = { maxQueueDelayMs: 5, preferredBatchSize: [4, 8], holdUntilQueued: 3 }
    const model = await load(engine, small.identityUnbatched('float32', [3, 4]), { dynamicBatching })
    expect(model.metadata.maxBatchSize).toBe(0)
  })

  it('takes a bare array for one row all the same', async () => {
    const model = await load(engine, small.mixesRows())
    expect((await model.infer({ x: Float32Array.of(1, 2, 3, 4) })).y!.dims).toEqual([1, 4])
  })

  it('pads nothing', async () => {
    const model = await load(engine, await ortForm(small.identityVariable('float32')), {
      padding: { input: 'x', dim: 1, sizes: [8] },
      checkRows: false,
    })
    await matchesPlain(model, [{ x: noise([1, 3]) }, { x: noise([2, 5]) }])
  })

  it('takes requests of any first dimensions', async () => {
    const model = await load(engine, nodesAndEdges().path)
    const edges = { type: 'int64', dims: [3, 2], data: BigInt64Array.of(0n, 1n, 1n, 4n, 3n, 0n) } as const
    await matchesPlain(model, [
      { nodes: noise([5, 4]), edges },
      { nodes: noise([70, 4]), edges },
    ])
    expect(model.metadata.joining.rows).not.toBe('independent')
  })
})

describe('a limit that nobody set', () => {
  it('refuses no request of more rows: it runs alone as it is', async () => {
    const model = await load(engine, small.identity('float32'), hold(3))
    expect(model.metadata.maxBatchSize).toBe(32)
    await matchesPlain(model, [{ x: noise([100, 4]) }, ...ones(2)])
    expect(model.stats().executionCount).toBe(2)
    expect(largestBatch(model)).toBe(2)
  })

  it('refuses no request whose inputs differ in their first dimension', async () => {
    const model = await load(engine, broadcast().path, hold(4))
    expect(model.metadata.joining.rows).toBe('independent')
    const pair = (rows: number, biasRows: number) => ({ x: noise([rows, 4]), bias: noise([biasRows, 4]) })
    await matchesPlain(model, [pair(3, 1), pair(1, 3), pair(1, 1), pair(2, 2)])
    expect(model.stats().executionCount).toBe(3)
  })

  it('is kept to by a request that asks to be split', async () => {
    const model = await load(engine, small.identity('float32'), { splitOversized: true })
    await matchesPlain(model, [{ x: noise([70, 4]) }])
    expect(model.stats().executionCount).toBe(3)
  })
})

describe('a model whose rows are proved to be independent', () => {
  it.each(executorKinds)('is joined from the first request on, without a run (%s)', async (executor) => {
    const runs = [NativeExecutor, BindingExecutor].map((each) => vi.spyOn(each.prototype, 'runSample'))
    const model = await load(ownEngine({ cpuWorkers: 1, executor }), small.identity('float32'), {
      warmup: false,
      ...hold(3),
    })
    expect(model.metadata).toMatchObject({
      maxBatchSize: 32,
      joining: { rows: 'independent', how: 'proved', largestDifference: null },
    })
    await matchesPlain(model, ones(3))
    expect(model.stats().executionCount).toBe(1)
    for (const run of runs) expect(run).not.toHaveBeenCalled()
  })

  it('is so where it is given as bytes', async () => {
    const model = await ownEngine({ cpuWorkers: 1 }).load('m', {
      bytes: readFileSync(small.identity('float32')),
    })
    expect(model.metadata.joining).toMatchObject({ rows: 'independent', how: 'proved' })
  })

  it('is not where data beside its file are given with it, which the graph is not read with', async () => {
    const path = small.withExternalData()
    const externalData = [
      { path: 'external-data.data', data: readFileSync(path.replace(/[^/]*$/, 'external-data.data')) },
    ]
    for (const source of [{ path }, { bytes: readFileSync(path) }]) {
      const own = ownEngine({ cpuWorkers: 1 })
      const model = await own.load('m', { ...source, sessionOptions: { externalData } })
      await vi.waitFor(() =>
        expect(model.metadata.joining).toMatchObject({ rows: 'independent', how: 'checked' }),
      )
      expect((await own.load('beside', { path })).metadata.joining).toMatchObject({
        rows: 'independent',
        how: 'proved',
      })
    }
  })

  it('is joined with checkRows: false as well, which is about runs', async () => {
    const model = await load(engine, small.identity('float32'), { checkRows: false, ...hold(3) })
    expect(model.metadata.joining).toMatchObject({ rows: 'independent', how: 'proved' })
    await matchesPlain(model, ones(3))
    expect(model.stats().executionCount).toBe(1)
  })

  it.skipIf(!executorKinds.some((kind) => kind === 'native'))(
    'is not joined where a request may leave out an input with which alone it is proved',
    async () => {
      // Without the bias, whose length counts then, a row is as many entries of the softmax as the bias has, which is 1: all of a run.
      const built = graph('left out')
        .input('x', 'float32', [1, 'A', 3])
        .input('bias', 'float32', [1, 'B', 3])
        .output('y', 'float32', [1, 'C', 3])
      built
        .initializer('bias', 'float32', [1, 1, 3], [0, 0, 0])
        .initializer('one', 'int64', [1], [1n])
        .initializer('rest', 'int64', [1], [-1n])
        .initializer('back', 'int64', [3], [1n, -1n, 3n])
      built
        .node('Shape', ['bias'], ['count'], { start: 1, end: 2 })
        .node('Concat', ['one', 'count', 'rest'], ['to'], { axis: 0 })
        .node('Reshape', ['x', 'to'], ['parts'])
      built.node('Softmax', ['parts'], ['shares'], { axis: 2 }).node('Reshape', ['shares', 'back'], ['y'])
      const model = await ownEngine({ cpuWorkers: 1, executor: 'native' }).load('m', {
        bytes: built.build({ opset: 17 }),
        optionalInputs: ['bias'],
        warmup: false,
        ...hold(2),
      })
      expect(model.metadata.joining.how).not.toBe('proved')
      const request = () => model.infer({ x: new Tensor('float32', Float32Array.of(0, 1, 2), [1, 1, 3]) })
      for (const { y } of await Promise.all([request(), request()]))
        expect(Array.from(y!.data as Float32Array, (share) => share.toFixed(3))).toEqual([
          '0.090',
          '0.245',
          '0.665',
        ])
    },
  )

  it.each([0, 2 ** 20 + 1])(
    'is joined with lengths from 1 to a million: with %d each request runs alone, as no proof holds for that',
    async (length) => {
      const count = (name: string) =>
        graph(name)
          .node('Shape', ['x'], ['count'], { end: 1 })
          .node('ConstantOfShape', ['count'], ['ones'], { value: constant('', 'float32', [1], [1]) })
      // Beyond these lengths, rows are given their own numbers.
      const built = graph('numbers')
        .input('x', 'float32', ['N', 'S'])
        .output('y', 'float32', ['N'])
        .initializer('zero', 'int64', [], [0n])
        .initializer('one', 'int64', [], [1n])
        .initializer('most', 'int64', [], [2n ** 20n])
      built.node('Shape', ['x'], ['shape']).node('Gather', ['shape', 'one'], ['length'])
      built
        .node('LessOrEqual', ['length', 'most'], ['is short'])
        .node('GreaterOrEqual', ['length', 'one'], ['is long'])
        .node('And', ['is short', 'is long'], ['usual'])
      built.node('If', ['usual'], ['y'], {
        then_branch: count('then')
          .node('Identity', ['ones'], ['same'])
          .output('same', 'float32', ['N'])
          .subgraph(),
        else_branch: count('else')
          .node('CumSum', ['ones', 'zero'], ['numbers'])
          .output('numbers', 'float32', ['N'])
          .subgraph(),
      })
      const model = await ownEngine({ cpuWorkers: 1 }).load('m', {
        bytes: built.build({ opset: 17 }),
        warmup: false,
        ...hold(2),
      })
      expect(model.metadata.joining).toMatchObject({ rows: 'independent', how: 'proved' })
      const request = (width: number) =>
        model.infer({ x: new Tensor('float32', new Float32Array(width), [1, width]) })
      const answers = await Promise.all([request(length), request(length), request(4), request(4)])
      expect(answers.map(({ y }) => [...(y!.data as Float32Array)])).toEqual([[1], [1], [1], [1]])
      expect(batchSizes(model)).toEqual([1, 2])
    },
  )

  it('is not joined, and not run, where its rows are proved to meet, whatever runs would show', async () => {
    const runs = vi.spyOn(NativeExecutor.prototype, 'runSample')
    const model = await load(engine, small.mixesRows(), { warmup: false })
    expect(model.metadata).toMatchObject({
      maxBatchSize: 0,
      joining: { rows: 'dependent', how: 'proved', node: expect.any(String), largestDifference: null },
    })
    expect(runs).not.toHaveBeenCalled()
  })
})

describe('the check at load', () => {
  it('divides by no zero', async () => {
    const graph = divided()
    const model = await load(engine, graph.path, hold(3))
    expect(model.metadata.joining.rows).toBe('independent')
    await matchesPlain(model, requestsOf(graph, [1, 2, 1]))
  })

  it('is done by one instance, whatever others there are, and is no warm-up sample', async () => {
    const instances = ownEngine({ cpuWorkers: 2 })
    const model = await load(instances, small.identity('float32'), {
      instanceGroup: [{ count: 2 }],
      warmup: false,
      ...hold(2),
    })
    expect(model.metadata.joining.rows).toBe('independent')
    expect(model.stats()).toMatchObject({ inferenceCount: 0, executionCount: 0 })
  })

  it('of a model that is closed meanwhile leaves nothing behind', async () => {
    const own = ownEngine({ cpuWorkers: 1 })
    const loading = own.load('m', { path: small.identity('float32') })
    const outcome = loading.then(
      () => 'loaded',
      (error: { code: string }) => error.code,
    )
    await own.close()
    expect(['loaded', 'ERR_CLOSED']).toContain(await outcome)
  })

  it('uses the shapes of warm-up samples', async () => {
    const sequences = small.identityVariable('float32')
    const warmup = [
      {
        feeds: {
          x: new Tensor(
            'float32',
            Float32Array.from({ length: 10 }, (_, at) => at),
            [2, 5],
          ),
        },
      },
    ]
    const model: Model = await load(engine, sequences, { warmup, ...hold(2) })
    expect(model.metadata.joining.rows).toBe('independent')
  })

  it('takes samples of several shapes, with optional inputs and without', async () => {
    const feeds = (rows: number, length: number) => ({
      x: new Tensor(
        'float32',
        Float32Array.from({ length: rows * length }, (_, at) => at + 1),
        [rows, length],
      ),
    })
    const warmup = [{ feeds: feeds(2, 5) }, { feeds: feeds(1, 3) }, { feeds: feeds(40, 5) }]
    const model = await load(engine, small.identityVariable('float32'), { warmup, ...hold(2) })
    expect(model.metadata.joining.rows).toBe('independent')
    await matchesPlain(model, [{ x: noise([1, 3]) }, { x: noise([2, 3]) }])
    expect(largestBatch(model)).toBe(3)
    const withBias = { x: Float32Array.of(1, 2, 3, 4), bias: Float32Array.of(5, 6, 7, 8) }
    const optional = await load(engine, optionalBias(), {
      optionalInputs: ['bias'],
      warmup: [{ feeds: { x: withBias.x } }, { feeds: withBias }],
    })
    expect(optional.metadata.joining.rows).not.toBe('dependent')
  })

  it('hides nothing that depends on what comes in a certain order', async () => {
    for (const { path } of dependentRows().slice(0, 3)) {
      for (const latencyTargetMs of [undefined, 1000]) {
        const model = await load(engine, path, latencyTargetMs === undefined ? {} : { latencyTargetMs })
        expect(model.metadata.joining.rows).toBe('dependent')
        expect(model.capacity().maxBatchSize).toBe(0)
      }
    }
  })
})
