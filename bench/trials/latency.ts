import { run } from '../child.ts'
import { benchModel, type BenchModel } from '../models.ts'
import type { LatencyResult } from '../programs/latency.ts'
import { round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

/** One caller alone: what the way through another thread costs. */
export const latency: Trial = {
  describe: 'p50 and p99 of one caller, identity and 588 KB rows, against plain, beside a bare thread ping-pong',
  async run({ rounds, smoke }) {
    const measure = (model: BenchModel, requestsPerBlock: number) =>
      run<LatencyResult>('programs/latency.ts', { model, blocks: smoke ? 1 : 2 * rounds + 1, requestsPerBlock })
    const identity = await measure(benchModel('identity'), smoke ? 500 : 5000)
    const image = await measure(benchModel('image-identity'), smoke ? 50 : 500)

    const row = (model: string, { plain, ours, pingPong }: LatencyResult) => ({
      model,
      'plain p50 us': round(plain.p50, 1),
      'plain p99 us': round(plain.p99, 1),
      'ours p50 us': round(ours.p50, 1),
      'ours p99 us': round(ours.p99, 1),
      'ping-pong p50 us': round(pingPong.p50, 1),
      'added p50 us': round(ours.p50 - plain.p50, 1),
    })
    const pingPongs = (identity.ours.p50 - identity.plain.p50) / identity.pingPong.p50
    const imageMs = (image.ours.p50 - image.plain.p50) / 1000
    return {
      ours: round(identity.ours.p50, 1),
      plain: round(identity.plain.p50, 1),
      unit: 'us, median of identity',
      ratio: round(identity.ours.p50 / identity.plain.p50),
      targets: [
        atMost(2.5, 'identity: median added, in ping-pongs', round(pingPongs)),
        atMost(0.4, '588 KB: median added, in ms', round(imageMs, 3)),
      ],
      rows: [row('identity', identity), row('588 KB', image)],
      settings: { concurrency: 1 },
    }
  },
}
