import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { Tensor, type Model } from '../../src/index.ts'
import { ScaleWatch } from '../../src/models/scaling/scaling.ts'
import { WorkerSession } from '../../src/run/worker-session.ts'
import type { MailedTensor } from '../../src/tensor/tensor.ts'
import { farIds, farIdsIgnored, farIdsOfKinds, farIdsSummed, farPairs } from '../models/particular-rows.ts'
import { identity, matmulSlow, mixesRows } from '../models/small.ts'
import { batchSizes, matchesPlain } from '../support/against-plain.ts'
import { decided, holdChecks } from '../support/decided.ts'
import { load, ownEngine } from '../support/open.ts'
import { ortForm } from '../support/ort-form.ts'
import type { Samples } from '../support/plain.ts'
import { until } from '../support/until.ts'

const ids = (...values: number[]): Samples => ({
  x: { type: 'int64', dims: [values.length], data: BigInt64Array.from(values, BigInt) },
})
/** Without its graph, which would settle some of it. */
const open = async (path: string, config = {}) =>
  load(ownEngine({ cpuWorkers: 1 }), await ortForm(path), config)
const several = [ids(1003), ids(1040), ids(1011)]
const runs = (model: Model) => model.stats().executionCount

describe('a model whose check takes longer than its load', () => {
  it('runs requests alone, reports the result of the check as an event, and then joins them', async () => {
    const engine = ownEngine({ cpuWorkers: 1 })
    const told: string[] = []
    engine.on('model', ({ type }) => told.push(type))
    const model = await load(engine, await ortForm(matmulSlow(256, 200)))
    expect(model.metadata).toMatchObject({ maxBatchSize: 0, joining: { rows: 'unknown' } })
    const x = Float32Array.from({ length: 256 }, (_, index) => index % 7)
    let known = false
    const answers: unknown[] = []
    const calling = Array.from({ length: 3 }, async () => {
      while (!known) answers.push((await model.infer({ x: new Tensor('float32', x, [1, 256]) })).y!.data)
    })
    expect(await model.joiningKnown()).toMatchObject({ rows: 'independent', how: 'checked' })
    known = true
    await Promise.all(calling)
    expect(told).toEqual(['ready', 'joining'])
    expect(model.metadata.maxBatchSize).toBe(32)
    expect(answers.every((answer) => String(answer) === String(answers[0]))).toBe(true)
    expect(await model.joiningKnown()).toBe(model.metadata.joining)
  })

  it.each([
    [
      'batches of all sizes for a latency target, once its requests may share runs',
      identity,
      [1, 2, 4, 8, 16, 32],
    ],
    ['single runs alone where they may not', mixesRows, []],
  ])('measures %s', async (_, modelOf, sizes) => {
    const go = holdChecks()
    const engine = ownEngine({ cpuWorkers: 1 })
    const model = await load(engine, await ortForm(modelOf('float32')), { latencyTargetMs: 1000 })
    const measured = () =>
      vi
        .mocked(WorkerSession.prototype.runSample)
        .mock.calls.flatMap(([[x], isOfCheck]) => (isOfCheck === true ? [] : [(x as MailedTensor).dims[0]]))
    const alone = measured()
    expect(new Set(alone)).toEqual(new Set([1]))
    await model.infer({ x: new Tensor('float32', new Float32Array(4), [1, 4]) })
    expect(measured()).toEqual(alone)
    go()
    await model.joiningKnown()
    const joined = sizes.flatMap((rows) => [rows, rows, rows, rows])
    await until(() => measured().length >= alone.length + joined.length)
    expect(measured()).toEqual([...alone, ...joined])
  })

  it('is tuned only once it is known whether its requests may share runs', async () => {
    const go = holdChecks()
    const begins = vi.spyOn(ScaleWatch.prototype, 'joiningKnown')
    const engine = ownEngine({ cpuWorkers: 1 })
    const model = await load(engine, await ortForm(identity('float32')), { autoTune: true })
    await model.infer({ x: new Tensor('float32', new Float32Array(4), [1, 4]) })
    expect(begins).not.toHaveBeenCalled()
    expect(model.stats().autoTune).toMatchObject({ state: 'watching', batchRows: 1 })
    go()
    await model.joiningKnown()
    await until(() => model.stats().autoTune!.batchRows === 32)
  })
})

