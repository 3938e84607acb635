import { hasShared, sharedPath } from '../../test/support/shared.ts'
import { run } from '../child.ts'
import { benchModel, type BenchModel } from '../models.ts'
import type { TracingInput, TracingResult } from '../programs/tracing.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atLeast } from '../targets.ts'
import { TrialSkipped, type Trial } from '../trial.ts'

const squeezenet: BenchModel = {
  path: sharedPath('models/squeezenet/model.onnx'),
  input: 'data_0',
  rowDims: [3, 224, 224],
}
const rates = { off: 0, 'each 1000th': 1000, each: 1 } as const

/** What traces cost: of each request, of a few, of none. */
export const tracing: Trial = {
  describe:
    'requests a second without traces, with one of a thousand traced and with each: SqueezeNet and, where a request costs least, the MLP',
  seconds: 5,
  async run({ seconds, rounds }) {
    if (!hasShared) throw new TrialSkipped(' is left out: no ../shared with models')
    const found = []
    for (const [name, model, callers] of [
      ['SqueezeNet', squeezenet, 8],
      ['MLP', benchModel('mlp'), 64],
    ] as const) {
      const measure = (rate: number) => () =>
        run<TracingResult>('programs/tracing.ts', { model, rate, callers, seconds } satisfies TracingInput)
      const turns = await takeTurns(rounds, {
        off: measure(rates.off),
        'each 1000th': measure(rates['each 1000th']),
        each: measure(rates.each),
      })
      const of = (side: keyof typeof rates) =>
        median(turns[side].map(({ requestsPerSecond }) => requestsPerSecond))
      // Each round met the machine with all of them.
      const share = (side: keyof typeof rates) =>
        round(
          median(
            turns[side].map(
              ({ requestsPerSecond }, index) => requestsPerSecond / turns.off[index]!.requestsPerSecond,
            ),
          ),
          3,
        )
      found.push({
        name, turns, share: share('each'), off: of('off'), each: of('each'),
        row: {
          model: name, callers, 'off /s': round(of('off')), 'each 1000th /s': round(of('each 1000th')), 'each /s': round(of('each')),
          'each 1000th, share': share('each 1000th'), 'each, share': share('each'), lost: turns.each.reduce((sum, { lost }) => sum + lost, 0),
        },
      }) // prettier-ignore
    }
    const [images] = found
    return {
      ours: round(images!.each),
      plain: round(images!.off),
      unit: 'requests/s of SqueezeNet, each traced, beside none',
      ratio: images!.share,
      targets: [
        atLeast(0.9, 'SqueezeNet: share of the requests that is left with each traced', images!.share),
      ],
      rows: found.map(({ row }) => row),
      settings: { seconds },
      details: found.map(({ name, turns }) => ({ name, turns })),
    }
  },
}
