import { estimatePercentile, isEnough, minPassingQueries } from './early-stopping.ts'
import type { EarlyStopping } from './scenario-result.ts'
import type { ScenarioSettings } from './scenario-settings.ts'

/** What multi-stream is inferred by from a run of single-stream. */
const multiStreamPercentile = 0.99

/** What early stopping says of a run (`PerformanceSummary::EarlyStopping` in results.cc); `null` in `offline`, which has none. */
export function earlyStoppingOf(
  settings: ScenarioSettings,
  ascendingUs: Float64Array,
  queryCount: number,
  overCount: number,
): EarlyStopping | null {
  const { scenario, targetLatencyPercentile: percentile } = settings
  if (scenario === 'offline') return null
  if (scenario === 'server') return boundResult(percentile, queryCount, overCount)
  const own = estimatePercentile(ascendingUs, percentile)
  const least = minPassingQueries(1, percentile) + 1
  if (own === null) {
    const lines = [
      ` * Only processed ${ascendingUs.length} queries.`,
      ` * Need to process at least ${least} queries for early stopping.`,
    ]
    return { satisfied: false, lines, estimates: [] }
  }
  const lines = [
    ` * Processed at least ${least} queries (${ascendingUs.length}).`,
    ` * Would discard ${own.discarded} highest latency queries.`,
    estimateLine(percentile, own.estimate),
  ]
  const estimates = [{ percentile, us: own.estimate }]
  if (scenario === 'single-stream') {
    const other = estimatePercentile(ascendingUs, multiStreamPercentile)
    if (other === null) lines.push(...tooFewLines())
    else {
      lines.push(estimateLine(multiStreamPercentile, other.estimate))
      estimates.push({ percentile: multiStreamPercentile, us: other.estimate })
    }
  }
  return { satisfied: true, lines, estimates }
}

const shown = (percentile: number) => (100 * percentile).toFixed(1)

const estimateLine = (percentile: number, us: number) =>
  ` * Early stopping ${shown(percentile)}th percentile estimate: ${Math.round(us * 1000)}`

function tooFewLines(): string[] {
  return [
    ` * Not enough queries processed for ${shown(multiStreamPercentile)}th percentile`,
    ' early stopping estimate (would need to process at',
    ` least ${minPassingQueries(1, multiStreamPercentile) + 1} total queries).`,
  ]
}

function boundResult(percentile: number, queryCount: number, overCount: number): EarlyStopping {
  if (isEnough(queryCount, overCount, percentile))
    return { satisfied: true, lines: [' * Run successful.'], estimates: [] }
  const more = minPassingQueries(overCount, percentile) + overCount - queryCount
  return {
    satisfied: false,
    lines: [
      ' * Run unsuccessful.',
      ` * Processed ${queryCount} queries.`,
      ` * Would need to run at least ${more} more queries,`,
      ' with the run being successful if every additional',
      ' query were under latency.',
    ],
    estimates: [],
  }
}