describe('a model that no made-up row can be run on', () => {
  it('is served alone until its first requests have shown that rows are independent, then joined', async () => {
    const model = await open(farIds().path)
    expect(model.metadata).toMatchObject({
      maxBatchSize: 0,
      joining: {
        rows: 'unknown',
        reason: expect.stringContaining('the model does not run on generated rows'),
      },
    })
    await matchesPlain(model, several)
    expect(runs(model)).toBe(3)
    await decided(model)
    expect(model.metadata).toMatchObject({
      maxBatchSize: 32,
      joining: { rows: 'independent', largestDifference: 0 },
    })
    await matchesPlain(model, [ids(1005), ids(1006, 1001), ids(1049)])
    expect(runs(model)).toBe(4)
    expect(batchSizes(model)).toEqual([1, 4])
  })

  it('stays alone when they have shown that rows depend on each other', async () => {
    const model = await open(farIdsSummed().path)
    await matchesPlain(model, several)
    await decided(model)
    expect(model.metadata).toMatchObject({
      maxBatchSize: 0,
      joining: { rows: 'dependent', reason: expect.stringContaining("output 'y'") },
    })
    await matchesPlain(model, several)
    expect(runs(model)).toBe(6)
  })

  it('looks into the rows of requests that have several', async () => {
    const model = await open(farIdsSummed().path)
    await matchesPlain(model, [ids(1003, 1004), ids(1040, 1007), ids(1011, 1000)])
    await decided(model)
    expect(model.metadata.joining.rows).toBe('dependent')
  })

  it('stays alone when requests cannot be divided into rows', async () => {
    const model = await open(farPairs().path)
    await matchesPlain(model, [ids(1003, 1004), ids(1040, 1007), ids(1011, 1000)])
    await until(() => model.metadata.joining.reason.includes('divided'))
    expect(model.metadata).toMatchObject({ maxBatchSize: 0, joining: { rows: 'unknown' } })
    await matchesPlain(model, [ids(1003, 1004), ids(1040, 1007, 1001, 1002)])
    expect(runs(model)).toBe(5)
  })

  it('stays undecided while an input is the same in all of them', async () => {
    const model = await open(farIdsOfKinds().path)
    const of = (kind: number) =>
      several.map((request): Samples => ({
        ...request,
        kind: { type: 'int64', dims: [1], data: BigInt64Array.of(BigInt(kind)) },
      }))
    await matchesPlain(model, of(0))
    await until(() => model.metadata.joining.reason.includes('same in all'))
    expect(model.metadata).toMatchObject({
      maxBatchSize: 0,
      joining: {
        rows: 'unknown',
        reason: expect.stringContaining("input 'kind' was the same in all requests that were compared"),
      },
    })
    await matchesPlain(model, [of(0)[1]!, of(1)[0]!, of(0)[2]!])
    await decided(model)
    expect(model.metadata.joining.rows).toBe('dependent')
  })

  it('learns nothing from one request that comes again and again', async () => {
    const model = await open(farIds().path)
    for (let round = 0; round < 10; round++) await matchesPlain(model, [several[0]!, several[0]!])
    expect(model.metadata.joining.rows).toBe('unknown')
  })

  it('reads what it was given, whatever the arrays say of themselves', async () => {
    class Strange extends BigInt64Array {
      override get buffer(): never {
        throw new Error('of its own')
      }
    }
    const model = await open(farIds().path)
    const given = (data: BigInt64Array) =>
      model.infer({ x: { type: 'int64', dims: [1], data } as unknown as Tensor })
    const ids = [1003n, 1040n, 1011n]
    const answers = await Promise.all(ids.map((id) => given(Strange.of(id))))
    expect(answers).toEqual(await Promise.all(ids.map((id) => given(BigInt64Array.of(id)))))
    await decided(model)
  })

  it('is decided by two requests where no third one comes', async () => {
    const model = await open(farIds().path)
    for (let round = 0; round < 10; round++) await matchesPlain(model, several.slice(0, 2))
    await decided(model)
    expect(model.metadata.joining.rows).toBe('independent')
  })

  it('is left undecided after some trials in which all answers were the same', async () => {
    const model = await open(farIdsIgnored().path)
    for (let round = 0; round < 6; round++) {
      await matchesPlain(
        model,
        [0, 1, 2].map((index) => ids(1000 + 3 * round + index)),
      )
      await new Promise((resolve) => setTimeout(resolve, 20)) // so that a trial is over
    }
    await until(() => model.metadata.joining.reason.includes("output 'y' is the same"))
    expect(model.metadata).toMatchObject({ maxBatchSize: 0, joining: { rows: 'unknown' } })
    await matchesPlain(model, several)
  })

  it('takes no notice of requests with too many rows, or without any', async () => {
    const model = await open(farIds().path)
    const many = Array.from({ length: 40 }, (_, at) => 1000 + at)
    await matchesPlain(model, [ids(...many), ids(...many.toReversed()), ids(...many.slice(1), 1000), ids()])
    expect(model.metadata.joining.rows).toBe('unknown')
  })

  it('keeps its promise when it is unloaded during a trial', async () => {
    const model = await open(farIds().path)
    const engine = ownEngine({ cpuWorkers: 1 })
    const own = await engine.load('m', { path: farIds().path })
    await matchesPlain(own, several)
    await engine.unload('m')
    await matchesPlain(model, several)
  })
})

describe('a declared model that no made-up row can be run on', () => {
  it('is joined at once, and warned about when its first requests show that rows depend on each other', async () => {
    const seen: Error[] = []
    const note = (warning: Error) => void (warning.name === 'ZerohopWarning' && seen.push(warning))
    process.on('warning', note)
    onTestFinished(() => void process.off('warning', note))
    const model = await open(farIdsSummed().path, {
      maxBatchSize: 8,
      dynamicBatching: { holdUntilQueued: 3 },
    })
    expect(model.metadata).toMatchObject({
      maxBatchSize: 8,
      joining: { rows: 'declared', largestDifference: null },
    })
    expect(seen).toEqual([])
    const feeds = () =>
      several.map(({ x }) => ({ x: new Tensor('int64', (x!.data as BigInt64Array).slice(), x!.dims) }))
    await Promise.all(feeds().map((request) => model.infer(request)))
    expect(batchSizes(model)).toEqual([3])
    await until(() => seen.length > 0)
    expect(model.metadata.joining).toMatchObject({ rows: 'declared', largestDifference: expect.any(Number) })
    expect(seen).toHaveLength(1)
  })
})
