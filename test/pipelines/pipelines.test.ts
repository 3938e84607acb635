import { describe, expect, it } from 'vitest'
import { Tensor, type InferenceError, type PipelineTensors } from '../../src/index.ts'
import { largestBatch } from '../support/against-plain.ts'
import { ownEngine, sharedEngine } from '../support/open.ts'
import { inParallel } from '../support/shared.ts'
import { until } from '../support/until.ts'
import { loadGate, loadNumber, loadSum, one, step } from './arithmetic.ts'

/** Computes for so many milliseconds. */
function holdFor(ms: number): void {
  const endMs = performance.now() + ms
  while (performance.now() < endMs);
}

const numbers = Array.from({ length: 500 }, (_, index) => index)

describe('a pipeline', () => {
  it('gives each of 64 callers what the steps called by hand give, and each step joins requests for itself', async () => {
    const engine = ownEngine()
    const [twice, plus] = [
      await loadNumber(engine, 'twice', (x) => 2 * x),
      await loadNumber(engine, 'plus', (x) => x + 1),
    ]
    await loadSum(engine, 'sum')
    const model = await engine.loadPipeline('both', {
      inputs: ['x'],
      steps: [
        step('twice', 'x', 'a'),
        step('plus', 'x', 'b'),
        { model: 'sum', inputs: { a: 'a', b: 'b' }, outputs: { sum: 'y' } },
      ],
      outputs: ['y', 'a'],
    })
    expect(model.metadata).toMatchObject({
      inputs: [{ name: 'x', type: 'float32', shape: ['rows', 1] }],
      outputs: [
        { name: 'y', type: 'float32' },
        { name: 'a', type: 'float32' },
      ],
      maxBatchSize: 32,
    })
    const answers = await inParallel(64, numbers, (x) => model.infer({ x: one(x) }))
    for (const x of numbers)
      expect(answers[x]).toMatchObject({
        a: { data: one(2 * x), dims: [1, 1] },
        y: { data: one(3 * x + 1), dims: [1, 1] },
      })
    expect(Math.min(largestBatch(twice), largestBatch(plus))).toBeGreaterThan(8)
    const { inferenceStats, steps } = model.stats()
    expect(inferenceStats.success.count).toBe(numbers.length)
    expect(steps!.map(({ step, success, fail, cancelledCount, skippedCount }) => [step, success.count, fail.count, cancelledCount, skippedCount])).toEqual([
      ['twice', numbers.length, 0, 0, 0], ['plus', numbers.length, 0, 0, 0], ['sum', numbers.length, 0, 0, 0],
    ]) // prettier-ignore
    expect(twice.stats().inferenceStats.success.count).toBe(numbers.length)
    expect(engine.stats().models['both']!.steps).toHaveLength(3)
  })

  it.each([
    ['is learnt from it', 'bytes'],
    ['is declared', { name: 'bytes', type: 'uint8', dims: [-1] } as const],
  ])('takes one row without dims where a function takes rows of any length, which %s', async (_, input) => {
    const engine = ownEngine()
    const lengths = {
      inputs: [{ name: 'bytes', type: 'uint8', dims: [-1] }],
      outputs: [{ name: 'length', type: 'int32' }],
    } as const
    await engine.loadFunction('length', {
      ...lengths,
      run: ({ bytes }) => ({ length: Array.from(bytes, (row) => row.length) }),
    })
    const steps = [{ model: 'length', inputs: { bytes: 'bytes' }, outputs: { length: 'length' } }]
    const inner = await engine.loadPipeline('inner', { inputs: [input], steps, outputs: ['length'] })
    const outer = await engine.loadPipeline('outer', {
      inputs: [input],
      steps: [{ ...steps[0]!, model: 'inner' }],
      outputs: ['length'],
    })
    for (const model of [inner, outer]) {
      const answers = await Promise.all(
        [0, 3, 700].map((length) => model.infer({ bytes: Buffer.alloc(length) })),
      )
      expect(answers.map(({ length }) => length!.data)).toEqual([
        Int32Array.of(0),
        Int32Array.of(3),
        Int32Array.of(700),
      ])
    }
  })

  it('takes several rows, runs only the steps that wanted outputs need, and leaves the feeds alone', async () => {
    const engine = ownEngine()
    await loadNumber(engine, 'twice', (x) => 2 * x)
    const other = await loadNumber(engine, 'plus', (x) => x + 1)
    const model = await engine.loadPipeline('two', {
      inputs: ['x'],
      steps: [step('twice', 'x', 'a'), step('plus', 'x', 'b')],
      outputs: ['a', 'b'],
    })
    const x = new Tensor('float32', [1, 2, 3], [3, 1])
    expect(await model.infer({ x }, { outputs: ['a'] })).toEqual({
      a: new Tensor('float32', [2, 4, 6], [3, 1]),
    })
    expect(other.stats().inferenceStats.success.count).toBe(0)
    expect(x.data).toEqual(Float32Array.of(1, 2, 3))
    await expect(model.infer({ y: one(1) } as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      model: 'two',
    })
    await expect(model.infer({ x }, { outputs: ['c' as 'a'] })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'options.outputs',
    })
  })

  it('is a step of another one, whose errors name both steps', async () => {
    const engine = ownEngine()
    await loadNumber(engine, 'odd', (x) => {
      if (x === 13) throw new RangeError('thirteen')
      return x
    })
    await engine.loadPipeline('inner', { inputs: ['x'], steps: [step('odd', 'x', 'y')], outputs: ['y'] })
    const outer = await engine.loadPipeline('outer', {
      inputs: ['x'],
      steps: [{ ...step('inner', 'x', 'z'), name: 'first' }, step('odd', 'z', 'y')],
      outputs: ['y'],
    })
    const answers = await Promise.allSettled(
      [1, 13, 2].map((x) => outer.infer({ x: one(x) }, { requestId: `r${x}` })),
    )
    expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect((answers[1] as PromiseRejectedResult).reason).toMatchObject({
      code: 'ERR_EXECUTION', model: 'outer', step: 'first', requestId: 'r13',
      message: expect.stringMatching(/^Step 'first' \(steps\[0\]\) of pipeline 'outer': Step 'odd' \(steps\[0\]\) of pipeline 'inner': .*thirteen/),
      cause: { model: 'inner', step: 'odd', cause: { model: 'odd' } },
    }) // prettier-ignore
    const { success, fail } = outer.stats().steps![0]!
    expect([success.count, fail.count]).toEqual([2, 1])
  })

  it('reports each step with the number of its request', async () => {
    const engine = ownEngine()
    await loadNumber(engine, 'twice', (x) => 2 * x)
    const model = await engine.loadPipeline('chain', {
      inputs: ['x'],
      steps: [step('twice', 'x', 'a'), step('twice', 'a', 'y')],
      outputs: ['y'],
    })
    const [first, second] = await Promise.all([1, 2].map((x) => model.infer({ x: one(x) }, { report: true })))
    expect(first!.outputs['y']!.data).toEqual(one(4))
    expect(first!.report.steps).toMatchObject([
      { step: 'twice', model: 'twice', version: 1, batchSize: 2 },
      { step: 'twice-2', model: 'twice', batchSize: 2 },
    ])
    const parents = [first, second].map((answer) => answer!.report.steps!.map(({ parentId }) => parentId))
    expect(parents).toEqual([
      [1, 1],
      [2, 2],
    ])
    expect(first!.report).toMatchObject({ batchId: 1, batchSize: 1, instance: 'chain', attempts: 1 })
    expect(first!.report.steps![1]!.beganMs).toBeGreaterThan(first!.report.steps![0]!.beganMs)
  })
})

