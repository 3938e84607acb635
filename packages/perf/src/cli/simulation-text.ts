import Table from 'cli-table3'
import {
  isWithin,
  type PredictionCheck,
  type RecordedFigures,
  trustedWithin,
} from '../simulation/recorded-run.ts'
import { fewestRuns, type SeldomSizes, trustedSeldomShare } from '../simulation/service-times.ts'
import type { SimulationResult } from '../simulation/simulation-result.ts'
import type { SimulatedConfiguration } from './simulated-service.ts'

/** A prediction, next to the recording if that had the same configuration, and how reliable it is. */
export function simulationText(
  predicted: SimulationResult,
  recorded: RecordedFigures | null,
  configuration: Omit<SimulatedConfiguration, 'levels' | 'splitOversized'>,
  check: PredictionCheck | null,
  sizes: SeldomSizes | null,
): string {
  const ms = (value: number | null) => (value === null ? '-' : value.toFixed(3))
  const number = (value: number | null) => (value === null ? '-' : value.toFixed(2))
  const lines: [string, (of: RecordedFigures | SimulationResult) => string][] = [
    ['requests', ({ requests }) => String(requests)],
    ['answered', ({ answered }) => String(answered)],
    ['p50 ms', ({ p50Ms }) => ms(p50Ms)],
    ['p90 ms', ({ p90Ms }) => ms(p90Ms)],
    ['p95 ms', ({ p95Ms }) => ms(p95Ms)],
    ['p99 ms', ({ p99Ms }) => ms(p99Ms)],
    ['max ms', ({ maxMs }) => ms(maxMs)],
    ['answers/s', ({ throughputPerSecond }) => number(throughputPerSecond)],
    ['rows/s', ({ rowsPerSecond }) => number(rowsPerSecond)],
    ['mean rows of a batch', ({ meanBatchRows }) => number(meanBatchRows)],
  ]
  const columns = recorded === null ? ['predicted'] : ['recorded', 'predicted']
  const colAligns = ['left', ...columns.map(() => 'right')] as ('left' | 'right')[]
  const table = new Table({
    head: ['', ...columns],
    style: { head: [], border: [], compact: true },
    colAligns,
  })
  for (const [name, cell] of lines)
    table.push([name, ...(recorded === null ? [] : [cell(recorded)]), cell(predicted)])
  const { batches, costs, utilisation, maxQueued, refused, dropped } = predicted
  const byRows = Object.entries(batches)
    .map(([rows, count]) => `${rows}: ${count}`)
    .join(', ')
  const rest = [
    configurationText(configuration),
    `batches by rows: ${byRows}`,
    ...(costs === null
      ? []
      : [
          `a batch costs ${costs.meanBatchCost.toFixed(1)} on average, ${costs.largestBatchCost.toFixed(1)} at most; ${(100 * costs.paddingShare).toFixed(1)} % of that is padding`,
        ]),
    `instances busy ${(utilisation * 100).toFixed(1)} % of the time; at most ${maxQueued} requests waiting`,
    ...(refused + dropped === 0 ? [] : [`refused: ${refused}; dropped from the queue: ${dropped}`]),
    ...(check === null ? [] : [checkText(check)]),
    ...(sizes === null ? [] : sizesText(sizes)),
  ]
  return `${table.toString()}\n${rest.join('\n')}\n`
}

function checkText({ p99Off, throughputOff }: PredictionCheck): string {
  const percent = (share: number) => `${share < 0 ? '' : '+'}${(share * 100).toFixed(1)} %`
  const off = `the recording as it was: p99 ${percent(p99Off)}, answers/s ${percent(throughputOff)}`
  if (isWithin({ p99Off, throughputOff })) return `off for ${off}`
  return `off for ${off}\nnot to be trusted: that is more than ${trustedWithin.p99 * 100} % of the p99 or ${trustedWithin.throughput * 100} % of the answers, and what is said of other configurations may be further off`
}

function sizesText({ batches, neverRan, seldomRan, isTrusted }: SeldomSizes): string[] {
  if (neverRan + seldomRan === 0) return []
  const told = `of ${batches} predicted batches ${neverRan} have sizes that never ran in the recording, ${seldomRan} such as ran fewer than ${fewestRuns} times: what they take is reckoned from other sizes`
  return isTrusted
    ? [told]
    : [
        told,
        `not to be trusted: that is more than ${trustedSeldomShare * 100} % of the batches; have their times measured by -m model.onnx, or give them by --service`,
      ]
}

function configurationText({
  instances,
  maxBatchSize,
  joinRequests,
  preferredBatchSizes,
  maxQueueDelayMs,
  latencyTargetMs,
}: Parameters<typeof simulationText>[2]): string {
  const parts = [
    instances === 1 ? '1 instance' : `${instances} instances`,
    joinRequests ? `batches of up to ${maxBatchSize} rows` : 'each request by itself',
    ...(preferredBatchSizes.length === 0 ? [] : [`preferably ${preferredBatchSizes.join(', ')}`]),
    ...(maxQueueDelayMs === 0 ? [] : [`a delay of ${maxQueueDelayMs} ms`]),
    ...(latencyTargetMs === 0 ? [] : [`a latency target of ${latencyTargetMs} ms`]),
  ]
  return `predicted for ${parts.join(', ')}`
}
