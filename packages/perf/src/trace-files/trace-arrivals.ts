import type { Arrival } from 'zerohop/internals'
import { timestampOf, type Trace } from './read-trace-file.ts'

/**
 * The requests of callers as a recording, in order of arrival. Requests within other requests are left out.
 */
export function arrivalsOf(traces: readonly Trace[]): Arrival[] {
  const begun = traces.flatMap((trace) => {
    const startNs = timestampOf(trace, 'REQUEST_START')
    return startNs === undefined || trace.parentId !== undefined ? [] : [{ trace, startNs }]
  })
  const inOrder = begun.toSorted((a, b) => a.startNs - b.startNs)
  return inOrder.map(({ trace, startNs }) => arrivalOf(trace, startNs, inOrder[0]!.startNs))
}

function arrivalOf(trace: Trace, startNs: number, firstNs: number): Arrival {
  const { rows = 1, model, dims, priority, timeoutMs, deadlineMs, sequenceId, error } = trace
  const endNs = timestampOf(trace, 'REQUEST_END')
  return {
    atUs: (startNs - firstNs) / 1000,
    rows,
    model,
    ...(dims !== undefined && { dims }),
    ...(priority !== undefined && { priority }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(deadlineMs !== undefined && { deadlineMs }),
    ...(sequenceId !== undefined && { sequenceId }),
    ...(error === undefined && endNs !== undefined && { latencyUs: (endNs - startNs) / 1000 }),
  }
}
