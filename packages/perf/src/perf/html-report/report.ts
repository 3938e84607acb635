import type { LevelResult, LoadMode, PerfResult } from '../result.ts'
import { accuracySection } from './accuracy-section.ts'
import { breakdownSection } from './breakdown-section.ts'
import { composingSection } from './composing-section.ts'
import { configurationSection } from './configuration-section.ts'
import { distributionSection } from './distribution-section.ts'
import { headlineOf, type HeadlineFigure } from './headline.ts'
import { curveSection, percentileSection } from './latency-sections.ts'
import { inputsSection } from './inputs-section.ts'
import { levelPhrase } from './levels.ts'
import { failureSection, goodputSection, reasonSection } from './outcome-sections.ts'
import { processSection } from './process-section.ts'
import { renderPage } from './report-page.ts'
import { scenarioHeadline, scenarioSection } from './scenario-section.ts'
import type { Section } from './section.ts'

const loads: Readonly<Record<LoadMode, string>> = {
  concurrency: 'a fixed number of requests at once',
  'periodic-concurrency': 'requests at once, more by and by',
  'request-rate': 'a fixed number of requests a second',
  'request-intervals': 'requests at given intervals',
  replay: 'a recording of arrivals, replayed',
  scenario: 'a scenario of MLPerf LoadGen',
}

/**
 * What was measured, as one page of HTML: it holds all it needs, also for those who read it with a phone, in the dark, on paper or by
 * ear.
 *
 * @param more sections that come before the configuration.
 */
export function reportOf(result: PerfResult, more: readonly Section[] = []): string {
  const measured = [
    curveSection,
    percentileSection,
    breakdownSection,
    composingSection,
    distributionSection,
    reasonSection,
    goodputSection,
    failureSection,
    processSection,
  ]
  const sections = result.levels.length === 0 ? [] : measured.flatMap((section) => section(result) ?? [])
  const others = [scenarioSection, accuracySection, inputsSection].flatMap((section) => section(result) ?? [])
  return renderPage({
    title: `Performance of ${result.model}`,
    about: `Version ${result.version} · ${dateOf(result.date)} · ${loads[result.mode] ?? result.mode}${inputsOf(result)}`,
    notices: noticesOf(result),
    headline: headlineFor(result),
    sections: [...others, ...sections, ...more, configurationSection(result)],
  })
}

/** Which inputs the levels are of, where that was said. */
function inputsOf({ inputs }: PerfResult): string {
  return inputs === undefined ? '' : ` · ${inputs.at(-1)!.inputs} inputs`
}

/** What is read first of a result, whatever it is of. */
export function headlineFor(result: PerfResult): HeadlineFigure[] {
  const { scenario, levels } = result
  return [
    ...(scenario === undefined ? [] : scenarioHeadline(scenario)),
    ...(levels.length === 0 && hasOthers(result) ? [] : headlineOf(result)),
  ]
}

/** Whether there is something to tell beside levels. */
function hasOthers({ scenario, accuracy }: PerfResult): boolean {
  return scenario !== undefined || accuracy !== undefined
}

function noticesOf(result: PerfResult): string[] {
  const { mode, levels } = result
  if (levels.length === 0) return hasOthers(result) ? [] : ['No level was measured to its end.']
  const unstable = levels.filter(({ stable }) => !stable)
  const phrase = (level: LevelResult) => levelPhrase(mode, level)
  const shown =
    unstable.length > 5 ? `${unstable.length} of ${levels.length} levels` : unstable.map(phrase).join(', ')
  return unstable.length === 0
    ? []
    : [
        `Not stable: ${shown}. The last windows differed by more than was allowed; read these figures as a hint.`,
      ]
}

/** A date for people, in the time of Greenwich; what is no date as it is. */
export function dateOf(iso: string): string {
  const date = new Date(iso)
  if (Number.isNaN(date.getTime())) return iso
  return `${new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeStyle: 'short', timeZone: 'UTC' }).format(date)} UTC`
}
