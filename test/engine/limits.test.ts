// Alone: a run that the binding cannot stop goes on in its thread for as long as the process lives.
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  type InferOptions,
  type Model,
  type ModelConfig,
  type ModelOptions,
  Tensor,
} from '../../src/index.ts'
import { WorkerSession } from '../../src/run/worker-session.ts'
import { elementCount } from '../../src/tensor/tensor.ts'
import { graph } from '../models/builder.ts'
import { modelPath } from '../models/cache.ts'
import * as small from '../models/small.ts'
import { executorKinds } from '../support/executors.ts'
import { full } from '../support/full.ts'
import { load, ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { markedModel, markOf } from '../support/versions.ts'

const x = new Float32Array(1024)

/** Some 40 ms a run: long enough that a run goes on while this thread is kept from looking. */
const slow = () => small.matmulLoop(1024, 150)

/**
 * A slow model (one request a run) whose two staging slots are taken, so that the next request waits.
 * What still waits when the test is over is dropped with its engine.
 */
async function busy(
  runs: number,
  dynamicBatching: ModelConfig['dynamicBatching'] = {},
  options?: InferOptions,
) {
  const engine = ownEngine()
  const model = await load(engine, slow(), { maxBatchSize: 1, dynamicBatching, warmup: false })
  const occupying = Array.from({ length: runs }, () => codeOf(model.infer({ x }, options)))
  await until(() => model.stats().pendingRequestCount <= Math.max(0, runs - 2))
  return { engine, model, occupying }
}

function codeOf(answer: Promise<unknown>): Promise<unknown> {
  return answer.then(
    () => 'answered',
    (error: { code?: string }) => error.code,
  )
}

const failures = (model: Model) => model.stats().inferenceStats.fail.count

describe('maxQueueSize', () => {
  it('refuses one request more at once, says when to try again, and accepts again later', async () => {
    const { model } = await busy(0, { defaultQueuePolicy: { maxQueueSize: 2 } })
    // In one turn of the event loop: the first is handed over at once, two wait.
    const accepted = [1, 2, 3].map(() => codeOf(model.infer({ x })))
    const refused = model.infer({ x }, { requestId: 'one too many' })
    await expect(refused).rejects.toMatchObject({
      code: 'ERR_QUEUE_FULL',
      requestId: 'one too many',
      retryAfterMs: expect.any(Number),
      message: expect.stringContaining("Request 'one too many' found the queue of model"),
    })
    const error: { retryAfterMs: number } = await refused.catch((reason) => reason)
    expect(error.retryAfterMs).toBeGreaterThanOrEqual(1)
    expect(failures(model)).toBe(1)
    expect(await Promise.all(accepted)).toEqual(['answered', 'answered', 'answered'])
    await expect(model.infer({ x })).resolves.toHaveProperty('y')
  })
})

describe('timeoutMs', () => {
  it('rejects a request that waits longer with ERR_TIMEOUT and never runs it', async () => {
    const { model, occupying } = await busy(4)
    const late = model.infer({ x }, { timeoutMs: 5, requestId: 'late' })
    await expect(late).rejects.toMatchObject({
      code: 'ERR_TIMEOUT',
      requestId: 'late',
      message: expect.stringContaining('5 ms'),
    })
    expect(model.stats().executionCount).toBeLessThan(4)
    await Promise.all(occupying)
    expect([model.stats().executionCount, failures(model)]).toEqual([4, 1])
  })

  it('lets a request that has started in time finish', async () => {
    const { model } = await busy(0)
    const answer = model.infer({ x }, { timeoutMs: 10_000 })
    await expect(answer).resolves.toHaveProperty('y')
  })

  it('defaults to defaultTimeoutMs', async () => {
    const policies = { priorityLevels: 2, priorityQueuePolicy: { 2: { defaultTimeoutMs: 5 } } }
    const { model, occupying } = await busy(4, policies, { priority: 1 })
    expect(await codeOf(model.infer({ x }))).toBe('ERR_TIMEOUT')
    expect(await codeOf(model.infer({ x }, { timeoutMs: 60_000 }))).toBe('ERR_TIMEOUT')
    expect(await codeOf(model.infer({ x }, { priority: 1 }))).toBe('answered')
    expect(new Set(await Promise.all(occupying))).toEqual(new Set(['answered']))
  })
})

describe('signal', () => {
  it('takes a waiting request out of the queue and rejects with its own reason', async () => {
    const { model, occupying } = await busy(3)
    const controller = new AbortController()
    const waiting = model.stats().pendingRequestCount
    const answer = model.infer({ x }, { signal: controller.signal })
    expect(model.stats().pendingRequestCount).toBe(waiting + 1)
    const reason = { why: 'changed my mind' }
    controller.abort(reason)
    expect(model.stats().pendingRequestCount).toBe(waiting)
    expect(await answer.catch((error: unknown) => error)).toBe(reason)
    await Promise.all(occupying)
    expect([model.stats().executionCount, failures(model)]).toEqual([3, 1])
  })

  it('rejects a running request at once, while its run goes on', async () => {
    const { model } = await busy(0)
    const controller = new AbortController()
    const answer = model.infer({ x }, { signal: controller.signal })
    await until(() => model.stats().pendingRequestCount === 0)
    const reason = new Error('stop')
    controller.abort(reason)
    expect(await answer.catch((error: unknown) => error)).toBe(reason)
    expect(model.stats().executionCount).toBe(0)
    await expect(model.infer({ x })).resolves.toHaveProperty('y')
  })

  it('rejects a request whose signal was aborted before', async () => {
    const { model } = await busy(0)
    const reason = new Error('never mind')
    expect(
      await model.infer({ x }, { signal: AbortSignal.abort(reason) }).catch((error: unknown) => error),
    ).toBe(reason)
    expect(model.stats().executionCount).toBe(0)
  })

  it('takes one request out of a batch without harm to the others', async () => {
    const model = await load(ownEngine(), slow())
    const controllers = Array.from({ length: 6 }, () => new AbortController())
    const answers = controllers.map(({ signal }) => codeOf(model.infer({ x }, { signal })))
    controllers[1]!.abort({ code: 'queued' })
    await until(() => model.stats().pendingRequestCount === 0)
    controllers[4]!.abort({ code: 'running' })
    expect(await Promise.all(answers)).toEqual([
      'answered',
      'queued',
      'answered',
      'answered',
      'running',
      'answered',
    ])
  })

  it('may be shared by many requests without a warning, and leaves no listeners behind', async () => {
    const model = await load(ownEngine(), small.identity('float32'))
    const { signal } = new AbortController()
    const warnings: string[] = []
    const onWarning = ({ name }: Error) => warnings.push(name)
    process.on('warning', onWarning)
    onTestFinished(() => void process.off('warning', onWarning))
    let listeners = 0
    const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)]
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners++
      add(...args)
    }
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      listeners--
      remove(...args)
    }
    await Promise.all(Array.from({ length: 50 }, () => model.infer({ x: new Float32Array(4) }, { signal })))
    expect([listeners, warnings]).toEqual([0, []])
  })
})

