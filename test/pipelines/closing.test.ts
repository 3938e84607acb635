import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { InferenceEngine } from '../../src/index.ts'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { beginLoad, loadGate, loadNumber, one, step } from './arithmetic.ts'

/** A pipeline that has a request in the first of its two steps. */
async function begun(engine: InferenceEngine, version?: number) {
  const gate = await loadGate(engine, 'gate')
  await loadNumber(engine, 'twice', (x) => 2 * x)
  const model = await engine.loadPipeline('both', {
    inputs: ['x'],
    steps: [step('gate', 'x', 'a'), step('twice', 'a', 'y')],
    outputs: ['y'],
    ...(version !== undefined && { version }),
  })
  const answer = model.infer({ x: one(3) })
  answer.catch(() => {})
  await until(() => gate.calls === 1)
  return { gate, answer }
}

/** Closes an engine, and goes on when all has been released that nothing holds. */
async function closing(engine: InferenceEngine) {
  const whole = engine.close()
  for (let turn = 0; turn < 50; turn++) await nextTurn()
  return { whole }
}

describe('an engine that is closed answers what a pipeline has accepted', () => {
  it.each([
    ['that is an older version of a model', { version: 1, other: 2 }],
    ['that a model has replaced', {}],
  ])('%s', async (_, { version, other }: { version?: number; other?: number }) => {
    const engine = ownEngine()
    const { gate, answer } = await begun(engine, version)
    await engine.loadFunction('both', {
      inputs: [{ name: 'x', type: 'float32', dims: [1] }], outputs: [{ name: 'y', type: 'float32', dims: [1] }], run: ({ x }) => ({ y: x.data }), ...(other !== undefined && { version: other }),
    }) // prettier-ignore
    const closed = await closing(engine)
    gate.open()
    expect((await answer)['y']!.data).toEqual(one(6))
    await closed.whole
  })

  it('while a newer version of a step is being loaded', async () => {
    const engine = ownEngine()
    const { gate, answer } = await begun(engine)
    const newer = await beginLoad(engine, 'twice', 2)
    const closed = await closing(engine)
    gate.open()
    expect((await answer)['y']!.data).toEqual(one(6))
    newer.open()
    await expect(newer.loading).rejects.toMatchObject({ code: 'ERR_CLOSED' })
    await closed.whole
  })

  it('and meanwhile loads nothing more that no pipeline needs', async () => {
    const engine = ownEngine()
    const { gate, answer } = await begun(engine)
    const other = await beginLoad(engine, 'other')
    const closed = await closing(engine)
    other.open()
    await expect(other.loading).rejects.toMatchObject({ code: 'ERR_CLOSED' })
    gate.open()
    expect((await answer)['y']!.data).toEqual(one(6))
    await closed.whole
  })
})
