import type { SampleSource } from './input/sample.ts'
import { ClosedLoop } from './load/closed-loop.ts'
import type { Load } from './load/load.ts'
import { metronome } from './load/metronome.ts'
import { OpenLoop } from './load/open-loop.ts'
import { PeriodicConcurrency } from './load/periodic-concurrency.ts'
import {
  constantSchedule,
  firstOf,
  intervalSchedule,
  poissonSchedule,
  type Schedule,
} from './load/schedule.ts'
import type { PerfSettings } from './perf-settings.ts'

/** What makes the load of a level. */
export function loadOf(
  source: SampleSource,
  settings: Pick<PerfSettings, 'load' | 'seed' | 'sequences' | 'requestCount' | 'warmupRequestCount'>,
  level: number,
): Load {
  const { load, seed, sequences, requestCount, warmupRequestCount } = settings
  const count = requestCount > 0 ? warmupRequestCount + requestCount : Infinity
  const open = (schedule: Schedule) =>
    new OpenLoop(source, count === Infinity ? schedule : firstOf(schedule, count), {
      pacer: metronome,
      ...(sequences === null ? {} : { callers: sequences.count, serial: sequences.serial }),
    })
  switch (load.mode) {
    case 'concurrency':
      return new ClosedLoop(source, level, count)
    case 'periodic-concurrency':
      return new PeriodicConcurrency(source, load.steps)
    case 'request-intervals':
      return open(intervalSchedule(load.intervalsUs))
    case 'request-rate':
      return open(load.distribution === 'constant' ? constantSchedule(level) : poissonSchedule(level, seed))
  }
}