/** The first and the last element of each row. */
function ends(rowDims: readonly number[]): string {
  const length = elementCount(rowDims)
  return modelPath(`ends-${rowDims.join('x')}`, () =>
    graph('ends')
      .input('x', 'float32', ['N', ...rowDims])
      .output('y', 'float32', ['N', 2])
      .initializer('rows', 'int64', [2], [-1, length])
      .initializer('places', 'int64', [2], [0, length - 1])
      .node('Reshape', ['x', 'rows'], ['flat'])
      .node('Gather', ['flat', 'places'], ['y'], { axis: 1 })
      .build(),
  )
}

/** The largest element of volumes, with a mean of all rows that is never added: the graph proves nothing of its rows. */
function largestOfVolume(rowDims: readonly number[]): string {
  const dims = ['N', ...rowDims.map(() => 1)]
  const branch = (name: string, operator: string, attributes = {}) =>
    graph(name)
      .output(`${name}-y`, 'float32', dims)
      .node(operator, ['z'], [`${name}-y`], attributes)
      .subgraph()
  return modelPath(`largest-of-volume-${rowDims.join('x')}`, () =>
    graph('largest-of-volume')
      .input('x', 'float32', ['N', ...rowDims])
      .output('y', 'float32', dims)
      .initializer('one', 'float32', [], [1])
      .node('GlobalMaxPool', ['x'], ['z'])
      .node('Sin', ['one'], ['sine'])
      .node('Less', ['one', 'sine'], ['never'])
      .node('If', ['never'], ['y'], {
        then_branch: branch('then', 'ReduceMean', { axes: [0] }),
        else_branch: branch('else', 'Identity'),
      })
      .build(),
  )
}

describe.each(full ? executorKinds : executorKinds.slice(0, 1))(
  'rows of 132 MiB: one for each run (%s)',
  (executor) => {
    const rowDims = [1, 132, 512, 512]
    const filled = (first: number, last: number) => {
      const row = new Float32Array(elementCount(rowDims))
      ;[row[0], row[row.length - 1]] = [first, last]
      return row
    }

    it('are answered, each in a run of its own, and none is made up here', async () => {
      const runSample = vi.spyOn(WorkerSession.prototype, 'runSample')
      onTestFinished(() => void runSample.mockRestore())
      const engine = ownEngine({ executor, verify: 'child', cache: false })
      const model = await load(engine, ends(rowDims))
      const answers = await Promise.all([1, 2].map((value) => model.infer({ x: filled(value, -value) })))
      expect(answers.map(({ y }) => [...(y as Tensor).data])).toEqual([
        [1, -1],
        [2, -2],
      ])
      expect([model.metadata.joining.rows, model.metadata.maxBatchSize]).toEqual(['independent', 1])
      expect([model.stats().executionCount, runSample.mock.calls]).toEqual([2, []])
    })

    it('are not compared, so that a model whose graph proves nothing runs each request alone', async () => {
      const runSample = vi.spyOn(WorkerSession.prototype, 'runSample')
      onTestFinished(() => void runSample.mockRestore())
      const model = await load(ownEngine({ executor }), largestOfVolume(rowDims), {
        dynamicBatching: { preferredBatchSize: [2] },
      })
      const { y } = await model.infer({ x: filled(0, 3) })
      expect([...(y as Tensor).data]).toEqual([3])
      expect(await model.joiningKnown()).toMatchObject({
        rows: 'unknown',
        reason: expect.stringContaining('an input has 34603008 elements for a row'),
      })
      expect(runSample).not.toHaveBeenCalled()
    })
  },
)

