import { type BatchTimes, timestampOf, type Trace, type TraceBatch } from './read-trace-file.ts'

/** A batch on the thread that ran it, with its requests. */
export interface TimelineBatch extends Stretch {
  readonly model: string
  readonly batch: TraceBatch & { readonly moments: BatchTimes }
  /** Where it ran: a worker, or the application's thread. */
  readonly thread: string
  /** The numbers of its requests in the timeline. */
  readonly requests: number[]
}

/** A request, with its consecutive parts. */
export interface TimelineRequest extends Stretch {
  readonly trace: Trace
  /** Its number in the timeline. */
  readonly number: number
  readonly parts: readonly (Stretch & { readonly name: string })[]
  /** Number of its batches in the timeline. */
  readonly batches: number
}

/** What is drawn of traces. */
interface Timeline {
  readonly batches: readonly TimelineBatch[]
  readonly requests: readonly TimelineRequest[]
}

const applicationThread = "application's thread"
const way = [
  'QUEUE_START',
  'COMPUTE_START',
  'COMPUTE_INPUT_END',
  'COMPUTE_OUTPUT_START',
  'COMPUTE_END',
] as const
const partNames = ['queue', 'input', 'infer', 'output'] as const

/** Puts traces on a timeline: their requests, and the batches that these share, each once. */
export function timelineOf(traces: readonly Trace[]): Timeline {
  const batches = new Map<string, TimelineBatch>()
  const requests: TimelineRequest[] = []
  for (const trace of traces) {
    const startNs = timestampOf(trace, 'REQUEST_START')
    const endNs = timestampOf(trace, 'REQUEST_END')
    if (startNs === undefined || endNs === undefined || endNs < startNs) continue
    const number = requests.length + 1
    let count = 0
    for (const batch of trace.batches)
      if (batch.moments !== null && addTo(batches, trace, batch as TimelineBatch['batch'], number)) count++
    requests.push({ trace, number, startNs, endNs, parts: partsOf(trace, startNs, endNs), batches: count })
  }
  return { batches: [...batches.values()], requests }
}

/** @returns whether the request is new in it. */
function addTo(
  batches: Map<string, TimelineBatch>,
  { model, version }: Trace,
  batch: TimelineBatch['batch'],
  request: number,
): boolean {
  const { startNs, inferEndNs } = batch.moments
  const key = JSON.stringify([model, version, batch.id, startNs])
  const known = batches.get(key)
  if (known?.requests.includes(request)) return false
  if (known !== undefined) known.requests.push(request)
  else
    batches.set(key, {
      model,
      batch,
      thread: batch.inline ? applicationThread : batch.worker,
      startNs,
      endNs: Math.max(startNs, inferEndNs),
      requests: [request],
    })
  return true
}

/** The parts between its timestamps, as far as it has them; within the request, and in order. */
function partsOf(trace: Trace, startNs: number, endNs: number): TimelineRequest['parts'] {
  const parts: { name: string; startNs: number; endNs: number }[] = []
  let fromNs = startNs
  for (let index = 0; index < partNames.length; index++) {
    const [from, to] = [timestampOf(trace, way[index]!), timestampOf(trace, way[index + 1]!)]
    if (from === undefined || to === undefined) continue
    const partStartNs = Math.min(endNs, Math.max(fromNs, from))
    fromNs = Math.min(endNs, Math.max(partStartNs, to))
    parts.push({ name: partNames[index]!, startNs: partStartNs, endNs: fromNs })
  }
  return parts
}

/** The number of waiting requests over time. */
export function queueLengths(requests: readonly TimelineRequest[]): { atNs: number; length: number }[] {
  const changes = requests.flatMap(({ trace, startNs, endNs }) => {
    const from = timestampOf(trace, 'QUEUE_START') ?? startNs
    const to = timestampOf(trace, 'COMPUTE_START') ?? endNs
    return [
      { atNs: from, by: 1 },
      { atNs: Math.max(from, to), by: -1 },
    ]
  })
  const lengths: { atNs: number; length: number }[] = []
  let length = 0
  for (const { atNs, by } of changes.sort((a, b) => a.atNs - b.atNs)) {
    length += by
    const last = lengths.at(-1)
    if (last?.atNs === atNs) last.length = length
    else lengths.push({ atNs, length })
  }
  return lengths
}

/** Something with a beginning and an end. */
export interface Stretch {
  readonly startNs: number
  readonly endNs: number
}

/** Allowed difference of two threads' clocks. */
const skewNs = 20_000

/**
 * Distributes stretches over as few lanes as possible, so that they do not overlap within a lane. A stretch
 * that begins slightly before the last one's end is moved to that end.
 */
export function inLanes<T extends Stretch>(stretches: readonly T[]): (T & { readonly lane: number })[] {
  const ends: number[] = []
  return stretches
    .toSorted((a, b) => a.startNs - b.startNs || a.endNs - b.endNs)
    .map((stretch) => {
      let lane = ends.findIndex((endNs) => endNs <= stretch.startNs)
      if (lane === -1)
        lane = ends.findIndex((endNs) => endNs - skewNs <= stretch.startNs && endNs <= stretch.endNs)
      if (lane === -1) lane = ends.length
      const startNs = Math.max(stretch.startNs, ends[lane] ?? 0)
      const endNs = Math.max(startNs, stretch.endNs)
      ends[lane] = endNs
      return { ...stretch, startNs, endNs, lane }
    })
}
