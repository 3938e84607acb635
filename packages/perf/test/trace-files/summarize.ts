import { ModelSummaries, type ModelSummary } from '../../src/trace-files/model-summary.ts'
import type { Trace } from '../../src/trace-files/read-trace-file.ts'

/** Summarises traces in memory. */
export function summarize(traces: readonly Trace[]): ModelSummary[] {
  const summaries = new ModelSummaries()
  for (const trace of traces.toSorted((a, b) => a.id - b.id)) summaries.add(trace)
  return summaries.all
}
