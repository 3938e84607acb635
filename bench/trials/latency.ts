import { run } from '../child.ts'
import { benchModel, type BenchModel } from '../models.ts'
import type { LatencyInput, LatencyResult, LatencyTimes } from '../programs/latency.ts'
import { shown } from '../shown.ts'
import { ourSides, type OurSide } from '../side.ts'
import { round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const sides = Object.keys(ourSides) as OurSide[]

/** Figures of the block that the ratio is of: medians of all blocks may have another quotient. */
const besideEachOther = ({ beside }: LatencyTimes) => ({
  plain: `${shown(beside.plain)} us`,
  zerohop: `${shown(beside.own)} us`,
})
const ratioOf = ({ beside }: LatencyTimes): string => `${round(beside.own / beside.plain)} x`

/** One caller alone: what a call costs. */
export const latency: Trial = {
  describe:
    'p50 and p99 of one caller, identity and 588 KB rows, both executors against plain, beside a bare thread ping-pong',
  async run({ rounds, smoke }) {
    const measure = (model: BenchModel, requestsPerBlock: number) => {
      const blocks = smoke ? 1 : 4 * rounds + 1
      const input: LatencyInput = {
        model,
        sides: ['plain', ...sides],
        blocks,
        requestsPerBlock,
        requestsAfterIdle: smoke ? 2 : 30,
      }
      return run<LatencyResult>('programs/latency.ts', input)
    }
    const identity = await measure(benchModel('identity'), smoke ? 500 : 4000)
    const image = await measure(benchModel('image-identity'), smoke ? 50 : 500)

    const row = (model: string, who: string, times: LatencyTimes) => ({
      model,
      who,
      'p50 us': round(times.p50, 1),
      'p99 us': round(times.p99, 1),
      'p50 to plain': round(times.toPlain),
      'p50 us after 100 ms idle': round(times.afterIdle, 1),
    })
    const rowsOf = (model: string, result: LatencyResult) =>
      (['plain', ...sides, 'ping-pong'] as const).map((who) => row(model, who, result[who]))
    return {
      ours: round(identity.native.p50, 1),
      plain: round(identity.plain.p50, 1),
      unit: 'us, median of identity',
      ratio: round(identity.native.toPlain),
      targets: [
        atMost(0.8, 'identity: median to plain', round(identity.native.toPlain)),
        atMost(
          1.3,
          'identity: median to plain, inline: false',
          round(identity['native, inline: false'].toPlain),
        ),
        atMost(60, 'identity: median after 100 ms of idleness, in us', round(identity.native.afterIdle, 1)),
        atMost(
          60,
          'identity: the same with inline: false',
          round(identity['native, inline: false'].afterIdle, 1),
        ),
        atMost(1, '588 KB: median to plain', round(image.native.toPlain)),
      ],
      rows: [...rowsOf('identity', identity), ...rowsOf('588 KB', image)],
      numbers: [
        {
          question: 'identity, one caller, median of the whole call',
          ...besideEachOther(identity.native),
          note: `${ratioOf(identity.native)}; handed to a worker (\`inline: false\`) ${shown(identity['native, inline: false'].p50)} us`,
        },
        {
          question: '588 KB in and out, one caller, median',
          ...besideEachOther(image.native),
          note: ratioOf(image.native),
        },
      ],
      settings: { concurrency: 1, sides: ourSides },
    }
  },
}
