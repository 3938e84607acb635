import type {
  ObservedBatch,
  ObservedModel,
  ObservedRun,
  RequestFacts,
  SharedAnswer,
} from './request-observer.ts'

/** From the engine's clock to that of `CLOCK_MONOTONIC`, by which other tools of the machine go, in nanoseconds. */
const originNs = Number(process.hrtime.bigint()) - Math.round(performance.now() * 1e6)

export function nanoseconds(atMs: number): number {
  return Math.round(atMs * 1e6) + originNs
}

/** How a traced request ended, and what it took part in. */
export interface TraceEnd {
  readonly id: number
  readonly parentId: number | null
  readonly runs: readonly ObservedRun[]
  readonly shared: SharedAnswer | null
  /** A code, or `'cancelled'`; `null` for one that was answered. */
  readonly error: string | null
}

/** The first record of a trace: Triton's fields, and of ours what tells the request and its batches apart. */
export function traceRecord(
  { name, version, metadata }: ObservedModel,
  facts: RequestFacts,
  { id, parentId, runs, shared, error }: TraceEnd,
): string {
  const { requestId, rows, priority, timeoutMs, deadlineMs, sequenceId } = facts
  let text = `{"id":${id},"model_name":${JSON.stringify(name)},"model_version":${version}`
  if (requestId !== undefined) text += `,"request_id":${JSON.stringify(requestId)}`
  if (parentId !== null) text += `,"parent_id":${parentId}`
  text += `,"rows":${rows}`
  if (priority !== undefined) text += `,"priority":${priority}`
  if (timeoutMs !== undefined) text += `,"timeout_ms":${timeoutMs}`
  if (deadlineMs !== undefined) text += `,"deadline_ms":${deadlineMs}`
  if (sequenceId !== undefined)
    text += `,"sequence_id":${typeof sequenceId === 'number' ? sequenceId : JSON.stringify(String(sequenceId))}`
  const dims = openDims(metadata.inputs, facts.dims)
  if (dims !== null) text += `,"dims":${JSON.stringify(dims)}`
  if (error !== null) text += `,"error":${JSON.stringify(error)}`
  if (shared !== null) text += `,"shared":"${shared.how}","batch_id":${shared.batchId}`
  if (runs.length > 0) text += `,"batches":[${runs.map(batchText).join(',')}]`
  return `${text}}`
}

/** The record of its timestamps, in their order; none is before another that comes first on the way. */
export function timestampsRecord(
  id: number,
  moments: readonly (readonly [name: string, atMs: number])[],
): string {
  let lastNs = 0
  const shown = moments.map(([name, atMs]) => {
    lastNs = Math.max(lastNs, nanoseconds(atMs))
    return `{"name":"${name}","ns":${lastNs}}`
  })
  return `{"id":${id},"timestamps":[${shown.join(',')}]}`
}

function batchText({ batch, position, rows, part }: ObservedRun): string {
  return `{${sharedText(batch)},"position":${position}${part === null ? '' : `,"part":${part},"part_rows":${rows}`}}`
}

let lastBatch: ObservedBatch | null = null
let lastText = ''

/** What all requests of a batch say of it, and mostly one after the other. */
function sharedText(batch: ObservedBatch): string {
  if (batch === lastBatch) return lastText
  const { id, instance, worker, reason, rows, inline, isRerun, requestCount, moments, error } = batch
  let text = `"id":${id},"instance":${JSON.stringify(instance)},"worker":${JSON.stringify(worker)},"reason":"${reason}","rows":${rows},"requests":${requestCount}`
  if (inline) text += ',"inline":true'
  if (isRerun) text += ',"rerun":true'
  if (error !== null) text += `,"error":${JSON.stringify(error)}`
  if (moments !== null) {
    const { takenAtMs, gatheredAtMs, startMs, inferStartMs, inferEndMs, scatterAtMs, doneAtMs } = moments
    text += `,"taken_ns":${nanoseconds(takenAtMs)},"gathered_ns":${nanoseconds(gatheredAtMs)},"start_ns":${nanoseconds(startMs)},"infer_start_ns":${nanoseconds(inferStartMs)}`
    text += `,"infer_end_ns":${nanoseconds(inferEndMs)},"output_start_ns":${nanoseconds(scatterAtMs)},"output_end_ns":${nanoseconds(doneAtMs)}`
  }
  lastBatch = batch
  return (lastText = text)
}

/** Dims of the inputs that the model leaves open beyond the rows, by name; `null` for none. */
function openDims(
  inputs: ObservedModel['metadata']['inputs'],
  dims: RequestFacts['dims'],
): Record<string, readonly number[]> | null {
  if (dims === null) return null
  const open = inputs.flatMap(({ name, shape, batchAxis = 0 }, index) =>
    shape.some((dim, axis) => typeof dim === 'string' && axis !== batchAxis) && dims[index]
      ? [[name, dims[index]] as const]
      : [],
  )
  return open.length === 0 ? null : Object.fromEntries(open)
}
