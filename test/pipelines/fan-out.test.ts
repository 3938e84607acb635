import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Tensor, type InferenceEngine, type PipelineConfig, type PipelineStep } from '../../src/index.ts'
import { timeMajor } from '../models/batch-axes.ts'
import { claimedRows, detector, recogniser } from '../models/detectors.ts'
import { identityUnbatched, identityVariable } from '../models/identity.ts'
import { mulberry32 } from '../models/random.ts'
import { batchSizes, largestBatch } from '../support/against-plain.ts'
import { executorKinds } from '../support/executors.ts'
import { ownEngine, sharedEngine } from '../support/open.ts'
import { runPlain } from '../support/plain.ts'
import { inParallel } from '../support/shared.ts'
import { until } from '../support/until.ts'
import { loadGate, loadNumber, one, step } from './arithmetic.ts'
import { repetitions } from '../support/full.ts'

const random = mulberry32(5)
const noise = (dims: readonly number[], scale = 3) =>
  new Tensor(
    'float32',
    Float32Array.from(
      { length: dims.reduce((product, dim) => product * dim, 1) },
      () => scale * (random() - 0.5),
    ),
    dims,
  )

/** The crop of a box, of 2 x 2 pixels around its middle: `pixels` [1, 1, 8, 8], `boxes` [n, 4], crops [n, 1, 2, 2]. */
function cropsOf(pixels: Float32Array, boxes: Float32Array): Float32Array {
  const crops = new Float32Array(boxes.length)
  const inside = (place: number) => Math.max(0, Math.min(6, Math.round(place)))
  for (let at = 0; at < boxes.length; at += 4) {
    const [top, left] = [
      inside((boxes[at]! + boxes[at + 2]!) / 2),
      inside((boxes[at + 1]! + boxes[at + 3]!) / 2),
    ]
    for (const pixel of [0, 1, 2, 3])
      crops[at + pixel] = pixels[8 * (top + (pixel >> 1)) + left + (pixel & 1)]!
  }
  return crops
}

async function loadCrops(engine: InferenceEngine): Promise<void> {
  await engine.loadFunction('crops', {
    inputs: [
      { name: 'image', type: 'float32', dims: [1, 1, 8, 8] },
      { name: 'boxes', type: 'float32', dims: [-1, 4] },
    ],
    outputs: [{ name: 'crops', type: 'float32', dims: [-1, 1, 2, 2] }],
    maxBatchSize: 0,
    run: ({ image, boxes }) => ({ crops: cropsOf(image.data, boxes.data) }),
  })
}

const reading = {
  inputs: ['image'],
  steps: [
    { model: 'detector', inputs: { x: 'image' }, outputs: { boxes: 'boxes' } },
    { model: 'crops', inputs: { image: 'image', boxes: 'boxes' }, outputs: { crops: 'crops' } },
    { model: 'recogniser', inputs: { x: 'crops' }, outputs: { y: 'classes' }, fanOut: true },
  ],
  outputs: ['boxes', 'classes'],
} as const satisfies PipelineConfig

/** The same by hand, of each crop by itself. */
async function readByHand(image: Tensor): Promise<{ boxes: Tensor; classes: number[] }> {
  const { boxes } = await runPlain(detector(), { x: image as never }, ['boxes'])
  const crops = cropsOf(image.data as Float32Array, boxes!.data as Float32Array)
  const classes: number[] = []
  for (let at = 0; at < crops.length; at += 4) {
    const { y } = await runPlain(recogniser(), {
      x: { type: 'float32', dims: [1, 1, 2, 2], data: crops.slice(at, at + 4) },
    })
    classes.push(...(y!.data as Float32Array))
  }
  return { boxes: boxes!, classes }
}

