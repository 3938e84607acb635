import type { Arrival } from 'zerohop/internals'
import { withoutUndefined } from '../without-undefined.ts'
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
  return withoutUndefined({
    atUs: (startNs - firstNs) / 1000,
    rows,
    model,
    dims,
    priority,
    timeoutMs,
    deadlineMs,
    sequenceId,
    latencyUs: error === undefined && endNs !== undefined ? (endNs - startNs) / 1000 : undefined,
  })
}
