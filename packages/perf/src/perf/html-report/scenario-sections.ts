import type { BatchReason } from 'zerohop'
import type { Colour } from '../../web-page/colours.ts'
import type { Series } from '../../web-page/charts/chart.ts'
import { countOf, roundTimeOf, shareOf, timeOf } from '../../web-page/charts/figures.ts'
import type {
  LevelResult,
  PerfResult,
  ScenarioLatency,
  ScenarioPeak,
  ScenarioResult,
} from '../result-schema.ts'
import { endedCount, failureCount, levelsPart, meanRowsOf, plotted } from './level-sections.ts'
import { type HeadlineFigure, type Part, type Section, type Table, tablePart } from './report-page.ts'

/** The result of a LoadGen scenario; `null` if none was run. */
export function scenarioSection({ scenario }: PerfResult): Section | null {
  if (scenario === undefined) return null
  const { valid, reasons, belowMlperf, earlyStopping } = scenario
  const said = [...reasons, ...(earlyStopping?.lines ?? [])]
  const saidRows = said.map((line, index) => [String(index + 1), line])
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
      ...(said.length === 0 ? [] : [factPart('What LoadGen says', saidRows)]),
    ],
  }
}

/** The headline of a scenario. */
export function scenarioHeadline(result: ScenarioResult): HeadlineFigure[] {
  const { metric, valid, scenario, queryCount, failures } = result
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

function figurePart(scenario: ScenarioResult): Part {
  const { metric, scheduledPerSecond } = scenario
  const kept = Object.entries(scenario.constraints).flatMap(([rule, met]: [string, boolean | null]) =>
    met === null ? [] : [[`rule ${rule}`, met ? 'kept' : 'not kept']],
  )
  return factPart('Figures', [
    [metric.name, metric.unit === 'us' ? timeOf(metric.value) : `${countOf(metric.value)} ${metric.unit}`],
    ['queries', countOf(scenario.queryCount)],
    ['samples that were answered', countOf(scenario.sampleCount)],
    ['samples above the bound', countOf(scenario.overLatencyCount)],
    ['completed samples/s', countOf(scenario.completedPerSecond)],
    ...(scheduledPerSecond === null ? [] : [['scheduled samples/s', countOf(scheduledPerSecond)]]),
    ['duration', timeOf(scenario.seconds * 1e6)],
    ['inputs', scenario.inputs],
    ...kept,
    ...Object.entries(scenario.failures).map(([code, count]) => [`failed: ${code}`, countOf(count)]),
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
  return tablePart('Latency', columns, rows)
}

/** The search for the peak: each trial, and whether the bound held. */
function peakParts(peak: ScenarioPeak | null): Part[] {
  if (peak === null) return []
  const found = peak.targetQps === null ? 'no rate held the bound' : `${countOf(peak.targetQps)} queries/s`
  const rows = peak.steps.map((step) => [
    countOf(step.targetQps), step.met ? (step.sure ? 'held, surely' : 'held') : 'not held', timeOf(step.percentileUs), countOf(step.completedPerSecond), `${countOf(step.queryCount)}${step.endedEarly ? ', given up' : ''}`,
  ]) // prettier-ignore
  const columns = ['queries/s', 'bound', 'percentile', 'completed/s', 'queries']
  return [tablePart(`Search for the peak: ${found}`, columns, rows)]
}

const factPart = (caption: string, rows: Table['rows']) => tablePart(caption, ['', 'Value'], rows)

const meanings: Readonly<Record<BatchReason, string>> = {
  full: 'no further request fitted',
  preferred: 'a preferred size was reached',
  idle: 'an instance was idle',
  bucket: 'an instance was idle, and requests of other shapes waited',
  delay: 'the longest wait that is allowed was over',
  cost: 'with one more it would have cost too much',
  deadline: 'a request could not wait longer',
  drain: 'the model was closing',
}

const colours: readonly Colour[] = [
  'first',
  'second',
  'third',
  'fourth',
  'fifth',
  'sixth',
  'seventh',
  'eighth',
]

/** Why batches were closed. */
export function reasonSection(result: PerfResult): Section {
  const { levels } = result
  const reasons = keysOf(levels, ({ batchReasons }) => batchReasons)
  const total = ({ batchReasons }: LevelResult) => Object.values(batchReasons).reduce((a, b) => a + b, 0)
  const isPadded = levels.some(({ paddingShare }) => paddingShare !== undefined)
  return {
    id: 'reasons',
    title: 'Why batches were sent',
    lead:
      reasons.length === 0
        ? 'No batch was sent.'
        : `${reasons.map((reason) => `${reason}: ${meanings[reason as BatchReason] ?? 'another reason'}`).join('; ')}.`,
    parts: [
      levelsPart(result, {
        id: 'reasons',
        shape: 'bars',
        label: 'Share of batches',
        unit: 'share',
        series: byKey(reasons, levels, (level, reason) => (level.batchReasons[reason] ?? 0) / total(level)),
        caption: 'Batches by the reason for which they were closed',
        columns: ['batches', 'mean rows', ...(isPadded ? ['padding'] : []), ...reasons],
        cells: (level) => [
          countOf(total(level)),
          meanRowsOf(level.server),
          ...(isPadded ? [shareOf(level.paddingShare ?? null)] : []),
          ...reasons.map((reason) => countOf(level.batchReasons[reason] ?? 0)),
        ],
      }),
    ],
  }
}

/** How many answers came within the given bound; `null` without a bound. */
export function goodputSection(result: PerfResult): Section | null {
  const { levels } = result
  const withinMs = levels.find(({ goodput }) => goodput !== null)?.goodput?.withinMs
  if (withinMs === undefined) return null
  const late = ({ goodput }: LevelResult) =>
    goodput === null || !(goodput.share > 0)
      ? null
      : plotted(goodput.perSecond / goodput.share - goodput.perSecond)
  return {
    id: 'goodput',
    title: `Goodput: answers within ${roundTimeOf(withinMs * 1000)}`,
    lead: 'Answers a second that came in time, and those that came too late to be of use.',
    parts: [
      levelsPart(result, {
        id: 'goodput',
        shape: 'bars',
        label: 'Requests/s',
        unit: 'count',
        series: [
          {
            name: 'in time',
            colour: 'first',
            values: levels.map(({ goodput }) => (goodput === null ? null : plotted(goodput.perSecond))),
          },
          { name: 'late', colour: 'second', values: levels.map(late) },
        ],
        caption: `Answers within ${roundTimeOf(withinMs * 1000)}`,
        columns: ['in time/s', 'share of answers'],
        cells: ({ goodput }) => [countOf(goodput?.perSecond ?? null), shareOf(goodput?.share ?? null)],
      }),
    ],
  }
}

/** Failures by error code. */
export function failureSection(result: PerfResult): Section {
  const { levels } = result
  const codes = keysOf(levels, ({ failures }) => failures)
  return {
    id: 'failures',
    title: 'Failures',
    lead: codes.length === 0 ? 'No request failed.' : 'Requests that failed, by the code of their error.',
    parts:
      codes.length === 0
        ? []
        : [
            levelsPart(result, {
              id: 'failures',
              shape: 'bars',
              label: 'Failed requests',
              unit: 'count',
              series: byKey(codes, levels, ({ failures }, code) => failures[code] ?? 0),
              caption: 'Failed requests by the code of their error',
              columns: ['answered', 'failed', 'share', ...codes],
              cells: (level) => {
                const failed = failureCount(level.failures)
                const ended = endedCount(level)
                return [
                  countOf(level.requestCount),
                  countOf(failed),
                  shareOf(ended > 0 ? failed / ended : NaN),
                  ...codes.map((code) => countOf(level.failures[code] ?? 0)),
                ]
              },
            }),
          ],
  }
}

/** All names counted at any level, except those that never occurred. */
function keysOf(
  levels: readonly LevelResult[],
  countsOf: (level: LevelResult) => Readonly<Record<string, number>>,
): string[] {
  const counts = levels.flatMap((level) => Object.entries(countsOf(level)))
  return [...new Set(counts.flatMap(([key, count]) => (count > 0 ? [key] : [])))]
}

function byKey(
  keys: readonly string[],
  levels: readonly LevelResult[],
  valueOf: (level: LevelResult, key: string) => number,
): Series[] {
  return keys.map((name, index) => ({
    name,
    colour: colours[index % colours.length]!,
    values: levels.map((level) => plotted(valueOf(level, name))),
  }))
}