describe.each(executorKinds)('detector, crops and recogniser, with the executor %s', (executor) => {
  it('give 64 callers what each step called by hand gives, and join the crops of all of them', async () => {
    const engine = ownEngine({ executor })
    const found = await engine.load('detector', {
      path: detector(),
      maxBatchSize: 16,
      outputs: [{ name: 'boxes', rows: { index: 0, of: 'selected' } }, { name: 'mean' }],
    })
    await loadCrops(engine)
    const read = await engine.load('recogniser', { path: recogniser(), maxBatchSize: 16 })
    const model = await engine.loadPipeline('reading', reading)
    expect(model.metadata).toMatchObject({
      maxBatchSize: 0,
      outputs: [
        { name: 'boxes', shape: ['', 4] },
        { name: 'classes', shape: ['', 3] },
      ],
    })
    const count = repetitions(192, 96)
    const images = Array.from({ length: count }, (_, index) => noise([1, 1, 8, 8], index % 6 === 0 ? 0 : 3))
    const answers = await inParallel(64, images, (image) => model.infer({ image }))
    const counts = new Set<number>()
    let crops = 0
    for (const [index, { boxes, classes }] of answers.entries()) {
      const expected = await readByHand(images[index]!)
      const rows = expected.boxes.dims[0]!
      expect([boxes!.dims, classes!.dims]).toEqual([
        [rows, 4],
        [rows, 3],
      ])
      for (const [at, value] of expected.classes.entries()) expect(classes!.data[at]).toBeCloseTo(value, 5)
      counts.add(rows)
      crops += rows
    }
    expect([...counts].sort()).toEqual([0, 1, 2, 3])
    expect(Math.min(largestBatch(found), largestBatch(read))).toBeGreaterThan(4)
    expect(read.stats()).toMatchObject({
      inferenceCount: crops,
      inferenceStats: { success: { count: crops } },
    })
    expect(model.stats()).toMatchObject({
      inferenceStats: { success: { count } },
      steps: [{ rowCount: 0 }, { rowCount: 0 }, { success: { count }, rowCount: crops }],
    })
    expect(model.capacity().requestsPerSecond).toBeGreaterThan(0)
  })
})

/** A pipeline of one step that fans out. */
const alone = (model: string, from: Record<string, string>, to: Record<string, string>, more: Partial<PipelineStep> = {}): PipelineConfig => ({
  inputs: Object.values(from), steps: [{ model, inputs: from, outputs: to, fanOut: true, ...more }], outputs: Object.values(to),
}) // prettier-ignore
const fannedNumber = (engine: InferenceEngine, model: string) =>
  engine.loadPipeline('fanned', alone(model, { x: 'x' }, { y: 'y' }))
const numbers = (...values: number[]) => new Tensor('float32', Float32Array.from(values), [values.length, 1])

