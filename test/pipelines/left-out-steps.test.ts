import { describe, expect, it } from 'vitest'
import type { PipelineTensors } from '../../src/index.ts'
import { ownEngine } from '../support/open.ts'
import { loadGate, loadNumber, one, step } from './arithmetic.ts'

describe('a step that is left out as soon as its request comes', () => {
  it.each([
    ['by its when', { when: () => false }, { x: one(1), other: one(3) }],
    ['for want of an input', {}, { other: one(3) }],
  ])('%s has those after it begin once', async (_, left, feeds) => {
    const engine = ownEngine()
    await loadNumber(engine, 'twice', (x) => 2 * x)
    const gate = await loadGate(engine, 'gate')
    const difference = await engine.loadFunction('difference', {
      inputs: [
        { name: 'a', type: 'float32', dims: [1] },
        { name: 'b', type: 'float32', dims: [1], optional: true },
      ],
      outputs: [{ name: 'y', type: 'float32', dims: [1] }],
      run: ({ a, b }) => ({ y: Float32Array.from(a.data, (value, row) => value - (b?.data[row] ?? 0)) }),
    })
    const model = await engine.loadPipeline('once', {
      inputs: [{ name: 'x', optional: true }, 'other'],
      steps: [
        { ...step('twice', 'x', 'twice'), ...left },
        { model: 'difference', inputs: { a: 'other', b: 'twice' }, outputs: { y: 'y' } },
        step('gate', 'other', 'late'),
      ],
      outputs: ['y', 'late'],
    })
    const answer = model.infer(feeds)
    await expect.poll(() => difference.stats().inferenceStats.success.count).toBe(1)
    gate.open()
    expect(await answer).toMatchObject({ y: { data: one(3) }, late: { data: one(3) } })
    expect(difference.stats().inferenceStats.success.count).toBe(1)
    expect(model.stats().steps!.map(({ success, skippedCount }) => [success.count, skippedCount])).toEqual([
      [0, 1],
      [1, 0],
      [1, 0],
    ])
  })
})

describe('an output that a pipeline leaves out', () => {
  it.each(['constructor', 'toString', '__proto__'])(
    "is left out of the one that it is a step of, too, if its name is '%s'",
    async (name) => {
      const engine = ownEngine()
      await loadNumber(engine, 'twice', (x) => 2 * x)
      const named = {
        model: 'twice',
        inputs: { x: 'x' },
        outputs: { y: name },
        when: ({ x }: PipelineTensors) => x!.data[0] === 1,
      }
      await engine.loadPipeline('inner', {
        inputs: ['x'],
        steps: [named, step('twice', 'x', 'y')],
        outputs: [name, 'y'],
      })
      const outputs = Object.fromEntries([
        [name, 'left'],
        ['y', 'y'],
      ])
      const model = await engine.loadPipeline('outer', {
        inputs: ['x'],
        steps: [{ model: 'inner', inputs: { x: 'x' }, outputs }, step('twice', 'left', 'more')],
        outputs: ['left', 'y', 'more'],
      })
      expect(Object.keys(await model.infer({ x: one(1) }))).toEqual(['left', 'y', 'more'])
      expect(Object.keys(await model.infer({ x: one(2) }))).toEqual(['y'])
    },
  )
})
