import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { LatencyResult } from '../programs/latency.ts'
import { round } from '../statistics.ts'
import type { Trial } from '../trial.ts'

const maxPingPongs = 2.5
const maxImageMs = 0.4

/** One caller alone: what the way through another thread costs. */
export const latency: Trial = {
  describe: 'p50 and p99 of one caller, identity and 588 KB rows, against plain, beside a bare thread ping-pong',
  seconds: 0,
  async run({ rounds, smoke }) {
    const measure = (name: 'identity' | 'image-identity', requestsPerBlock: number) =>
      run<LatencyResult>('latency.ts', { model: benchModel(name), blocks: smoke ? 1 : 2 * rounds + 1, requestsPerBlock })
    const identity = await measure('identity', smoke ? 500 : 5000)
    const image = await measure('image-identity', smoke ? 50 : 500)

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
      ratio: round(pingPongs),
      target: `identity: added median <= ${maxPingPongs} ping-pongs; 588 KB: added median <= ${maxImageMs} ms (found ${round(imageMs, 3)})`,
      met: pingPongs <= maxPingPongs && imageMs <= maxImageMs,
      rows: [row('identity', identity), row('588 KB', image)],
      settings: { concurrency: 1 },
    }
  },
}
