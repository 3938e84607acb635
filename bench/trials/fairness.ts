import { run } from '../child.ts'
import { matmulChain } from '../models.ts'
import type { FairnessLatencyInput, FairnessLatencyResult, Spread } from '../programs/fairness-latency.ts'
import type { FairnessSharesInput, FairnessSharesResult } from '../programs/fairness-shares.ts'
import { shown } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const maxBatchSize = 8
const weights = [1, 3]
const addedMs = 10

/** Models that share a worker: none waits for long, and each gets its part. */
export const fairness: Trial = {
  describe:
    'one worker: latency of a 1 ms model beside a saturated 100 ms one; compute time of two alike, weights 1 and 3',
  seconds: 10,
  async run({ seconds, rounds, smoke }) {
    const common = { maxBatchSize, warmupSeconds: smoke ? 0.2 : 2, seconds: smoke ? 1 : seconds }
    const [light, heavy] = [matmulChain(20), matmulChain(smoke ? 400 : 2000)]
    const latencyInput: FairnessLatencyInput = { ...common, light, heavy, heavyCallers: 32, intervalMs: 20 }
    const sharesInput: FairnessSharesInput = { ...common, model: matmulChain(100), weights, callersEach: 32 }
    const latencies: FairnessLatencyResult[] = []
    const shares: FairnessSharesResult[] = []
    for (let count = 0; count < rounds; count++) {
      latencies.push(await run('programs/fairness-latency.ts', latencyInput))
      shares.push(await run('programs/fairness-shares.ts', sharesInput))
    }

    const middle = (values: readonly number[]) => round(median(values))
    const p99Ms = (key: keyof FairnessLatencyResult) => middle(latencies.map((result) => result[key].p99Ms))
    const row = (what: string, spreads: readonly Spread[]) => ({
      what,
      'p50 ms': middle(spreads.map((spread) => spread.p50Ms)),
      'p99 ms': middle(spreads.map((spread) => spread.p99Ms)),
      'of the compute time': '',
    })
    const totalWeight = weights.reduce((sum, weight) => sum + weight, 0)
    const weighted = weights.map((weight, index) => {
      const [due, found] = [weight / totalWeight, median(shares.map((result) => result.shares[index]!))]
      const name = `weight ${weight}`
      const target = `${name}: share of the compute time, to the ${round(due)} that it is due`
      return {
        row: { what: name, 'p50 ms': '', 'p99 ms': '', 'of the compute time': round(found, 3) },
        targets: [atLeast(0.9, target, round(found / due, 3)), atMost(1.1, target, round(found / due, 3))],
      }
    })
    const limitMs = round(p99Ms('heavyRuns') + addedMs)
    const ours = p99Ms('beside')
    return {
      ours,
      plain: p99Ms('heavyRuns'),
      unit: 'ms, p99: a request of the light model beside the heavy one, to a run of the heavy one',
      ratio: round(ours / p99Ms('heavyRuns')),
      numbers: [
        {
          question: `a light model beside a saturated one of ${shown(middle(latencies.map(({ heavyRuns }) => heavyRuns.p50Ms)))} ms a run: its p99`,
          plain: '', zerohop: `${shown(ours)} ms`, note: `a run of the heavy one, p99: ${shown(p99Ms('heavyRuns'))} ms`,
        },
        { question: `two busy models with weights ${weights.join(' and ')}: their shares of the worker`, plain: '', zerohop: weighted.map(({ row: each }) => each['of the compute time']).join(' and '), note: '' },
      ], // prettier-ignore
      targets: [
        atMost(limitMs, `p99 of the light model, in ms: a heavy run and ${addedMs}`, ours),
        ...weighted.flatMap(({ targets }) => targets),
      ],
      rows: [
        row(
          'light model alone',
          latencies.map(({ alone }) => alone),
        ),
        row(
          'light model beside the heavy one',
          latencies.map(({ beside }) => beside),
        ),
        row(
          'runs of the heavy model',
          latencies.map(({ heavyRuns }) => heavyRuns),
        ),
        ...weighted.map(({ row }) => row),
      ],
      settings: {
        maxBatchSize,
        intervalMs: latencyInput.intervalMs,
        heavyCallers: latencyInput.heavyCallers,
        sharesCallersEach: sharesInput.callersEach,
        sharesRunMs: middle(shares.map(({ runMs }) => runMs)),
      },
      details: { latencies, shares },
    }
  },
}
