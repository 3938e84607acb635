import type { Colour } from '../../web-page/colours.ts'
import type { Series } from '../../web-page/charts/chart.ts'
import { countOf, shareOf, timeOf } from '../../web-page/charts/figures.ts'
import type { InputLevels, LatencyFigures, LevelResult, PerfResult } from '../result-schema.ts'
import { comparedLevelsSection } from './compared-levels.ts'
import {
  failureCount,
  levelAxis,
  levelCell,
  levelsPart,
  meanRowsOf,
  plotted,
  serverTimes,
  serverTimesOf,
} from './level-sections.ts'
import { type Cell, type Part, type Section, type Table, tablePart } from './report-page.ts'

/** Characters of a setting's text; the rest is cut off. */
const longestSetting = 2000

/** What is needed to repeat the measurement; the given settings come first. */
export function configurationSection({ settings, given, machine }: PerfResult): Section {
  const settingTable = (caption: string, belongs: (name: string) => boolean, isOpen: boolean) =>
    factTable(
      caption,
      'Option',
      Object.entries(settings).filter(([name]) => belongs(name)),
      isOpen,
    )
  const isGiven = (name: string) => given === undefined || given.includes(name)
  const usual = settingTable('Settings left at their defaults', (name) => !isGiven(name), false)
  return {
    id: 'configuration',
    title: 'Configuration',
    lead: 'What you need to repeat the measurement: the settings, named as on the command line, and the machine.',
    parts: [
      { table: settingTable(given === undefined ? 'Settings' : 'Given settings', isGiven, true) },
      { table: factTable('Machine', 'Fact', Object.entries(machine), true) },
      ...(usual.rows.length === 0 ? [] : [{ table: usual }]),
    ],
  }
}

function factTable(
  caption: string,
  heading: string,
  facts: readonly (readonly [name: string, value: unknown])[],
  isOpen: boolean,
): Table {
  const rows = facts.flatMap(([name, value]) => (value === undefined ? [] : [[name, settingText(value)]]))
  return { caption, columns: [heading, 'Value'], rows, isOpen }
}

/** A setting as written: text unchanged, other values as JSON, if possible. */
export function settingText(value: unknown): string {
  const text =
    typeof value === 'string'
      ? value
      : typeof value === 'number' || typeof value === 'bigint'
        ? String(value)
        : jsonOf(value)
  return text.length > longestSetting ? `${text.slice(0, longestSetting)}… (${text.length} characters)` : text
}

function jsonOf(value: unknown): string {
  try {
    return (
      JSON.stringify(value, (_, inner: unknown) => (typeof inner === 'bigint' ? String(inner) : inner)) ??
      String(value)
    )
  } catch {
    return String(value) // a cyclic value
  }
}

const shownDelays: readonly [name: string, of: keyof LatencyFigures][] = [
  ['average', 'averageUs'],
  ['p50', 'p50Us'],
  ['p99', 'p99Us'],
  ['max', 'maxUs'],
]

/** Whether the measuring process could keep up: its sender, event loop and processors. */
export function processSection(result: PerfResult): Section {
  const hasLag = result.levels.some(({ sendLag }) => sendLag !== null)
  return {
    id: 'process',
    title: 'The process that measured',
    lead: `The engine and the load generator share a process.${hasLag ? ' The lag of the sender is part of the latencies above.' : ''} Late timers show how long the application's thread was blocked.`,
    parts: [delayPart(result, hasLag), cpuPart(result)],
  }
}

function delayPart(result: PerfResult, hasLag: boolean): Part {
  const seriesOf = (
    name: string,
    colour: Colour,
    figuresOf: (level: LevelResult) => LatencyFigures | null,
  ): Series[] => {
    const values = (of: 'p50Us' | 'p99Us') =>
      result.levels.map((level) => plotted(figuresOf(level)?.[of] ?? NaN))
    return [
      { name: `${name} p50`, colour, isDashed: true, values: values('p50Us') },
      { name: `${name} p99`, colour, values: values('p99Us') },
    ]
  }
  const series = seriesOf('event loop', 'first', ({ eventLoopDelay }) => eventLoopDelay)
  const lag = hasLag ? seriesOf('sender', 'second', ({ sendLag }) => sendLag) : []
  const lagColumns = hasLag ? [...shownDelays.map(([name]) => `sender ${name}`), 'sent > 1 ms late'] : []
  return {
    title: hasLag ? 'Delay of the event loop, lag of the sender' : 'Delay of the event loop',
    ...levelsPart(result, {
      id: 'delays',
      shape: 'lines',
      label: 'Late by',
      unit: 'microseconds',
      series: [...series, ...lag],
      caption: hasLag ? 'Delay of timers and requests' : 'Delay of timers',
      columns: [...shownDelays.map(([name]) => `event loop ${name}`), ...lagColumns],
      cells: ({ eventLoopDelay, sendLag, delayedCount }) => [
        ...shownDelays.map(([, of]) => timeOf(eventLoopDelay[of])),
        ...(hasLag
          ? [...shownDelays.map(([, of]) => timeOf(sendLag?.[of] ?? null)), countOf(delayedCount)]
          : []),
      ],
    }),
  }
}

