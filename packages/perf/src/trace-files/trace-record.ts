import * as v from 'valibot'
import type { Timestamp, Trace, TraceBatch, TraceTensor } from './trace.ts'

const number = v.pipe(v.number(), v.finite())
const id = v.pipe(v.number(), v.safeInteger())
/** As far as numbers of JSON go without loss, which is a hundred days, and some more. */
const ns = v.pipe(v.number(), v.minValue(0), v.maxValue(2 ** 62))
const text = v.string()
const dims = v.array(v.pipe(v.number(), v.integer(), v.minValue(0)))

const batch = v.object({
  id, instance: text, worker: text, reason: text, rows: number, requests: number, position: number,
  part: v.optional(number), inline: v.optional(v.boolean(), false), rerun: v.optional(v.boolean(), false), error: v.optional(text),
  taken_ns: v.optional(ns), gathered_ns: v.optional(ns), start_ns: v.optional(ns), infer_start_ns: v.optional(ns), infer_end_ns: v.optional(ns),
  output_start_ns: v.optional(ns), output_end_ns: v.optional(ns),
}) // prettier-ignore

/** Of the fields of ours only those that are read; Triton's files have none of them. */
const record = v.object({
  id,
  model_name: v.optional(text),
  model_version: v.optional(number),
  request_id: v.optional(text),
  parent_id: v.optional(id),
  rows: v.optional(number),
  priority: v.optional(number),
  timeout_ms: v.optional(number),
  deadline_ms: v.optional(number),
  sequence_id: v.optional(v.union([number, text])),
  dims: v.optional(v.record(text, dims)),
  error: v.optional(text),
  shared: v.optional(v.picklist(['cached', 'coalesced'])),
  batches: v.optional(v.array(batch), []),
  timestamps: v.optional(v.array(v.object({ name: text, ns })), []),
  activity: v.optional(text),
  tensor: v.optional(v.object({ name: text, data: text, shape: text, dtype: text })),
})

type Batch = v.InferOutput<typeof batch>
type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }
/** A trace some records of which have been read. */
export type PartialTrace = Mutable<Omit<Trace, 'timestamps' | 'tensors' | 'model' | 'version'>> & {
  model: string | null
  version: number
  readonly timestamps: Timestamp[]
  readonly tensors: TraceTensor[]
}

/** What is wrong with a record. */
export class NoRecord extends Error {}

/**
 * Adds a record to the trace that it is of.
 *
 * @returns the trace that had its id before, of another process: a first record begins another one; `null` for none.
 * @throws NoRecord
 */
export function addRecord(traces: Map<number, PartialTrace>, given: string): PartialTrace | null {
  const { id, timestamps, activity, tensor, ...rest } = parsed(given)
  const known = traces.get(id)
  const isAnother = known !== undefined && known.model !== null && rest.model_name !== undefined
  if (isAnother) traces.delete(id) // the other comes behind those that are open
  let trace = isAnother ? undefined : known
  if (trace === undefined)
    traces.set(id, (trace = { id, model: null, version: -1, batches: [], timestamps: [], tensors: [] }))
  if (rest.model_name !== undefined) Object.assign(trace, described(rest))
  trace.timestamps.push(...timestamps)
  if (activity !== undefined && tensor !== undefined) trace.tensors.push({ activity, ...tensor })
  return isAnother ? known : null
}

function parsed(given: string): v.InferOutput<typeof record> {
  let value: unknown
  try {
    value = JSON.parse(given)
  } catch {
    throw new NoRecord('is no JSON')
  }
  const result = v.safeParse(record, value, { abortEarly: true })
  if (result.success) return result.output
  const [issue] = result.issues
  const path = (issue.path ?? []).reduce(
    (before, { key }) =>
      typeof key === 'number'
        ? `${before}[${key}]`
        : before === ''
          ? String(key)
          : `${before}.${String(key)}`,
    '',
  )
  throw new NoRecord(`${path}: expected ${issue.expected ?? issue.message}, received ${issue.received}`)
}

type Described = Omit<v.InferOutput<typeof record>, 'id' | 'timestamps' | 'activity' | 'tensor'>

/** What the first record says. */
function described({
  model_name,
  model_version,
  request_id,
  parent_id,
  timeout_ms,
  deadline_ms,
  sequence_id,
  batches,
  ...same
}: Described): Partial<Trace> {
  const named = {
    requestId: request_id,
    parentId: parent_id,
    timeoutMs: timeout_ms,
    deadlineMs: deadline_ms,
    sequenceId: sequence_id,
  }
  const given = Object.fromEntries(
    Object.entries({ ...same, ...named }).filter(([, value]) => value !== undefined),
  )
  return { ...given, model: model_name!, version: model_version ?? -1, batches: batches.map(batchOf) }
}

function batchOf(given: Batch): TraceBatch {
  const {
    taken_ns,
    gathered_ns,
    start_ns,
    infer_start_ns,
    infer_end_ns,
    output_start_ns,
    output_end_ns,
    part,
    error,
    ...same
  } = given
  const all = [taken_ns, gathered_ns, start_ns, infer_start_ns, infer_end_ns, output_start_ns, output_end_ns]
  const [takenNs, gatheredNs, startNs, inferStartNs, inferEndNs, outputStartNs, outputEndNs] = all as number[]
  const moments = all.includes(undefined)
    ? null
    : {
        takenNs: takenNs!,
        gatheredNs: gatheredNs!,
        startNs: startNs!,
        inferStartNs: inferStartNs!,
        inferEndNs: inferEndNs!,
        outputStartNs: outputStartNs!,
        outputEndNs: outputEndNs!,
      }
  return { ...same, ...(part !== undefined && { part }), ...(error !== undefined && { error }), moments }
}
