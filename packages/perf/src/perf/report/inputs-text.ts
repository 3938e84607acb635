import Table from 'cli-table3'
import type { InputLevels, LoadMode } from '../result.ts'
import { levelNames, shownLevel } from './level-names.ts'

/** Levels with one request again and again beside those with requests of which none came twice: what caches make of it. */
export function inputsText(mode: LoadMode, runs: readonly InputLevels[]): string {
  const table = new Table({
    head: [
      levelNames(mode).summary,
      'Inputs',
      'Different requests',
      'Infer/sec',
      'p50 us',
      'p99 us',
      'Compute us',
      'Cache hits',
      'Against unique',
    ],
    style: { head: [], border: [] },
  })
  const unique = runs.find(({ inputs }) => inputs === 'unique')
  const shown = new Set(runs.flatMap(({ levels }) => levels.map(({ level }) => level)))
  for (const level of shown) {
    for (const { inputs, distinct, levels } of runs) {
      const own = levels.find((each) => each.level === level)
      if (own === undefined) continue
      const { inferencesPerSecond, latency, server } = own
      const other = unique?.levels.find((each) => each.level === level)?.inferencesPerSecond ?? 0
      const looked = server.cacheHitCount + server.cacheMissCount
      table.push([
        shownLevel(level), inputs, distinct === null ? 'all' : `${distinct}`, `${Number(inferencesPerSecond.toFixed(2))}${own.stable ? '' : ' (not stable)'}`, `${Math.round(latency.p50Us)}`, `${Math.round(latency.p99Us)}`,
        `${Math.round(server.computeInputUs + server.computeInferUs + server.computeOutputUs)}`, looked === 0 ? '-' : `${Number(((100 * server.cacheHitCount) / looked).toFixed(1))} %`,
        unique === undefined || other === 0 ? '-' : `${(inferencesPerSecond / other).toFixed(3)} x`,
      ]) // prettier-ignore
    }
  }
  return `${table.toString()}\n`
}
