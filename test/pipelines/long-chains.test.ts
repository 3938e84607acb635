import { describe, expect, it } from 'vitest'
import { ownEngine } from '../support/open.ts'
import { errorOf } from '../triton-repository/temporary.ts'
import { loadNumber, one, step } from './arithmetic.ts'

const length = 5000
const chain = Array.from({ length }, (_, index) => ({
  ...step('plus', `t${index}`, `t${index + 1}`),
  name: `s${index}`,
}))

describe('a pipeline of 5000 steps behind each other', () => {
  it.each([
    ['in their order', chain],
    ['from the last to the first', chain.toReversed()],
  ])('is loaded and runs, with its steps %s', async (_, steps) => {
    const engine = ownEngine()
    await loadNumber(engine, 'plus', (x) => x + 1)
    const model = await engine.loadPipeline('long', { inputs: ['t0'], steps, outputs: [`t${length}`] })
    expect((await model.infer({ t0: one(1) }))[`t${length}`]!.data).toEqual(one(length + 1))
  })

  it('that is a circle is refused as one', async () => {
    const engine = ownEngine()
    await loadNumber(engine, 'plus', (x) => x + 1)
    const steps = [...chain, { ...step('plus', `t${length}`, 'back'), name: 'back' }].map((each) =>
      each.name === 's7' ? { ...each, needs: ['back'], when: () => true } : each,
    )
    const error = await errorOf(
      engine.loadPipeline('long', { inputs: ['t0'], steps, outputs: [`t${length}`] }),
    )
    expect(error).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument: 'steps[7].inputs',
      received: expect.stringMatching(/^'a circle: 's7' waits for 'back' waits for 's4999' waits for/),
    })
  })
})
