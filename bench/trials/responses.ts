import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { ResponsesInput, ResponsesResult } from '../programs/responses.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const models = { identity: '16 bytes in and out', 'image-identity': '588 KiB in and out' } as const
const sides = ['plain', 'miss', 'hit'] as const

/** What a response cache costs who asks for something new, and saves who does not. */
export const responses: Trial = {
  describe:
    'what a call takes without a response cache, with one that has the answer and with one that has not',
  seconds: 3,
  async run({ seconds, rounds }) {
    const found = []
    for (const name of Object.keys(models) as (keyof typeof models)[]) {
      const measure = (side: ResponsesInput['side']) => () =>
        run<ResponsesResult>('programs/responses.ts', {
          model: benchModel(name),
          side,
          seconds,
        } satisfies ResponsesInput)
      const turns = await takeTurns(
        rounds,
        Object.fromEntries(sides.map((side) => [side, measure(side)])) as Record<
          (typeof sides)[number],
          () => Promise<ResponsesResult>
        >,
      )
      const middle = (side: (typeof sides)[number]) => round(median(turns[side].map(({ p50Us }) => p50Us)), 1)
      found.push({
        name,
        turns,
        row: {
          what: models[name],
          'without us': middle('plain'),
          'miss us': middle('miss'),
          'hit us': middle('hit'),
        },
      })
    }
    const [small, large] = found.map(({ row }) => row)
    return {
      ours: small!['hit us'],
      plain: small!['without us'],
      unit: 'us, p50 of a call of 16 bytes that hits',
      ratio: round(small!['hit us'] / small!['without us']),
      targets: [
        atMost(
          small!['without us'],
          '16 bytes: a hit, in us, takes no longer than a run of nothing',
          small!['hit us'],
        ),
        atMost(large!['without us'], '588 KiB: the same', large!['hit us']),
      ],
      rows: found.map(({ row }) => row),
      settings: { seconds },
      details: found.map(({ name, turns }) => ({ name, turns })),
    }
  },
}