describe('a step that fans out', () => {
  const engine = sharedEngine()

  it('joins rows of its callers, however many each has, and gives each its own in order', async () => {
    const own = ownEngine()
    const twice = await loadNumber(own, 'twice', (x) => 2 * x, 8)
    const model = await fannedNumber(own, 'twice')
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.integer({ min: -1000, max: 1000 }), { maxLength: 30 }), {
          minLength: 1,
          maxLength: 12,
        }),
        async (requests) => {
          const answers = await Promise.all(requests.map((values) => model.infer({ x: numbers(...values) })))
          expect(answers.map(({ y }) => [y!.dims, [...(y!.data as Float32Array)]])).toEqual(
            requests.map((values) => [[values.length, 1], values.map((x) => (x === 0 ? 0 : 2 * x))]),
          )
        },
      ),
      { numRuns: repetitions(60, 15) },
    )
    expect(batchSizes(twice)).toContain(8)
    expect(largestBatch(twice)).toBe(8)
  })

  it('is for models of one fixed row, and for those whose rows are not joined, as well', async () => {
    const own = ownEngine()
    for (const [name, config] of [
      ['fixed', { path: recogniser(1) }],
      ['unjoined', { path: recogniser(), maxBatchSize: 0 }],
      ['unbatched', { path: recogniser(), dynamicBatching: false }],
    ] as const) {
      await own.load(name, config)
      const model = await own.loadPipeline(`each-${name}`, alone(name, { x: 'crops' }, { y: 'classes' }))
      const crops = noise([7, 1, 2, 2])
      const { classes } = await model.infer({ crops })
      const expected = await runPlain(recogniser(), { x: crops as never })
      expect(classes!.dims).toEqual([7, 3])
      for (const [at, value] of (expected['y']!.data as Float32Array).entries())
        expect(classes!.data[at]).toBeCloseTo(value, 5)
      expect((await model.infer({ crops: noise([0, 1, 2, 2]) })).classes).toMatchObject({
        dims: [0, 3],
        type: 'float32',
        data: new Float32Array(),
      })
    }
  })

  it('takes rows along the dimension in which its model has them', async () => {
    await engine.load('series', {
      path: timeMajor(),
      maxBatchSize: 4,
      inputs: [{ name: 'x', batchAxis: 1 }],
      outputs: [{ name: 'y', batchAxis: 1 }],
    })
    const model = await engine.loadPipeline('each-series', alone('series', { x: 'x' }, { y: 'y' }))
    const x = noise([5, 6, 3])
    const { y } = await model.infer({ x })
    expect([y!.dims, y!.data]).toEqual([[5, 6, 3], (x.data as Float32Array).map((value) => -value)])
    expect((await model.infer({ x: noise([5, 0, 3]) })).y!.dims).toEqual([5, 0, 3])
  })

  it('gives each row what it is not divided by', async () => {
    await engine.loadFunction('scaled', {
      inputs: [{ name: 'x', type: 'float32', dims: [1] }, { name: 'by', type: 'float32', dims: [1] }], outputs: [{ name: 'y', type: 'float32', dims: [1] }],
      run: ({ x, by }) => ({ y: Float32Array.from(x.data, (value, row) => value * by.data[row]!) }),
    }) // prettier-ignore
    const model = await engine.loadPipeline(
      'each-scaled',
      alone('scaled', { x: 'x', by: 'by' }, { y: 'y' }, { fanOut: ['x'] }),
    )
    expect((await model.infer({ x: numbers(1, 2, 3), by: numbers(10) })).y!.data).toEqual(
      Float32Array.of(10, 20, 30),
    )
    const all = await engine.loadPipeline('all-scaled', alone('scaled', { x: 'x', by: 'by' }, { y: 'y' }))
    expect((await all.infer({ x: numbers(1, 2), by: numbers(10, 20) })).y!.data).toEqual(
      Float32Array.of(10, 40),
    )
    await expect(all.infer({ x: numbers(1, 2), by: numbers(10) })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: "input 'by'",
      expected: "2 rows, as input 'x' has",
      received: 1,
      step: 'scaled',
    })
  })

  it('may be a pipeline, whose steps fan out again', async () => {
    const own = ownEngine()
    const twice = await loadNumber(own, 'twice', (x) => 2 * x)
    await own.loadPipeline('inner', alone('twice', { x: 'x' }, { y: 'y' }))
    const model = await own.loadPipeline('outer', alone('inner', { x: 'x' }, { y: 'y' }))
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, caller) => model.infer({ x: numbers(caller, 10 + caller, 20 + caller) })),
    )
    for (const [caller, { y }] of answers.entries())
      expect(y!.data).toEqual(Float32Array.of(2 * caller, 20 + 2 * caller, 40 + 2 * caller))
    expect(largestBatch(twice)).toBeGreaterThan(8)
    expect((await model.infer({ x: numbers() })).y!.dims).toEqual([0, 1])
  })

  it('may be a detector, whose boxes tell the row that they are of', async () => {
    const own = ownEngine()
    await own.load('detector', {
      path: detector(),
      maxBatchSize: 4,
      outputs: [
        { name: 'rows', rows: { index: 0 } },
        { name: 'boxes', rows: { counts: 'n' } },
        { name: 'n' },
      ],
    })
    const model = await own.loadPipeline(
      'tiles',
      alone('detector', { x: 'tiles' }, { rows: 'rows', boxes: 'boxes', n: 'n' }),
    )
    const tiles = noise([9, 1, 8, 8])
    const { rows, boxes, n } = await model.infer({ tiles })
    const expected = await runPlain(detector(), { x: tiles as never })
    expect([rows!.dims, boxes!.dims, n!.data]).toEqual([
      expected['rows']!.dims,
      expected['boxes']!.dims,
      expected['n']!.data,
    ])
    for (const [at, value] of (expected['rows']!.data as Float32Array).entries())
      expect(rows!.data[at]).toBeCloseTo(value, 4)
  })

  it('keeps the answer to each row, which other requests may have', async () => {
    const own = ownEngine()
    let rows = 0
    await own.loadFunction('counted', {
      inputs: [{ name: 'x', type: 'float32', dims: [1] }], outputs: [{ name: 'y', type: 'float32', dims: [1] }], responseCache: true,
      run: ({ x }, batch) => {
        rows += batch.rows
        return { y: Float32Array.from(x.data) }
      },
    }) // prettier-ignore
    const model = await fannedNumber(own, 'counted')
    await model.infer({ x: numbers(1, 2, 3) })
    expect((await model.infer({ x: numbers(3, 4, 1) })).y!.data).toEqual(Float32Array.of(3, 4, 1))
    expect(rows).toBe(4)
  })

  it('reports each row, also where there is none', async () => {
    const own = ownEngine()
    await loadNumber(own, 'twice', (x) => 2 * x)
    const model = await fannedNumber(own, 'twice')
    const { outputs, report } = await model.infer({ x: numbers(1, 2) }, { report: true })
    expect(outputs.y!.data).toEqual(Float32Array.of(2, 4))
    expect(report.steps).toMatchObject([
      { step: 'twice', batchSize: 2, parts: [{ position: 0 }, { position: 1 }] },
    ])
    expect((await model.infer({ x: numbers() }, { report: true })).report.steps).toMatchObject([
      { step: 'twice', batchSize: 0, parts: [] },
    ])
  })
})

