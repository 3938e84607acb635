import { RunTimes } from '../../src/schedule/estimates.ts'

/** Run times seen so often, by rows, which never become old. */
export function seen(table: Record<number, number>, times = 20): RunTimes {
  const runTimes = new RunTimes()
  for (const [rows, ms] of Object.entries(table))
    for (let run = 0; run < times; run++) runTimes.observe('', Number(rows), ms, Infinity)
  return runTimes
}