describe('defaultMaxBatchSize', () => {
  it.each<[rowDims: readonly number[], options: ModelOptions, rows: number]>([
    [[3, 64, 64], {}, 32],
    [[3, 1024, 1024], {}, 21],
    [[3, 4096, 4096], {}, 1],
    [[3, 4096, 4096], { dynamicBatching: { preferredBatchSize: [4] } }, 4],
    [[3, 4096, 4096], { maxBatchSize: 8 }, 8],
  ])('holds for so many rows as 256 MiB take: rows of %j with %j', async (rowDims, options, rows) => {
    const model = await load(ownEngine(), ends(rowDims), options)
    expect(model.metadata.maxBatchSize).toBe(rows)
  })

  it('does not count what all rows share', async () => {
    const path = modelPath('shared-table-of-16-mib', () =>
      graph('shared-table')
        .input('x', 'float32', ['N', 4])
        .input('table', 'float32', [2 ** 22])
        .output('y', 'float32', ['N', 4])
        .node('ReduceMax', ['table'], ['most'], { axes: [0], keepdims: 0 })
        .node('Add', ['x', 'most'], ['y'])
        .build(),
    )
    const { metadata } = await load(ownEngine(), path)
    expect(metadata).toMatchObject({ maxBatchSize: 32, joining: { rows: 'independent' } })
  })
})

describe('a model with rows of 4 GiB', () => {
  it('is refused with the limit, and no such row is made up before', async () => {
    const engine = ownEngine({ verify: 'child', cache: false })
    await expect(engine.load('m', { path: ends([2 ** 30]) })).rejects.toMatchObject({
      code: 'ERR_MODEL_LOAD',
      message: expect.stringContaining('expected at most 2147483648 bytes in one row'),
    })
  })
})

/** sum = x, and product = x, after a loop that never ends unless there is a number above 0. */
function endless(): Uint8Array {
  const body = graph('body')
    .input('time', 'int64', [])
    .input('go', 'bool', [])
    .input('in', 'float32', ['N', 4])
    .output('on', 'bool', [])
    .output('out', 'float32', ['N', 4])
    .node('ReduceMax', ['x'], ['largest'], { keepdims: 0 })
    .node('LessOrEqual', ['largest', 'zero'], ['on'])
    .node('Identity', ['in'], ['out'])
    .subgraph()
  return graph('endless')
    .input('x', 'float32', ['N', 4])
    .output('sum', 'float32', ['N', 4])
    .output('product', 'float32', ['N', 4])
    .initializer('zero', 'float32', [], [0])
    .initializer('yes', 'bool', [], [1])
    .node('Loop', ['', 'yes', 'x'], ['sum'], { body })
    .node('Identity', ['sum'], ['product'])
    .build()
}

const feeds = (value: number) => ({ x: new Tensor('float32', new Float32Array(4).fill(value), [1, 4]) })

// The binding cannot stop a run: its thread is given up.
it.runIf(executorKinds[0] === 'native')(
  'made-up rows over which a run takes longer than maxRunMs are left out',
  async () => {
    const engine = ownEngine({ cpuWorkers: 1, executor: 'native' })
    const model = await engine.load('m', {
      bytes: endless(),
      maxBatchSize: 4,
      checkRows: false,
      maxRunMs: 100,
      warmup: { data: 'zeros' },
    })
    expect((await model.infer(feeds(2)))['sum']!.data).toEqual(new Float32Array(4).fill(2))
  },
)

// Last: the thread that the binding gives up computes until the process ends.
describe.each(executorKinds)('a model whose warming up never ends (%s)', (executor) => {
  it('fails to load after maxRunMs, and what it was to replace has gone on serving', async () => {
    const engine = ownEngine({ cpuWorkers: 1, executor })
    await engine.load('m', { bytes: markedModel(7), checkRows: false })
    const loading = engine.load('m', {
      bytes: endless(),
      maxBatchSize: 4,
      checkRows: false,
      maxRunMs: 100,
      warmup: [{ feeds: feeds(1) }, { feeds: feeds(0) }],
    })
    const refusal = expect(loading).rejects.toMatchObject({
      code: 'ERR_MODEL_LOAD',
      argument: executor === 'native' ? 'warmup[1].feeds' : expect.anything(),
      message:
        executor === 'native' ? expect.stringContaining('longer than maxRunMs, 100 ms') : expect.anything(),
    })
    const answers = async () => {
      for (let count = 0; count < 20; count++) expect(markOf(await engine.infer('m', feeds(3)), 3)).toBe(7)
    }
    await Promise.all([refusal, executor === 'native' ? answers() : null])
    await answers()
  })
})
