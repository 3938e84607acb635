import { run } from '../child.ts'
import { benchModel, markedMlp } from '../models.ts'
import type { SwapsInput, SwapsResult } from '../programs/swaps.ts'
import { takeTurns } from '../rounds.ts'
import { executors } from '../side.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

/** V8's own room for young objects grows with any load, by up to 48 MB: not here. */
const flags = ['--expose-gc', '--max-semi-space-size=2']

const megabytes = (bytes: number) => round(bytes / 2 ** 20, 1)

/** A model is replaced under load: nobody may notice, and least of all the callers of another one. */
export const swaps: Trial = {
  describe:
    '200 replacements of a model at 1000 requests/s: failed requests, memory, and the p99 of another model beside it',
  seconds: 10,
  async run({ seconds, rounds, smoke }) {
    const load = {
      requestsPerSecond: 1000,
      othersPerSecond: 200,
      swaps: smoke ? 10 : 200,
      quietSeconds: seconds,
    }
    const models = { versions: [markedMlp(1), markedMlp(2)], other: benchModel('mlp') }
    const measure = (side: SwapsInput['side']) => () =>
      run<SwapsResult>('programs/swaps.ts', { side, ...models, ...load } satisfies SwapsInput, flags)
    const found = await takeTurns(rounds, { native: measure('native'), binding: measure('binding') })

    const summary = (results: readonly SwapsResult[]) => {
      const middle = (of: (result: SwapsResult) => number) => median(results.map(of))
      const sum = (of: (result: SwapsResult) => number) =>
        results.reduce((total, result) => total + of(result), 0)
      return {
        failed: sum(({ failed }) => failed),
        mixed: sum(({ mixed }) => mixed),
        quietMs: middle(({ quiet }) => quiet.p99Ms),
        swappingMs: middle(({ swapping }) => swapping.p99Ms),
        slowdown: round(middle(({ quiet, swapping }) => swapping.p99Ms / quiet.p99Ms)),
        growth: round(
          middle(({ bytesBefore, bytesAfter }) => bytesAfter / bytesBefore),
          3,
        ),
        row: {
          requests: sum(({ requests }) => requests),
          'ms a swap': round(
            middle(({ swapMs }) => swapMs),
            1,
          ),
          'p99 ms beside, before': round(middle(({ quiet }) => quiet.p99Ms)),
          'and meanwhile': round(middle(({ swapping }) => swapping.p99Ms)),
          'loop p99 ms, before': round(middle(({ quiet }) => quiet.loopP99Ms)),
          'loop meanwhile': round(middle(({ swapping }) => swapping.loopP99Ms)),
          'MB at first': megabytes(middle(({ bytesFirst }) => bytesFirst)),
          'after 20 swaps': megabytes(middle(({ bytesBefore }) => bytesBefore)),
          'after all': megabytes(middle(({ bytesAfter }) => bytesAfter)),
        },
      }
    }
    const all = { native: summary(found.native), binding: summary(found.binding) }
    const { failed, mixed, quietMs, swappingMs, slowdown, growth } = all.native
    return {
      ours: round(swappingMs),
      plain: round(quietMs),
      unit: 'ms, p99 of the model beside it',
      ratio: slowdown,
      targets: [
        atMost(0, 'failed requests with native', failed),
        atMost(0, 'answers that mix versions with native', mixed),
        atMost(1.05, 'memory after 200 swaps, to that after the first 20, with native', growth),
        atMost(1.5, 'p99 of the model beside it, to that before, with native', slowdown),
        atMost(0, 'failed requests with binding', all.binding.failed),
      ],
      rows: executors.map((side) => ({
        side,
        failed: all[side].failed,
        mixed: all[side].mixed,
        ...all[side].row,
      })),
      settings: load,
      details: found,
    }
  },
}