describe('when', () => {
  const engine = sharedEngine()

  it('leaves a step out, with those that cannot do without it, and requests leave early', async () => {
    await loadNumber(engine, 'score', (x) => x / 10)
    const costly = await loadNumber(engine, 'costly', (x) => 100 * x)
    await loadSum(engine, 'sum')
    const seen: string[][] = []
    const model = await engine.loadPipeline('early', {
      inputs: ['x'],
      steps: [
        step('score', 'x', 'score'),
        {
          ...step('costly', 'x', 'better'),
          needs: ['score'],
          when: ({ score, x, ...others }: PipelineTensors) => (
            seen.push(Object.keys(others)),
            score!.data[0] === (x!.data[0] as number) / 10 && Number(score!.data[0]) < 0.5
          ),
        },
        { ...step('costly', 'better', 'best'), name: 'again' },
        { model: 'sum', inputs: { a: 'score', b: 'better' }, outputs: { sum: 'total' } },
      ],
      outputs: ['score', 'best', 'total'],
    })
    expect(Object.keys(await model.infer({ x: one(8) }))).toEqual(['score', 'total'])
    expect(costly.stats().inferenceStats.success.count).toBe(0)
    expect(await model.infer({ x: one(2.5) })).toMatchObject({
      score: { data: one(0.25) },
      best: { data: one(25_000) },
      total: { data: one(250.25) },
    })
    expect(seen).toEqual([[], []])
    expect(
      model.stats().steps!.map(({ step, success, skippedCount }) => [step, success.count, skippedCount]),
    ).toEqual([
      ['score', 2, 0],
      ['costly', 1, 1],
      ['again', 1, 1],
      ['sum', 2, 0],
    ])
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('not today')
      },
      /its when has thrown: not today/,
    ],
    ['gives no boolean', () => 1 as never, /its when returned number, where true or false was expected/],
  ])('that %s fails its request alone, and names the step', async (_, when: () => boolean, message) => {
    await loadNumber(engine, 'twice', (x) => 2 * x)
    let calls = 0
    const model = await engine.loadPipeline('whenever', {
      inputs: ['x'],
      steps: [{ ...step('twice', 'x', 'y'), when: () => (++calls === 2 ? when() : true) }],
      outputs: ['y'],
    })
    const answers = await Promise.allSettled([1, 2, 3].map((x) => model.infer({ x: one(x) })))
    expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect((answers[1] as PromiseRejectedResult).reason).toMatchObject({
      code: 'ERR_EXECUTION',
      step: 'twice',
      argument: 'steps[0].when',
      message: expect.stringMatching(message),
    })
  })

  it('runs steps without an optional input that a request leaves out', async () => {
    await loadSum(engine, 'sum')
    const model = await engine.loadPipeline('optional', {
      inputs: ['a', { name: 'b', optional: true }],
      steps: [{ model: 'sum', inputs: { a: 'a', b: 'b' }, outputs: { sum: 'y' } }],
      outputs: ['y'],
    })
    expect((await model.infer({ a: one(1), b: one(2) }))['y']!.data).toEqual(one(3))
    expect((await model.infer({ a: one(1) }))['y']!.data).toEqual(one(1))
  })
})

