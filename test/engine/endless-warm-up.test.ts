import { describe, expect, it } from 'vitest'
import { Tensor } from '../../src/index.ts'
import { graph } from '../models/builder.ts'
import { executorKinds } from '../support/executors.ts'
import { ownEngine } from '../support/open.ts'
import { markedModel, markOf } from '../support/versions.ts'

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
