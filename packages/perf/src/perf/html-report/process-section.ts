import type { LatencyFigures, PerfResult } from '../result.ts'
import { levelAxis, levelCell, levelPoints, plotted, spansDecades } from './levels.ts'
import type { Series } from '../../web-page/charts/chart.ts'
import { countOf, timeOf } from '../../web-page/charts/figures.ts'
import type { Part, Section } from './section.ts'

const shownDelays: readonly [name: string, of: keyof LatencyFigures][] = [
  ['average', 'averageUs'],
  ['p50', 'p50Us'],
  ['p99', 'p99Us'],
  ['max', 'maxUs'],
]

/** Whether the process that measured could keep up: its sender, its event loop, its processors. */
export function processSection(result: PerfResult): Section {
  const hasLag = result.levels.some(({ sendLag }) => sendLag !== null)
  return {
    id: 'process',
    title: 'The process that measured',
    lead: `The engine and what asks it share a process${hasLag ? '; a sender that lags is told here, and its lag is part of the latencies above' : ''}. Timers that come late show how long the application's thread was held up.`,
    parts: [delayPart(result, hasLag), cpuPart(result)],
  }
}

function delayPart(result: PerfResult, hasLag: boolean): Part {
  const { levels } = result
  const axis = levelAxis(result.mode)
  const valuesOf = (
    figures: (level: PerfResult['levels'][0]) => LatencyFigures | null,
    of: keyof LatencyFigures,
  ) => levels.map((level) => plotted(figures(level)?.[of] ?? NaN))
  const series: Series[] = [
    {
      name: 'event loop p50',
      colour: 'first',
      isDashed: true,
      values: valuesOf(({ eventLoopDelay }) => eventLoopDelay, 'p50Us'),
    },
    {
      name: 'event loop p99',
      colour: 'first',
      values: valuesOf(({ eventLoopDelay }) => eventLoopDelay, 'p99Us'),
    },
  ]
  const lag: Series[] = [
    {
      name: 'sender p50',
      colour: 'second',
      isDashed: true,
      values: valuesOf(({ sendLag }) => sendLag, 'p50Us'),
    },
    { name: 'sender p99', colour: 'second', values: valuesOf(({ sendLag }) => sendLag, 'p99Us') },
  ]
  const shown = hasLag ? [...series, ...lag] : series
  const lagColumns = hasLag ? [...shownDelays.map(([name]) => `sender ${name}`), 'sent > 1 ms late'] : []
  return {
    title: hasLag ? 'Delay of the event loop, lag of the sender' : 'Delay of the event loop',
    chart: {
      id: 'delays',
      shape: 'lines',
      x: { label: axis },
      y: {
        label: 'Late by',
        unit: 'microseconds',
        isLogarithmic: spansDecades(shown.flatMap(({ values }) => values)),
      },
      views: [{ name: '', ...levelPoints(result), series: shown }],
    },
    table: {
      caption: hasLag ? 'How late timers and requests were' : 'How late timers were',
      columns: [axis, ...shownDelays.map(([name]) => `event loop ${name}`), ...lagColumns],
      rows: levels.map((level) => [
        levelCell(level),
        ...shownDelays.map(([, of]) => timeOf(level.eventLoopDelay[of])),
        ...(hasLag
          ? [...shownDelays.map(([, of]) => timeOf(level.sendLag?.[of] ?? null)), countOf(level.delayedCount)]
          : []),
      ]),
    },
  }
}

function cpuPart(result: PerfResult): Part {
  const { levels } = result
  const axis = levelAxis(result.mode)
  return {
    title: 'CPU',
    chart: {
      id: 'cpu',
      shape: 'bars',
      x: { label: axis },
      y: { label: 'Cores kept busy', unit: 'count', isLogarithmic: false },
      views: [
        {
          name: '',
          ...levelPoints(result),
          series: [
            { name: 'cores', colour: 'sixth', values: levels.map(({ cpuCores }) => plotted(cpuCores)) },
          ],
        },
      ],
    },
    table: {
      caption: 'CPU of the process',
      columns: [axis, 'cores kept busy', 'CPU per request'],
      rows: levels.map((level) => [
        levelCell(level),
        countOf(level.cpuCores),
        timeOf(
          level.requestCount > 0 ? (level.cpuCores * level.windowSeconds * 1e6) / level.requestCount : NaN,
        ),
      ]),
    },
  }
}