describe('limits of a request', () => {
  it('a signal ends all that is under way for it, and nothing is left', async () => {
    const engine = ownEngine()
    const gate = await loadGate(engine, 'gate')
    await loadSum(engine, 'sum')
    const steps = [
      step('gate', 'x', 'a'),
      { ...step('gate', 'x', 'b'), name: 'other' },
      { model: 'sum', inputs: { a: 'a', b: 'b' }, outputs: { sum: 'y' } },
    ]
    const model = await engine.loadPipeline('gated', { inputs: ['x'], steps, outputs: ['y'] })
    const controller = new AbortController()
    const [ended, other] = [
      model.infer({ x: one(1) }, { signal: controller.signal }),
      model.infer({ x: one(2) }),
    ]
    await until(() => gate.calls > 0)
    controller.abort(new Error('not wanted'))
    await expect(ended).rejects.toThrow('not wanted')
    gate.open()
    expect((await other)['y']!.data).toEqual(one(4))
    const { inferenceStats, rejections, steps: counted } = model.stats()
    expect([inferenceStats.success.count, rejections.cancelled]).toEqual([1, 1])
    expect(counted!.map(({ success, cancelledCount }) => [success.count, cancelledCount])).toEqual([
      [1, 1],
      [1, 1],
      [1, 0],
    ])
    expect(model.capacity()).toMatchObject({ waiting: 0, running: 0 })
    const aborted = AbortSignal.abort(new Error('never wanted'))
    await expect(model.infer({ x: one(1) }, { signal: aborted })).rejects.toThrow('never wanted')
  })

  it('of a deadline each step gets what is left', async () => {
    const engine = ownEngine()
    const gate = await loadGate(engine, 'gate')
    const late = await loadNumber(engine, 'late', (x) => x)
    const model = await engine.loadPipeline('timed', {
      inputs: ['x'],
      steps: [step('gate', 'x', 'a'), step('late', 'a', 'y')],
      outputs: ['y'],
    })
    const answer = model.infer({ x: one(1) }, { deadlineMs: 500, requestId: 'slow' })
    const startMs = performance.now()
    answer.catch(() => {})
    await until(() => gate.calls === 1 && performance.now() - startMs > 505)
    gate.open()
    await expect(answer).rejects.toMatchObject({
      code: 'ERR_DEADLINE',
      model: 'timed',
      step: 'late',
      requestId: 'slow',
    })
    expect(late.stats().inferenceStats.success.count).toBe(0)
    expect(model.stats().rejections.deadline).toBe(1)
  })

  it('a deadline that its steps cannot keep together refuses a request at once, and is named as it was given', async () => {
    const engine = ownEngine()
    const slow = (x: number) => {
      for (const endMs = performance.now() + 10; performance.now() < endMs;);
      return x
    }
    await Promise.all(['one', 'two', 'never', 'after'].map((name) => loadNumber(engine, name, slow)))
    let asked = 0
    const steps = [
      step('one', 'x', 'a'),
      step('two', 'a', 'y'),
      { ...step('never', 'a', 'z'), when: () => ++asked <= 6 }, // a run of it, and of what follows, is not certain
      step('after', 'z', 'w'),
    ]
    const model = await engine.loadPipeline('slow', { inputs: ['x'], steps, outputs: ['y', 'w'] })
    for (let run = 0; run < 6; run++) await model.infer({ x: one(1) })
    const error = await model
      .infer({ x: one(1) }, { deadlineMs: 15, requestId: 'hurried' })
      .catch((reason: InferenceError) => reason)
    expect(error).toMatchObject({
      code: 'ERR_DEADLINE',
      model: 'slow',
      requestId: 'hurried',
      expected: 'an answer within 15 ms',
      message: expect.stringContaining('its deadline is 15 ms'),
    })
    const [first, second, never] = ['one', 'two', 'never'].map(
      (name) => engine.model(name).capacity().estimatedMs,
    )
    const { estimatedMs } = error as InferenceError
    expect(estimatedMs).toBeGreaterThan(20)
    expect(estimatedMs).toBeLessThan(first! + second! + never! / 2) // what is not certain to run is not counted
    expect(
      ['one', 'two', 'slow'].map((name) => engine.model(name).stats().inferenceStats.success.count),
    ).toEqual([6, 6, 6])
    expect([engine.model('one').stats().rejections.deadline, model.stats().rejections.deadline]).toEqual([
      0, 1,
    ])
    await model.infer({ x: one(1) }, { deadlineMs: 60_000 })
  })

  it('maxInFlight has others wait in the order of their calls, for as long as they may', async () => {
    const engine = ownEngine()
    const gate = await loadGate(engine, 'gate')
    const model = await engine.loadPipeline('narrow', {
      inputs: ['x'],
      steps: [step('gate', 'x', 'y')],
      outputs: ['y'],
      maxInFlight: 2,
    })
    const order: number[] = []
    const controller = new AbortController()
    const answers = [0, 1, 2, 3, 4, 5].map((x) =>
      model
        .infer(
          { x: one(x) },
          { ...(x === 3 && { signal: controller.signal }), ...(x === 4 && { timeoutMs: 5 }) },
        )
        .then(
          () => order.push(x),
          ({ code, message }) => code ?? message,
        ),
    )
    expect(model.capacity()).toMatchObject({ running: 2, waiting: 4 })
    controller.abort(new Error('not wanted'))
    expect(await Promise.all([answers[3], answers[4]])).toEqual(['not wanted', 'ERR_TIMEOUT'])
    expect(model.capacity()).toMatchObject({ running: 2, waiting: 2 })
    gate.open()
    await Promise.all(answers)
    expect(order).toEqual([0, 1, 2, 5])
    expect(gate.calls).toBeGreaterThan(1)
  })

  it('refuses a request whose deadline would pass while others wait for maxInFlight', async () => {
    const engine = ownEngine()
    await loadNumber(engine, 'slow', (x) => {
      if (x > 0) holdFor(x)
      return x
    })
    const model = await engine.loadPipeline('narrow', {
      inputs: ['x'],
      steps: [step('slow', 'x', 'y')],
      outputs: ['y'],
      maxInFlight: 1,
    })
    await model.infer({ x: one(100) })
    const before = Array.from({ length: 20 }, () => model.infer({ x: one(0) }))
    expect(model.capacity().estimatedMs).toBeGreaterThan(1500)
    await expect(model.infer({ x: one(0) }, { deadlineMs: 1500 })).rejects.toMatchObject({
      code: 'ERR_DEADLINE',
    })
    await Promise.all(before)
  })

  it('refuses what a step refuses, with the reason of its model', async () => {
    const engine = ownEngine()
    const gate = await loadGate(engine, 'full', {
      maxBatchSize: 1,
      dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 1 } },
    })
    const model = await engine.loadPipeline('refusing', {
      inputs: ['x'],
      steps: [step('full', 'x', 'y')],
      outputs: ['y'],
    })
    const answers = [1, 2, 3, 4].map((x) => model.infer({ x: one(x) }))
    const settled = Promise.allSettled(answers)
    gate.open()
    const refused = (await settled).flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []))
    expect(refused.length).toBeGreaterThan(0)
    for (const error of refused)
      expect(error).toMatchObject({
        code: 'ERR_QUEUE_FULL',
        model: 'refusing',
        step: 'full',
        retryAfterMs: expect.any(Number),
      })
  })
})

