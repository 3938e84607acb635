import { expect, it } from 'vitest'
import { ownEngine } from '../support/open.ts'
import { loadNumber, one, step } from './arithmetic.ts'

it('a pipeline says what it has not: leases, sequences, instances', async () => {
  const engine = ownEngine()
  await loadNumber(engine, 'twice', (x) => 2 * x)
  const model = await engine.loadPipeline('pipeline', {
    inputs: ['x'],
    steps: [step('twice', 'x', 'y')],
    outputs: ['y'],
  })
  const refused = { code: 'ERR_INVALID_ARG', model: 'pipeline', message: expect.stringContaining('pipeline') }
  expect(() => model.lease()).toThrow(expect.objectContaining({ ...refused, argument: 'lease' }))
  expect(() => model.sequence()).toThrow(
    expect.objectContaining({ ...refused, message: expect.stringContaining('It is a pipeline') }),
  )
  await expect(model.infer({ x: one(1) }, { sequenceId: 1 })).rejects.toMatchObject({
    ...refused,
    argument: 'options.sequenceId',
  })
  await expect(model.scale({ count: 2 })).rejects.toMatchObject({ ...refused, argument: 'options.count' })
  expect((await model.infer({ x: one(1) }))['y']!.data).toEqual(one(2))
})