function cpuPart(result: PerfResult): Part {
  return {
    title: 'CPU',
    ...levelsPart(result, {
      id: 'cpu',
      shape: 'bars',
      label: 'Cores kept busy',
      unit: 'count',
      series: [
        { name: 'cores', colour: 'sixth', values: result.levels.map(({ cpuCores }) => plotted(cpuCores)) },
      ],
      caption: 'CPU of the process',
      columns: ['cores kept busy', 'CPU per request'],
      cells: ({ cpuCores, windowSeconds, requestCount }) => [
        countOf(cpuCores),
        timeOf(requestCount > 0 ? (cpuCores * windowSeconds * 1e6) / requestCount : NaN),
      ],
    }),
  }
}

/** The times of the models of an ensemble; `null` for other models. */
export function composingSection({ mode, levels }: PerfResult): Section | null {
  if (levels.every(({ composingModels = [] }) => composingModels.length === 0)) return null
  return {
    id: 'composing',
    title: 'The steps of the ensemble',
    lead: 'The mean time of a request in each model of the ensemble.',
    parts: [
      tablePart(
        'Mean times of a successful request, by model',
        [levelAxis(mode), 'model', ...serverTimes.map(([name]) => name), 'executions', 'mean rows'],
        levels.flatMap((level) =>
          (level.composingModels ?? []).map(({ model, version, server }) => [
            levelCell(level),
            `${model}, version ${version}`,
            ...serverTimesOf(server),
            countOf(server.executionCount),
            meanRowsOf(server),
          ]),
        ),
      ),
    ],
  }
}

/** One repeated request next to requests that never repeat; `null` if only one of them was measured. */
export function inputsSection(result: PerfResult): Section | null {
  const { mode, inputs = [] } = result
  if (inputs.length < 2) return null
  const compared = inputs
    .map(({ inputs: name, levels }) => ({ name, result: { ...result, levels } }))
    .reverse() // ratios refer to the unique ones
  const { parts } = comparedLevelsSection(compared)
  return {
    id: 'inputs',
    title: 'Repeated and unique inputs',
    lead: `The same request every time, compared with requests that never repeat: this shows what caches gain. All sections below are about ${inputs.at(-1)!.inputs} inputs.`,
    parts: [
      ...parts,
      tablePart(
        'Requests and caches',
        [levelAxis(mode), 'inputs', 'different requests', 'from the cache', 'mean compute'],
        inputs.flatMap(rowsOf),
      ),
    ],
  }
}

function rowsOf({ inputs, distinct, levels }: InputLevels): Cell[][] {
  return levels.map((level) => {
    const { cacheHitCount, cacheMissCount, computeInputUs, computeInferUs, computeOutputUs } = level.server
    const looked = cacheHitCount + cacheMissCount
    return [
      levelCell(level),
      inputs,
      distinct === null ? 'all' : countOf(distinct),
      looked === 0 ? '–' : shareOf(cacheHitCount / looked),
      timeOf(computeInputUs + computeInferUs + computeOutputUs),
    ]
  })
}

/** How much answers under load differ from those alone; `null` if they were not compared. */
export function accuracySection({ accuracy }: PerfResult): Section | null {
  if (accuracy === undefined) return null
  const { within, answers, samples, concurrency, tolerance, outputs, failures, cacheHits } = accuracy
  const failed = failureCount(failures)
  return {
    id: 'accuracy',
    title: `Answers under load: ${within ? 'the same as alone' : 'NOT the same as alone'}`,
    lead: `${countOf(answers)} answers to ${countOf(samples)} different requests, ${concurrency} at once. Tolerance: ${tolerance} of the largest number of each answer.${failed === 0 ? '' : ` ${countOf(failed)} failed.`}${cacheHits === 0 ? '' : ` ${countOf(cacheHits)} came from the response cache.`}`,
    parts: [
      tablePart(
        'Largest differences',
        ['output', 'type', 'absolute', 'relative', 'between requests', 'above the tolerance', 'sample'],
        outputs.map(({ output, type, absolute, relative, spread, above, sample }) => [
          output,
          type,
          ...[absolute, relative, spread, above].map(countOf),
          sample === null ? '–' : countOf(sample),
        ]),
      ),
    ],
  }
}
