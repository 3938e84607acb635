import { describe, expect, it } from 'vitest'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { Tensor, type MemoryOptions } from '../../src/index.ts'
import { findDropped } from '../support/garbage.ts'
import { load, ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import * as small from '../models/small.ts'

const { version } = openNativeOrt()
const mebibyte = 2 ** 20

async function loaded(memory: MemoryOptions, executor: 'native' | 'binding' = 'native') {
  const model = await load(ownEngine({ cpuWorkers: 1, executor }), small.matmulSlow(64, 10), {
    memory,
    maxBatchSize: 0,
    checkRows: false,
  })
  // Each of its ten intermediate values has 16 MiB.
  const run = () =>
    model.infer({ x: new Tensor('float32', new Float32Array(65_536 * 64).fill(1), [65_536, 64]) })
  return { model, run }
}

describe.skipIf(version === undefined)('memory', () => {
  it('is kept by the arena for the next run', async () => {
    const { model, run } = await loaded({})
    await run()
    const { totalBytes, inUseBytes, mostInUseBytes } = model.stats().arena!
    expect(totalBytes).toBeGreaterThan(16 * mebibyte)
    expect(mostInUseBytes).toBeGreaterThan(16 * mebibyte)
    expect(inUseBytes).toBeLessThan(4 * mebibyte)
  })

  it.each<[string, MemoryOptions]>([
    ["given back after each run with shrink: 'run'", { shrink: 'run' }],
    ["given back some time after the last run with shrink: 'idle'", { shrink: 'idle' }],
    ['given back when there is more than limitBytes', { limitBytes: 8 * mebibyte }],
  ])('is %s', async (_name, memory) => {
    const { model, run } = await loaded(memory)
    for (let count = 0; count < 3; count++) expect((await run()).y!.data[0]).toBe(1)
    await until(() => model.stats().arena!.totalBytes < 4 * mebibyte)
    expect((await run()).y!.data[0]).toBe(1)
    expect(model.stats()).toMatchObject({ executionCount: 4, rejections: { execution: 0 } })
  })

  it('is never kept without an arena', async () => {
    const { model, run } = await loaded({ arena: false })
    await run()
    expect(model.stats().arena).toBeNull()
  })
})

it('with the binding a warning says that an arena gives nothing back', async () => {
  const warnings: string[] = []
  const remember = (warning: Error & { code?: string }) => void warnings.push(warning.code ?? '')
  await findDropped()
  process.on('warning', remember)
  const { model, run } = await loaded({ shrink: 'run' }, 'binding')
  await run()
  await run()
  await until(() => warnings.length > 0)
  process.off('warning', remember)
  expect(warnings).toEqual(['ZEROHOP_MEMORY_IGNORED'])
  expect(model.stats().arena).toBeNull()
})

it.each([
  [
    'arena beside enableCpuMemArena',
    { memory: { arena: true }, sessionOptions: { enableCpuMemArena: true } },
    'sessionOptions.enableCpuMemArena',
  ],
  ['shrink without an arena', { memory: { arena: false, shrink: 'run' } }, 'memory.shrink'],
  [
    'limitBytes without an arena',
    { memory: { limitBytes: 1 }, sessionOptions: { enableCpuMemArena: false } },
    'memory.limitBytes',
  ],
  ['an unknown time', { memory: { shrink: 'never' } }, 'memory.shrink'],
  ['a limit that is no number of bytes', { memory: { limitBytes: 0.5 } }, 'memory.limitBytes'],
  ['an unknown option', { memory: { size: 1 } }, 'memory.size'],
])('%s is refused', async (_name, config, argument) => {
  await expect(load(ownEngine(), small.identity('float32'), config as never)).rejects.toMatchObject({
    code: 'ERR_MODEL_CONFIG',
    argument,
  })
})
