import type { ScenarioResult } from '../scenarios/scenario-result.ts'
import type { NamedResult } from './named-result.ts'
import { countOf, timeOf } from '../../web-page/charts/figures.ts'
import type { Section } from './section.ts'

const facts: readonly [name: string, of: (scenario: ScenarioResult) => string][] = [
  ['scenario', ({ scenario }) => scenario],
  ['valid', ({ valid }) => (valid ? 'yes' : 'no')],
  ['metric', ({ metric }) => metric.name],
  [
    'its value',
    ({ metric: { value, unit } }) => (unit === 'us' ? timeOf(value) : `${countOf(value)} ${unit}`),
  ],
  ['peak', ({ peak }) => (peak?.targetQps == null ? '–' : `${countOf(peak.targetQps)} queries/s`)],
  ['queries', ({ queryCount }) => countOf(queryCount)],
  ['completed samples/s', ({ completedPerSecond }) => countOf(completedPerSecond)],
  ['p50', ({ latency }) => timeOf(latency.p50Us)],
  ['p90', ({ latency }) => timeOf(latency.p90Us)],
  ['p99', ({ latency }) => timeOf(latency.p99Us)],
  ['longest', ({ latency }) => timeOf(latency.maxUs)],
]

/** Scenarios of LoadGen beside each other; nothing where none was run. */
export function comparedScenariosSection(compared: readonly NamedResult[]): Section[] {
  if (compared.every(({ result }) => result.scenario === undefined)) return []
  const rows = facts.map(([name, of]) => [
    name,
    ...compared.map(({ result: { scenario } }) => (scenario === undefined ? '–' : of(scenario))),
  ])
  return [
    {
      id: 'scenarios',
      title: 'Scenarios',
      lead: "By the rules of MLPerf's LoadGen.",
      parts: [
        {
          table: {
            caption: 'What each came to',
            columns: ['', ...compared.map(({ name }) => name)],
            rows,
            isOpen: true,
          },
        },
      ],
    },
  ]
}
