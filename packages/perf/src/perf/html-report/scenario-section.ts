import type { PerfResult } from '../result.ts'
import type { ScenarioLatency, ScenarioPeak, ScenarioResult } from '../scenarios/scenario-result.ts'
import type { HeadlineFigure } from './headline.ts'
import { failureCount } from './levels.ts'
import { countOf, timeOf } from '../../web-page/charts/figures.ts'
import type { Part, Section } from './section.ts'

/** What a scenario of LoadGen came to; nothing where none was run. */
export function scenarioSection({ scenario }: PerfResult): Section | null {
  if (scenario === undefined) return null
  const { valid, reasons, belowMlperf, earlyStopping } = scenario
  const said = [...reasons, ...(earlyStopping?.lines ?? [])]
  return {
    id: 'scenario',
    title: `Scenario ${scenario.scenario}: ${valid ? 'valid' : 'not valid'}`,
    lead:
      belowMlperf.length === 0
        ? "By the rules of MLPerf's LoadGen."
        : `By the rules of MLPerf's LoadGen, with settings that ask for less than its own: ${belowMlperf.join(', ')}.`,
    parts: [
      figurePart(scenario),
      latencyPart(scenario),
      ...peakParts(scenario.peak),
      ...(said.length === 0
        ? []
        : [
            factPart(
              'What LoadGen says',
              said.map((line, index) => [String(index + 1), line]),
            ),
          ]),
    ],
  }
}

/** What is read first of a scenario. */
export function scenarioHeadline({
  metric,
  valid,
  scenario,
  queryCount,
  failures,
}: ScenarioResult): HeadlineFigure[] {
  const isTime = metric.unit === 'us'
  return [
    {
      label: metric.name,
      figure: isTime ? timeOf(metric.value) : countOf(metric.value),
      ...(isTime ? {} : { unit: metric.unit }),
      detail: `${scenario}, ${valid ? 'valid' : 'not valid'}`,
    },
    {
      label: 'Queries',
      figure: countOf(queryCount),
      detail: `${countOf(failureCount(failures))} samples failed`,
    },
  ]
}

function figurePart({
  metric,
  queryCount,
  sampleCount,
  overLatencyCount,
  completedPerSecond,
  scheduledPerSecond,
  seconds,
  constraints,
  failures,
  inputs,
}: ScenarioResult): Part {
  const kept = Object.entries(constraints).flatMap(([rule, met]: [string, boolean | null]) =>
    met === null ? [] : [[`rule ${rule}`, met ? 'kept' : 'not kept']],
  )
  return factPart('Figures', [
    [metric.name, metric.unit === 'us' ? timeOf(metric.value) : `${countOf(metric.value)} ${metric.unit}`],
    ['queries', countOf(queryCount)],
    ['samples that were answered', countOf(sampleCount)],
    ['samples above the bound', countOf(overLatencyCount)],
    ['completed samples/s', countOf(completedPerSecond)],
    ...(scheduledPerSecond === null ? [] : [['scheduled samples/s', countOf(scheduledPerSecond)]]),
    ['duration', timeOf(seconds * 1e6)],
    ['inputs', inputs],
    ...kept,
    ...Object.entries(failures).map(([code, count]) => [`failed: ${code}`, countOf(count)]),
  ])
}

const percentiles: readonly [name: string, of: keyof ScenarioLatency][] = [
  ['min', 'minUs'],
  ['mean', 'meanUs'],
  ['p50', 'p50Us'],
  ['p90', 'p90Us'],
  ['p95', 'p95Us'],
  ['p97', 'p97Us'],
  ['p99', 'p99Us'],
  ['p99.9', 'p999Us'],
  ['max', 'maxUs'],
]

function latencyPart({ latency, sendLag }: ScenarioResult): Part {
  const columns = sendLag === null ? ['', 'latency'] : ['', 'latency', 'of it, sent late']
  const rows = percentiles.map(([name, of]) => [
    name,
    timeOf(latency[of]),
    ...(sendLag === null ? [] : [timeOf(sendLag[of])]),
  ])
  return { table: { caption: 'Latency', columns, rows, isOpen: true } }
}

/** The way to the peak: what was tried, and whether the bound held. */
function peakParts(peak: ScenarioPeak | null): Part[] {
  if (peak === null) return []
  const found = peak.targetQps === null ? 'no rate held the bound' : `${countOf(peak.targetQps)} queries/s`
  const rows = peak.steps.map((step) => [
    countOf(step.targetQps), step.met ? (step.sure ? 'held, surely' : 'held') : 'not held', timeOf(step.percentileUs), countOf(step.completedPerSecond), `${countOf(step.queryCount)}${step.endedEarly ? ', given up' : ''}`,
  ]) // prettier-ignore
  return [
    {
      table: {
        caption: `Search for the peak: ${found}`,
        columns: ['queries/s', 'bound', 'percentile', 'completed/s', 'queries'],
        rows,
        isOpen: true,
      },
    },
  ]
}

function factPart(caption: string, rows: readonly (readonly string[])[]): Part {
  return { table: { caption, columns: ['', 'Value'], rows, isOpen: true } }
}
