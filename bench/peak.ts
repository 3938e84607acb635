// LoadGen's peak of a model with a known service time, beside what theory says of it: tsx bench/peak.ts [--quick] [--times 8]: so
// many times slower, for a machine that is not quiet. The model is a function on a thread of its own, served one at a time (M/D/1), and in batches of 8.
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { InferenceEngine } from '../src/index.ts'
import { loadClock } from '../packages/perf/src/perf/load/load.ts'
import { Metronome } from '../packages/perf/src/perf/load/open-loop.ts'
import { findPeak } from '../packages/perf/src/perf/scenarios/find-peak.ts'
import { resolveScenario } from '../packages/perf/src/perf/scenarios/scenario-settings.ts'
import { peakOfFixedService } from '../packages/perf/test/perf/scenarios/known-service.ts'

const { quick, times: given } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, times: { type: 'string', default: '1' } },
}).values
const times = Number(given)
const minDurationMs = times * (quick ? 5000 : 20_000)

/** What can be had of a service time: by theory one at a time; of batches, where the bound is generous, all of it. */
const expectedOf = (serviceMs: number, boundMs: number, maxBatchSize: number) =>
  maxBatchSize === 1 ? peakOfFixedService(serviceMs, boundMs, 0.99) : (maxBatchSize * 1000) / serviceMs

const cases = [
  { serviceMs: 5 * times, boundMs: 50 * times, maxBatchSize: 1 },
  { serviceMs: 2 * times, boundMs: 40 * times, maxBatchSize: 1 },
  { serviceMs: 5 * times, boundMs: 100 * times, maxBatchSize: 8 },
]

// On a machine that is not quiet runs take longer than they were told to: the last columns are about what they took.
const head = [
  'service ms',
  'batch',
  'bound ms',
  'expected',
  'found',
  'ratio',
  'completed/s',
  'runs',
  'late p99 us',
  'service as told ms',
  'expected of that',
  'ratio',
]
const table = new Table({ head, style: { head: [], border: [], compact: true } })
for (const { serviceMs, boundMs, maxBatchSize } of cases) {
  const expected = expectedOf(serviceMs, boundMs, maxBatchSize)
  const engine = new InferenceEngine()
  const metronome = new Metronome(loadClock)
  try {
    const model = await engine.loadFunction('fixed-service', {
      module: new URL('programs/fixed-service.mjs', import.meta.url),
      maxBatchSize,
      parameters: { serviceMs },
      inputs: [{ name: 'x', type: 'float32', dims: [4] }],
      outputs: [{ name: 'y', type: 'float32', dims: [4] }],
    })
    const x = new Float32Array(4)
    const system = { send: () => model.infer({ x }), clock: loadClock, pacer: metronome }
    const settings = resolveScenario({
      scenario: 'server',
      totalSampleCount: 1,
      minDurationMs,
      targetLatencyMs: boundMs,
      targetQps: expected / 3,
    })
    const result = await findPeak(settings, system, {
      onStep: ({ targetQps, met, percentileUs }) =>
        console.error(
          `${targetQps.toFixed(1)} ${met ? 'holds' : 'does not hold'}: ${(percentileUs / 1000).toFixed(2)} ms`,
        ),
    })
    const found = result.peak!.targetQps ?? 0
    const { computeInfer } = model.stats().inferenceStats
    const told = computeInfer.ns / computeInfer.count / 1e6
    const expectedOfTold = expectedOf(told, boundMs, maxBatchSize)
    const { completedPerSecond, sendLag, peak } = result
    table.push([
      serviceMs, maxBatchSize, boundMs, expected.toFixed(1), found.toFixed(1), (found / expected).toFixed(3), completedPerSecond.toFixed(1), peak!.steps.length, sendLag!.p99Us.toFixed(0),
      told.toFixed(3), expectedOfTold.toFixed(1), (found / expectedOfTold).toFixed(3),
    ]) // prettier-ignore
  } finally {
    metronome.stop()
    await engine.destroy()
  }
}
console.log(table.toString())
