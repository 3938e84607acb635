import { expect, it } from 'vitest'
import { outcomeOf } from '../scheduling/outcome.ts'
import { House, settled } from '../workers/serving.ts'
import { accumulatorSequence } from './accumulators.ts'
import { ServedSequences } from './served-sequences.ts'

it('a request that is withdrawn while its answer waits for those before it has left no state', async () => {
  const house = await House.open(2)
  const model = await ServedSequences.on(house, {
    maxBatchSize: 4,
    sequence: { ...accumulatorSequence, maxSequenceIdleMs: 100_000, oldest: { preserveOrdering: true } },
  })
  const sum = async (answer: ReturnType<ServedSequences['infer']>) => (await answer).outputs['sum']!.data[0]
  const aborts = new AbortController()
  const other = sum(model.infer(1, { sequenceId: 1, sequenceStart: true }))
  await settled()
  const withdrawn = outcomeOf(model.infer(10, { sequenceId: 2, sequenceStart: true, signal: aborts.signal }))
  const next = sum(model.infer(20, { sequenceId: 2 }))
  await settled()
  const [first, second] = house.places.map(({ threads }) => threads.current)
  expect(second!.finish()).toBe(true)
  await settled()
  aborts.abort('withdrawn')
  expect(await withdrawn).toBe('withdrawn')
  await settled()
  expect([first!.finish(), second!.finish()]).toEqual([true, true])
  expect([await other, await next]).toEqual([1, 20])
})