describe('rows of a step that fans out', () => {
  it('wait for room in the queue of their model, however many they are', async () => {
    const own = ownEngine({ cpuWorkers: 1 })
    const run = ({ x }: { x: { data: Float32Array } }) => ({
      y: Float32Array.from(x.data, (value) => 2 * value),
    })
    const twice = await own.loadFunction('twice', {
      inputs: [{ name: 'x', type: 'float32', dims: [1] }],
      outputs: [{ name: 'y', type: 'float32', dims: [1] }],
      maxBatchSize: 4,
      dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 6 } },
      run: run as never,
    })
    const model = await fannedNumber(own, 'twice')
    const values = Array.from({ length: 1000 }, (_, index) => index)
    expect((await model.infer({ x: numbers(...values) })).y!.data).toEqual(
      Float32Array.from(values, (x) => 2 * x),
    )
    expect(twice.stats()).toMatchObject({ inferenceCount: 1000, rejections: { queueFull: 0 } })
  })

  it('are refused as any request is where there is no room for the first', async () => {
    const own = ownEngine({ cpuWorkers: 1 })
    const gate = await loadGate(own, 'gate', {
      concurrency: 1,
      maxBatchSize: 1,
      dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 1 } },
    })
    const model = await fannedNumber(own, 'gate')
    const running = own.infer('gate', { x: one(1) })
    await until(() => gate.calls === 1)
    const waiting = own.infer('gate', { x: one(2) })
    await expect(model.infer({ x: numbers(1, 2, 3) })).rejects.toMatchObject({
      code: 'ERR_QUEUE_FULL',
      model: 'fanned',
      step: 'gate',
      retryAfterMs: expect.any(Number),
    })
    gate.open()
    await Promise.all([running, waiting])
    expect((await model.infer({ x: numbers(1, 2, 3) })).y!.data).toEqual(Float32Array.of(1, 2, 3))
  })

  it('are more than 10 000 only in a request that is refused', async () => {
    const own = ownEngine()
    await loadNumber(own, 'twice', (x) => 2 * x)
    const model = await fannedNumber(own, 'twice')
    expect(
      (await model.infer({ x: new Tensor('float32', new Float32Array(10_000), [10_000, 1]) })).y!.dims,
    ).toEqual([10_000, 1])
    const error = {
      code: 'ERR_INVALID_ARG',
      argument: "input 'x'",
      expected: 'at most 10000 rows',
      received: 10_001,
      step: 'twice',
    }
    await expect(
      model.infer({ x: new Tensor('float32', new Float32Array(10_001), [10_001, 1]) }),
    ).rejects.toMatchObject(error)
  })

  it('fail their request when one of them fails, and the others of it are withdrawn', async () => {
    const own = ownEngine({ cpuWorkers: 1 })
    await loadNumber(
      own,
      'roots',
      (x) => {
        if (x < 0) throw new RangeError('a negative number')
        return Math.sqrt(x)
      },
      4,
    )
    const model = await fannedNumber(own, 'roots')
    const requests = [
      [4, 9, 16],
      [1, ...Array.from({ length: 60 }, () => 25), -1, ...Array.from({ length: 60 }, () => 25)],
      [36],
    ]
    const [first, second, third] = await Promise.allSettled(
      requests.map((values) => model.infer({ x: numbers(...values) })),
    )
    expect([first, third]).toMatchObject([
      { value: { y: { data: Float32Array.of(2, 3, 4) } } },
      { value: { y: { data: Float32Array.of(6) } } },
    ])
    expect(second).toMatchObject({
      reason: {
        code: 'ERR_EXECUTION',
        model: 'fanned',
        step: 'roots',
        message: expect.stringMatching(/pipeline 'fanned', row 61: .*a negative number/),
      },
    })
    await until(() => own.model('roots').capacity().waiting === 0)
    expect(model.stats()).toMatchObject({
      inferenceStats: { success: { count: 2 }, fail: { count: 1 } },
      steps: [{ success: { count: 2 }, fail: { count: 1 } }],
    })
    expect(
      own.model('roots').stats().inferenceStats.fail.count +
        own.model('roots').stats().inferenceStats.success.count,
    ).toBe(126)
  })

  it('are withdrawn with their request', async () => {
    const own = ownEngine({ cpuWorkers: 1 })
    const gate = await loadGate(own, 'gate', { concurrency: 1, maxBatchSize: 2 })
    const model = await fannedNumber(own, 'gate')
    const controller = new AbortController()
    const answer = model.infer({ x: numbers(1, 2, 3, 4, 5) }, { signal: controller.signal })
    await until(() => gate.calls === 1)
    controller.abort('gone')
    await expect(answer).rejects.toBe('gone')
    expect(own.model('gate').capacity().waiting).toBe(0)
    expect(own.model('gate').stats().rejections.cancelled).toBe(5)
    gate.open()
    expect(model.stats()).toMatchObject({ rejections: { cancelled: 1 }, steps: [{ cancelledCount: 1 }] })
  })

  it('end with their engine, and leave nothing', async () => {
    const own = ownEngine({ cpuWorkers: 1 })
    const gate = await loadGate(own, 'gate', { concurrency: 1, maxBatchSize: 2 })
    const model = await fannedNumber(own, 'gate')
    const answers = expect(
      Promise.allSettled([model.infer({ x: numbers(1, 2, 3, 4, 5) }), model.infer({ x: numbers(6) })]),
    ).resolves.toMatchObject([{ reason: { code: 'ERR_CLOSED' } }, { reason: { code: 'ERR_CLOSED' } }])
    await until(() => gate.calls === 1)
    const destroyed = own.destroy()
    await answers
    gate.open()
    await destroyed
  })

  it('go to the model that has taken the place of theirs', async () => {
    const own = ownEngine({ cpuWorkers: 1 })
    const gate = await loadGate(own, 'gate', {
      concurrency: 1,
      maxBatchSize: 1,
      dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 1 } },
    })
    const model = await fannedNumber(own, 'gate')
    const answer = model.infer({ x: numbers(1, 2, 3, 4) })
    await until(() => gate.calls === 1)
    await loadNumber(own, 'gate', (x) => 10 * x)
    gate.open()
    const [first, ...others] = (await answer).y!.data as Float32Array
    expect(first).toBe(1)
    expect(others.slice(1)).toEqual([30, 40]) // the second may have waited in the queue before
  })

  it('have the priority, the timeout and what is left of the deadline of their request', async () => {
    const own = ownEngine({ cpuWorkers: 1 })
    const gate = await loadGate(own, 'gate', {
      concurrency: 1,
      maxBatchSize: 1,
      dynamicBatching: { priorityLevels: 2, defaultPriorityLevel: 2 },
    })
    const model = await fannedNumber(own, 'gate')
    const order: string[] = []
    const running = model.infer({ x: numbers(0) })
    await until(() => gate.calls === 1)
    const late = expect(
      model.infer({ x: numbers(1, 2) }, { timeoutMs: 1, requestId: 'late' }),
    ).rejects.toMatchObject({ code: 'ERR_TIMEOUT', requestId: 'late', step: 'gate' })
    const low = model.infer({ x: numbers(1, 2) }).then(() => order.push('low'))
    const high = model.infer({ x: numbers(3, 4) }, { priority: 1 }).then(() => order.push('high'))
    await late
    gate.open()
    await Promise.all([running, low, high])
    expect(order).toEqual(['high', 'low'])
    await expect(model.infer({ x: numbers(1, 2) }, { deadlineMs: 1e-6 })).rejects.toMatchObject({
      code: 'ERR_DEADLINE',
    })
  })

  it('are told apart from entries that an output has beside one for each row', async () => {
    const own = ownEngine()
    await own.load('pairs', { path: claimedRows(), maxBatchSize: 0 })
    const pairs = await own.loadPipeline(
      'pairs-of-each',
      alone('pairs', { x: 'x', v: 'v' }, { values: 'values' }),
    )
    const feeds = { x: noise([3, 2]), v: noise([3, 2]) }
    await expect(pairs.infer(feeds)).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      argument: 'values',
      step: 'pairs',
      expected: expect.stringContaining('one entry for the row'),
      received: '[2, 1]',
    })
    await own.load('lengths', { path: identityVariable('float32'), maxBatchSize: 4 })
    expect(
      (
        await (
          await own.loadPipeline('lengths-of-each', alone('lengths', { x: 'x' }, { y: 'y' }))
        ).infer({ x: noise([0, 5]) })
      ).y!.dims,
    ).toEqual([0, 5])
  })
})

