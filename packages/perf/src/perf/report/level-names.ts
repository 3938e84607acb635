import type { LoadMode } from '../result.ts'

/** How perf_analyzer calls what a level counts: at the head of a level, in the last lines, and over a column. */
export interface LevelNames {
  readonly heading: string
  readonly summary: string
  readonly column: string
}

const concurrency: LevelNames = {
  heading: 'Request concurrency',
  summary: 'Concurrency',
  column: 'Concurrency',
}
const rate: LevelNames = { heading: 'Request Rate', summary: 'Request Rate', column: 'Request Rate' }

/** The names of levels of a mode. */
export function levelNames(mode: LoadMode): LevelNames {
  switch (mode) {
    case 'concurrency':
    case 'periodic-concurrency':
      return concurrency
    case 'request-rate':
    case 'request-intervals':
      return rate
    case 'replay':
      return { heading: 'Replay speed', summary: 'Replay speed', column: 'Replay Speed' }
    case 'scenario':
      return { heading: 'Scenario level', summary: 'Scenario level', column: 'Scenario Level' }
  }
}

/** A level as a number to be read: 0.1 + 0.2 is 0.3. */
export function shownLevel(level: number): string {
  return String(Number(level.toPrecision(10)))
}
