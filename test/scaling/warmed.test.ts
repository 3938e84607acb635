import { expect, it, onTestFinished, vi } from 'vitest'
import { BindingExecutor } from '../../src/run/executors/binding/binding-executor.ts'
import { NativeExecutor } from '../../src/run/executors/native/native-executor.ts'
import { maskedSequence } from '../models/scheduling.ts'
import * as small from '../models/small.ts'
import { load, ownEngine } from '../support/open.ts'

/** Dims of the first input of what is run for no caller, and how many of those runs go on at once. */
function watchSamples() {
  const runs: { session: number; dims: readonly number[] }[] = []
  let [going, most] = [0, 0]
  const spies = [BindingExecutor.prototype, NativeExecutor.prototype].map((executor) => {
    const { runSample } = executor
    return vi.spyOn(executor as NativeExecutor, 'runSample').mockImplementation(async function (
      this: never,
      ...args
    ) {
      runs.push({ session: args[0], dims: (args[1][0] as { dims: readonly number[] }).dims })
      most = Math.max(most, ++going)
      return (runSample as NativeExecutor['runSample']).apply(this, args).finally(() => going--)
    })
  })
  onTestFinished(() => spies.forEach((spy) => spy.mockRestore()))
  return { runs, most: () => most }
}

it('a model is warmed in all shapes and sizes before it is ready, outside of its statistics', async () => {
  const { runs } = watchSamples()
  const sizes = [4, 8]
  const padding = [
    { input: 'x', dim: 1, sizes, outputs: [{ name: 'positions', dim: 1 }] },
    { input: 'mask', dim: 1, sizes },
  ]
  const config = {
    padding,
    maxBatchSize: 4,
    checkRows: false,
    warmup: { data: 'random', batchSizes: 'all', count: 1 },
    sessionOptions: { logId: 'shapes' },
  } as const
  const model = await load(ownEngine({ cpuWorkers: 1 }), maskedSequence('int64'), config)
  expect(runs.map(({ dims }) => dims)).toEqual([
    [1, 4, 4],
    [2, 4, 4],
    [4, 4, 4],
    [1, 8, 4],
    [2, 8, 4],
    [4, 8, 4],
  ])
  expect(model.stats()).toMatchObject({ inferenceCount: 0, executionCount: 0 })
})

it('instances are warmed at the same time', async () => {
  const { runs, most } = watchSamples()
  const x = new Float32Array(256)
  const warmup = [{ feeds: { x }, count: 20 }]
  await load(ownEngine({ cpuWorkers: 4 }), small.matmulSlow(256, 100), {
    checkRows: false,
    warmup,
    instanceGroup: [{ kind: 'cpu', count: 4 }],
  })
  expect(runs).toHaveLength(80)
  expect(most()).toBe(4)
})
