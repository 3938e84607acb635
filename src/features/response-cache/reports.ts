import type { BatchReport } from '../../options/infer-options.ts'

/** The report of a run, that nobody else has. */
export function copyReport(report: BatchReport): BatchReport {
  const { parts } = report
  return { ...report, ...(parts === undefined ? {} : { parts: parts.map(copyReport) }) }
}

/** What a request is told that is answered from the cache: of the run that the answer came from, and that there was none now. */
export function cachedReport(report: BatchReport): BatchReport {
  return { ...copyReport(report), queuedMs: 0, computeMs: 0, cached: true }
}

/** What a request is told that joined the run of another. */
export function coalescedReport(report: BatchReport, queuedMs: number): BatchReport {
  return { ...copyReport(report), queuedMs, coalesced: true }
}
