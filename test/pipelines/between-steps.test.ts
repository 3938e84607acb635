import { describe, expect, it } from 'vitest'
import { Tensor, type PipelineTensors } from '../../src/index.ts'
import { identity } from '../models/identity.ts'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { loadGate, loadNumber, loadSum, one, step } from './arithmetic.ts'

describe('what goes from step to step', () => {
  it('is a Tensor to when and to callers', async () => {
    const engine = ownEngine()
    await loadNumber(engine, 'twice', (x) => 2 * x)
    const seen: PipelineTensors[] = []
    const when = (tensors: PipelineTensors) => seen.push(tensors) > 0
    const model = await engine.loadPipeline('p', {
      inputs: ['x'],
      steps: [step('twice', 'x', 'a'), { ...step('twice', 'a', 'y'), needs: ['x'], when }],
      outputs: ['a', 'y'],
    })
    const { a, y } = await model.infer({ x: one(3) })
    for (const tensor of [seen[0]!['a'], seen[0]!['x'], a, y]) expect(tensor).toBeInstanceOf(Tensor)
    expect([seen[0]!['x']!.data, seen[0]!['a']!.data, a.data, y.data]).toEqual([
      one(3),
      one(6),
      one(6),
      one(12),
    ])
    expect([seen[0]!['a']!.dims, y.dims]).toEqual([
      [1, 1],
      [1, 1],
    ])
  })

  it('is refused by the step whose model it does not fit, for its request alone', async () => {
    const engine = ownEngine()
    await engine.loadFunction('repeat', {
      inputs: [{ name: 'x', type: 'float32', dims: [1] }],
      outputs: [{ name: 'y', type: 'float32', dims: [-1] }],
      run: ({ x }, { rows }) => ({
        y: Array.from({ length: rows }, (_, row) => Float32Array.from({ length: x.data[row]! }, () => 7)),
      }),
    })
    await loadNumber(engine, 'twice', (x) => 2 * x)
    const model = await engine.loadPipeline('p', {
      inputs: ['x'],
      steps: [step('repeat', 'x', 'a'), step('twice', 'a', 'y')],
      outputs: ['y'],
    })
    const [first, second, third] = await Promise.allSettled([1, 2, 1].map((x) => model.infer({ x: one(x) })))
    for (const fit of [first, third])
      expect(fit).toMatchObject({ status: 'fulfilled', value: { y: { data: one(14) } } })
    expect(second).toMatchObject({
      status: 'rejected',
      reason: {
        code: 'ERR_INVALID_ARG',
        model: 'p',
        step: 'twice',
        argument: "input 'x'",
        expected: 'shape [rows, 1]',
        received: [1, 2],
      },
    })
  })

  it('is looked at for what is not finite where the model of the next step says so', async () => {
    const engine = ownEngine()
    await loadNumber(engine, 'inverse', (x) => 1 / x)
    await engine.load('finite', {
      path: identity('float32', [1]),
      maxBatchSize: 4,
      rejectNonFinite: 'inputs',
    })
    const model = await engine.loadPipeline('p', {
      inputs: ['x'],
      steps: [step('inverse', 'x', 'a'), step('finite', 'a', 'y')],
      outputs: ['y'],
    })
    expect((await model.infer({ x: one(2) })).y.data).toEqual(one(0.5))
    await expect(model.infer({ x: one(0) })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      step: 'finite',
      argument: "input 'x'[0]",
    })
  })

  it('keeps its bits as float16, also out of another pipeline', async () => {
    const engine = ownEngine()
    await engine.load('half', { path: identity('float16', [2]), maxBatchSize: 4 })
    await engine.loadPipeline('inner', { inputs: ['x'], steps: [step('half', 'x', 'y')], outputs: ['y'] })
    const model = await engine.loadPipeline('outer', {
      inputs: ['x'],
      steps: [step('inner', 'x', 'a'), step('half', 'a', 'b'), step('half', 'b', 'y')],
      outputs: ['y'],
    })
    const bits = Uint16Array.of(0x3c01, 0xfbff)
    const { y } = await model.infer({ x: bits })
    const { buffer, byteOffset } = y.data as Uint16Array
    expect(new Uint16Array(buffer, byteOffset, 2)).toEqual(bits)
  })

  it('is read of the caller only as long as it is there: what was taken away since fails the step', async () => {
    const engine = ownEngine()
    const gate = await loadGate(engine, 'gate')
    await loadSum(engine, 'sum')
    const model = await engine.loadPipeline('p', {
      inputs: ['x'],
      steps: [step('gate', 'x', 'a'), { model: 'sum', inputs: { a: 'a', b: 'x' }, outputs: { sum: 'y' } }],
      outputs: ['y'],
    })
    const taken = one(1)
    const answers = [model.infer({ x: taken }), model.infer({ x: one(2) })]
    await until(() => gate.calls > 0)
    structuredClone(taken, { transfer: [taken.buffer] })
    gate.open()
    const [first, second] = await Promise.allSettled(answers)
    expect(first).toMatchObject({
      status: 'rejected',
      reason: { code: 'ERR_INVALID_ARG', step: 'sum', argument: "input 'b'" },
    })
    expect(second).toMatchObject({ status: 'fulfilled', value: { y: { data: one(4) } } })
  })
})
