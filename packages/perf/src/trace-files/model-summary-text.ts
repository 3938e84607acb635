import type { Trace } from './trace.ts'
import type { ModelSummary } from './model-summary.ts'

/** A summary in the layout of Triton's `trace_summary.py`. */
export function summaryText({
  model,
  version,
  frontend,
  traceCount,
  cachedCount,
  coalescedCount,
  failures,
  request,
  handlerUs,
  parts,
  compute,
}: ModelSummary): string {
  const lines = [`Summary for ${model} (${version}): trace count = ${traceCount}`]
  if (request !== null) {
    lines.push(
      `${frontend} infer request (avg): ${request.averageUs}us`,
      `\t${frontend === 'HTTP' ? 'Receive' : 'Wait/Read'} (avg): ${request.receiveUs}us`,
    )
    lines.push(`\tSend (avg): ${request.sendUs}us`, `\tOverhead (avg): ${request.overheadUs}us`)
  }
  lines.push(`\tHandler (avg): ${handlerUs}us`)
  if (parts !== null)
    lines.push(
      `\t\tOverhead (avg): ${parts.overheadUs}us`,
      `\t\tQueue (avg): ${parts.queueUs}us`,
      `\t\tCompute (avg): ${parts.computeUs}us`,
    )
  if (compute !== null)
    lines.push(
      `\t\t\tInput (avg): ${compute.inputUs}us`,
      `\t\t\tInfer (avg): ${compute.inferUs}us`,
      `\t\t\tOutput (avg): ${compute.outputUs}us`,
    )
  if (cachedCount + coalescedCount > 0)
    lines.push(
      `\tAnswered by the runs of others: ${cachedCount} from the cache, ${coalescedCount} by a run in flight`,
    )
  const failed = Object.entries(failures)
  if (failed.length > 0)
    lines.push(
      `\tNot answered, and left out above: ${failed.map(([why, count]) => `${count} ${why}`).join(', ')}`,
    )
  return `${lines.join('\n')}\n`
}

/** One trace, with what passed between its timestamps. */
export function traceText({ model, version, id, parentId, error, timestamps }: Trace): string {
  const lines = [`${model} (${version}):`, `\tid: ${id}`]
  if (parentId !== undefined) lines.push(`\tparent id: ${parentId}`)
  if (error !== undefined) lines.push(`\terror: ${error}`)
  let lastNs: number | null = null
  for (const { name, ns } of timestamps.toSorted((a, b) => a.ns - b.ns)) {
    if (lastNs !== null) lines.push(`\t\t${(ns - lastNs) / 1000}us`)
    lines.push(`\t${name}`)
    lastNs = ns
  }
  return `${lines.join('\n')}\n`
}