describe('a configuration that fans out', () => {
  const engine = sharedEngine()
  const loaded = (async () => {
    await loadNumber(engine, 'twice', (x) => 2 * x)
    await engine.load('two-rows', { path: identityUnbatched('float32', [2, 3]) })
  })()
  const wrong: [what: string, step: PipelineStep, error: object][] = [
    [
      'names an input that the step does not give',
      { ...step('twice', 'in', 'out'), fanOut: ['z'] },
      { argument: 'steps[0].fanOut[0]', received: 'z' },
    ],
    [
      'names an input twice',
      { ...step('twice', 'in', 'out'), fanOut: ['x', 'x'] },
      { argument: 'steps[0].fanOut[1]' },
    ],
    ['names none', { ...step('twice', 'in', 'out'), fanOut: [] }, { argument: 'steps[0].fanOut' }],
    ['is a number', { ...step('twice', 'in', 'out'), fanOut: 8 as never }, { argument: 'steps[0].fanOut' }],
    [
      'gives one row to a model of two',
      { ...step('two-rows', 'in', 'out'), fanOut: true },
      { argument: 'steps[0].fanOut', received: "'x' of shape [2, 3]" },
    ],
  ]
  it.each(wrong)('is refused where it %s', async (_, only, error) => {
    await loaded
    await expect(
      engine.loadPipeline('wrong', { inputs: ['in'], steps: [only], outputs: ['out'] }),
    ).rejects.toMatchObject({ code: 'ERR_MODEL_CONFIG', ...error })
  })
})