describe('the models of a pipeline', () => {
  it('can be loaded again while it serves, and not be unloaded', async () => {
    const engine = ownEngine()
    const twice = await loadNumber(engine, 'factor', (x) => 2 * x)
    const model = await engine.loadPipeline('uses', {
      inputs: ['x'],
      steps: [step('factor', 'x', 'y')],
      outputs: ['y'],
    })
    for (const unload of [
      () => engine.unload('factor'),
      () => twice.unload(),
      () => engine.unload('factor', { version: 1 }),
    ]) {
      await expect(unload()).rejects.toMatchObject({
        code: 'ERR_MODEL_IN_USE',
        model: 'factor',
        received: ['uses'],
      })
    }
    await loadNumber(engine, 'factor', (x) => 3 * x)
    expect((await model.infer({ x: one(1) }))['y']!.data).toEqual(one(3))
    await engine.loadFunction('factor', {
      inputs: [{ name: 'x', type: 'int32', dims: [1] }],
      outputs: [{ name: 'y', type: 'float32', dims: [1] }],
      run: ({ x }) => ({ y: Float32Array.from(x.data) }),
    })
    await expect(model.infer({ x: one(1) })).rejects.toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      model: 'uses',
      argument: 'steps[0].inputs.x',
      expected: expect.stringContaining('int32'),
    })
    await loadNumber(engine, 'factor', (x) => 4 * x)
    expect((await model.infer({ x: one(1) }))['y']!.data).toEqual(one(4))
    await model.unload()
    await engine.unload('factor')
    expect(engine.models()).toEqual([])
  })

  it('are found while they are being loaded', async () => {
    const engine = ownEngine()
    const loads = [
      engine.loadPipeline('soon', { inputs: ['x'], steps: [step('slow', 'x', 'y')], outputs: ['y'] }),
      loadNumber(engine, 'slow', (x) => x),
    ] as const
    expect((await (await loads[0]).infer({ x: one(7) }))['y']!.data).toEqual(one(7))
    await loads[1]
  })

  it('serve what a pipeline had accepted when the engine is closed', async () => {
    const engine = ownEngine()
    const gate = await loadGate(engine, 'gate')
    await loadNumber(engine, 'twice', (x) => 2 * x)
    await engine.loadPipeline('inner', {
      inputs: ['x'],
      steps: [step('gate', 'x', 'a'), step('twice', 'a', 'y')],
      outputs: ['y'],
    })
    const outer = await engine.loadPipeline('outer', {
      inputs: ['x'],
      steps: [step('inner', 'x', 'a'), step('twice', 'a', 'y')],
      outputs: ['y'],
    })
    const answer = outer.infer({ x: one(1) })
    await until(() => gate.calls === 1)
    const closed = engine.close()
    for (const model of engine.models())
      await expect(model.infer({ x: one(1) })).rejects.toMatchObject({ code: 'ERR_CLOSED' })
    gate.open()
    expect((await answer)['y']!.data).toEqual(one(4))
    await closed
  })

  it('are left at once when the engine is destroyed, and the pipeline is replaced like any model', async () => {
    const engine = ownEngine()
    const gate = await loadGate(engine, 'gate')
    await loadNumber(engine, 'twice', (x) => 2 * x)
    const model = await engine.loadPipeline('one', {
      inputs: ['x'],
      steps: [step('gate', 'x', 'y')],
      outputs: ['y'],
    })
    const before = model.infer({ x: one(1) })
    await until(() => gate.calls === 1)
    await engine.loadPipeline('one', { inputs: ['x'], steps: [step('twice', 'x', 'y')], outputs: ['y'] })
    expect((await model.infer({ x: one(1) }))['y']!.data).toEqual(one(2))
    const failed = expect(before).rejects.toMatchObject({ code: 'ERR_CLOSED' })
    await engine.destroy()
    await failed
    gate.open()
  })
})
