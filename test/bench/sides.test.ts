import { describe, expect, it } from 'vitest'
import { benchModel } from '../../bench/models.ts'
import { takeTurns } from '../../bench/rounds.ts'
import { feedsFor, openServer } from '../../bench/server.ts'
import { ourSides, type OurSide, type Side } from '../../bench/side.ts'

const model = benchModel('mlp')
const callers = 20

async function answersOf(side: Side): Promise<{ answers: number[][]; meanBatchRows: number }> {
  const server = await openServer(side)
  try {
    const loaded = await server.load({ model, maxBatchSize: 8, intraOpNumThreads: 1 })
    const answers = await Promise.all(
      Array.from({ length: callers }, (_, caller) => loaded.infer(feedsFor(model, caller))),
    )
    const values = answers.map((outputs) =>
      Object.values(outputs).flatMap(({ data }) => Array.from(data as Float32Array)),
    )
    return { answers: values, meanBatchRows: loaded.meanBatchRows() }
  } finally {
    await server.close()
  }
}

describe('what is compared', async () => {
  const plain = await answersOf('plain')

  it.each<Side>(['batcher', 'dataloader', 'piscina', ...(Object.keys(ourSides) as OurSide[])])(
    'answers as plain ONNX Runtime does: %s',
    async (side) => {
      const { answers } = await answersOf(side)
      for (const [caller, values] of answers.entries()) {
        expect(values).toHaveLength(plain.answers[caller]!.length)
        for (const [index, value] of values.entries())
          expect(value).toBeCloseTo(plain.answers[caller]![index]!, 4)
      }
    },
  )

  it('joins requests where it says so', async () => {
    expect(plain.meanBatchRows).toBe(1)
    for (const side of ['batcher', 'dataloader'] as const)
      expect((await answersOf(side)).meanBatchRows).toBeCloseTo(callers / 3, 5)
  })
})

it('sides take turns, there and back', async () => {
  const order: string[] = []
  const side = (name: string) => async () => order.push(name)
  expect(await takeTurns(3, { a: side('a'), b: side('b') })).toEqual({ a: [1, 4, 5], b: [2, 3, 6] })
  expect(order).toEqual(['a', 'b', 'b', 'a', 'a', 'b'])
})
