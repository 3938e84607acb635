import { expect, it } from 'vitest'
import { InferenceError } from '../../src/index.ts'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { loadGate, loadNumber, one, step } from './arithmetic.ts'

it('a request whose signal fires is withdrawn, whatever the reason is', async () => {
  const engine = ownEngine({ cpuWorkers: 1 })
  const gate = await loadGate(engine, 'gate')
  const line = await engine.loadPipeline('line', {
    inputs: ['x'],
    steps: [step('gate', 'x', 'y')],
    outputs: ['y'],
  })
  const controller = new AbortController()
  const answer = line.infer({ x: one(1) }, { signal: controller.signal })
  await until(() => gate.calls === 1)
  const reason = new InferenceError('ERR_DISCONNECTED', 'the client has gone')
  controller.abort(reason)
  await expect(answer).rejects.toBe(reason)
  gate.open()
  for (const model of [line, engine.model('gate')])
    expect(model.stats().rejections).toMatchObject({ cancelled: 1, execution: 0 })
})

it('a pipeline within one that fails has its request withdrawn, as any model has', async () => {
  const engine = ownEngine({ cpuWorkers: 1 })
  const gate = await loadGate(engine, 'gate')
  await loadNumber(engine, 'throwing', () => {
    throw new RangeError('never')
  })
  await engine.loadPipeline('inner', { inputs: ['x'], steps: [step('gate', 'x', 'y')], outputs: ['y'] })
  const outer = await engine.loadPipeline('outer', {
    inputs: ['x'],
    steps: [step('inner', 'x', 'y'), step('throwing', 'x', 'z')],
    outputs: ['y', 'z'],
  })
  await expect(outer.infer({ x: one(1) })).rejects.toMatchObject({ code: 'ERR_EXECUTION' })
  gate.open()
  expect(outer.stats().rejections).toMatchObject({ execution: 1, cancelled: 0 })
  for (const name of ['inner', 'gate'])
    expect(engine.model(name).stats().rejections).toMatchObject({ cancelled: 1, execution: 0 })
})

it('what waits to begin is counted by the limit that it has come to', async () => {
  const engine = ownEngine({ cpuWorkers: 1 })
  const gate = await loadGate(engine, 'gate')
  const line = await engine.loadPipeline('line', {
    inputs: ['x'],
    steps: [step('gate', 'x', 'y')],
    outputs: ['y'],
    maxInFlight: 1,
  })
  const first = line.infer({ x: one(1) })
  await expect(line.infer({ x: one(1) }, { timeoutMs: 1 })).rejects.toMatchObject({ code: 'ERR_TIMEOUT' })
  await expect(line.infer({ x: one(1) }, { deadlineMs: 1 })).rejects.toMatchObject({ code: 'ERR_DEADLINE' })
  const waiting = line.infer({ x: one(1) })
  const refused = expect(Promise.all([first, waiting])).rejects.toMatchObject({ code: 'ERR_CLOSED' })
  await engine.destroy()
  await refused
  await waiting.catch(() => {})
  gate.open()
  expect(line.stats().rejections).toMatchObject({ timeout: 1, deadline: 1, closed: 2, cancelled: 0 })
})
