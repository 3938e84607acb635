import { countOf, timeOf } from '../../web-page/charts/figures.ts'
import type { Moment } from './live-charts.ts'

/** What is read first: how much, how fast, in what batches, and whether it goes well. */
export function showHeadline({ frame, load: { window, waiting, running } }: Moment): void {
  const { windowMs, uptimeSeconds } = frame
  const perSecond = (count: number | undefined) =>
    count === undefined || windowMs === null ? null : (1000 * count) / windowMs
  const latency = window?.latency ?? null
  write('answered', countOf(perSecond(window?.answered)), `${countOf(perSecond(window?.rows))} rows/s`)
  write('p99', timeOf(latency && latency.p99Us), `p50 ${timeOf(latency && latency.p50Us)}`)
  write(
    'rows',
    countOf(window === null || window.runs === 0 ? null : window.rows / window.runs),
    `${countOf(perSecond(window?.runs))} batches/s`,
  )
  write('waiting', countOf(waiting), `batches running: ${countOf(running)}`)
  write(
    'failed',
    countOf(perSecond(window?.failed)),
    Object.keys(window?.failures ?? {}).join(', ') || 'none now',
  )
  write('uptime', timeOf(Math.floor(uptimeSeconds) * 1e6), 'since the process began')
}

function write(id: string, figure: string, detail: string): void {
  document.getElementById(`${id}-figure`)!.textContent = figure
  document.getElementById(`${id}-detail`)!.textContent = detail
}
