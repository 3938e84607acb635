import { inLanes, type Stretch } from './lanes.ts'
import {
  encodePackets,
  eventTypes,
  type TracePacket,
  type TrackDescriptor,
  type TrackEvent,
} from './perfetto-schema.ts'
import { queueLengths, timelineOf, type TimelineBatch, type TimelineRequest } from './timeline.ts'
import type { Trace } from './trace.ts'

/** All packets are of one sequence: of one writer, whose timestamps are of `CLOCK_MONOTONIC`. */
const sequence = { trusted_packet_sequence_id: 1 }
const monotonicClock = 3
const packetsAtOnce = 10_000

type Event = Omit<TrackEvent, 'track_uuid'> & { readonly atNs: number }

/** The tracks of a timeline, and what happens on them. */
class Tracks {
  readonly descriptors: TrackDescriptor[] = []
  readonly events: { readonly atNs: number; readonly event: TrackEvent }[] = []

  /** @returns its number. */
  add(descriptor: Omit<TrackDescriptor, 'uuid'>): number {
    const uuid = this.descriptors.length + 1
    this.descriptors.push({ uuid, ...descriptor })
    return uuid
  }

  /** Tracks of one name, as many as there are lanes, below another; stretches on them, each told by what it is. */
  addLanes<T extends Stretch>(
    parent: number,
    name: string,
    stretches: readonly T[],
    eventsOf: (stretch: T) => readonly Event[],
  ): void {
    const lanes = new Map<number, number>()
    for (const { lane, ...stretch } of inLanes(stretches)) {
      const track = lanes.get(lane) ?? this.add({ name, parent_uuid: parent })
      lanes.set(lane, track)
      for (const event of eventsOf(stretch as unknown as T)) this.happens(track, event)
    }
  }

  /** Events of a track come in its order. */
  happens(track: number, { atNs, ...event }: Event): void {
    this.events.push({ atNs, event: { ...event, track_uuid: track } })
  }
}

/**
 * Traces as a timeline for Perfetto's viewer: a track for each worker with its batches, the requests of each model, from each of
 * which an arrow leads to its batch, and how many of them wait.
 *
 * @returns parts of a file, one behind the other.
 */
export function* perfettoTimeline(traces: readonly Trace[]): Generator<Uint8Array> {
  const { batches, requests } = timelineOf(traces)
  const tracks = new Tracks()
  const root = tracks.add({ process: { pid: 1, process_name: 'zerohop' }, child_ordering: 3 })
  addBatches(tracks, root, batches, requests)
  for (const [rank, [model, ofModel]] of [...grouped(requests, ({ trace }) => trace.model)].entries()) {
    const group = tracks.add({ name: model, parent_uuid: root, sibling_order_rank: 1 + rank })
    addQueueLength(tracks, group, ofModel, model)
    tracks.addLanes(group, 'requests', ofModel, eventsOfRequest)
  }
  yield encodePackets(
    tracks.descriptors.map((track_descriptor, index) => ({
      ...sequence,
      ...(index === 0 && { sequence_flags: 1 }),
      track_descriptor,
    })),
  )
  const events = tracks.events.toSorted((a, b) => a.atNs - b.atNs)
  for (let from = 0; from < events.length; from += packetsAtOnce)
    yield encodePackets(events.slice(from, from + packetsAtOnce).map(packetOf))
}

function packetOf({ atNs, event }: { readonly atNs: number; readonly event: TrackEvent }): TracePacket {
  return { ...sequence, timestamp: atNs, timestamp_clock_id: monotonicClock, track_event: event }
}

function addBatches(
  tracks: Tracks,
  root: number,
  batches: readonly TimelineBatch[],
  requests: readonly TimelineRequest[],
): void {
  const workers = tracks.add({ name: 'workers', parent_uuid: root, sibling_order_rank: 0 })
  const lastOf = new Map<number, TimelineBatch>()
  for (const batch of batches.toSorted((a, b) => a.startNs - b.startNs))
    for (const request of batch.requests) lastOf.set(request, batch)
  for (const [thread, own] of [...grouped(batches, ({ thread }) => thread)].toSorted(([a], [b]) =>
    a < b ? -1 : 1,
  )) {
    const original = new Map(own.map((batch) => [batch.batch, batch]))
    tracks.addLanes(workers, thread, own, (batch) => {
      const isLast = (request: number) => lastOf.get(request) === original.get(batch.batch)
      return eventsOfBatch(
        batch,
        batch.requests.filter((request) => !isLast(request)),
        batch.requests.filter(isLast),
        requests,
      )
    })
  }
}

/** @param goOn requests that come to another batch after it. @param end those that do not. */
function eventsOfBatch(
  { model, batch, startNs, endNs, requests: members }: TimelineBatch,
  goOn: readonly number[],
  end: readonly number[],
  requests: readonly TimelineRequest[],
): Event[] {
  const ids = members.map((number) => nameOf(requests[number - 1]!))
  const { id, instance, reason, rows, requests: count, rerun, inline } = batch
  const begin = {
    type: eventTypes.sliceBegin, atNs: startNs, name: `${model} × ${rows}`, categories: ['batch'], flow_ids: goOn, terminating_flow_ids: end,
    debug_annotations: [
      { name: 'batch', int_value: id }, { name: 'instance', string_value: instance }, { name: 'rows', int_value: rows }, { name: 'requests', int_value: count },
      { name: 'reason', string_value: reason }, { name: 'request ids', string_value: ids.join(', ') },
      ...(rerun ? [{ name: 'rerun', bool_value: true }] : []), ...(inline ? [{ name: 'inline', bool_value: true }] : []),
    ],
  } // prettier-ignore
  return [begin, { type: eventTypes.sliceEnd, atNs: endNs }]
}

function eventsOfRequest(request: TimelineRequest): Event[] {
  const { trace, number, startNs, endNs, parts, batches } = request
  const { id, parentId, rows, priority, error, shared } = trace
  const begin = {
    type: eventTypes.sliceBegin, atNs: startNs, name: nameOf(request), categories: ['request'], ...(batches > 0 && { flow_ids: [number] }),
    debug_annotations: [
      { name: 'trace', int_value: id }, ...(parentId === undefined ? [] : [{ name: 'parent', int_value: parentId }]), ...(rows === undefined ? [] : [{ name: 'rows', int_value: rows }]),
      ...(priority === undefined ? [] : [{ name: 'priority', int_value: priority }]), ...(error === undefined ? [] : [{ name: 'error', string_value: error }]),
      ...(shared === undefined ? [] : [{ name: 'shared', string_value: shared }]),
    ],
  } // prettier-ignore
  const inner = parts.flatMap(({ name, startNs: fromNs, endNs: toNs }) => {
    const from = Math.min(endNs, Math.max(startNs, fromNs)) // it may have been moved to the end of the one before
    return [{ type: eventTypes.sliceBegin, atNs: from, name }, { type: eventTypes.sliceEnd, atNs: Math.min(endNs, Math.max(from, toNs)) }] // prettier-ignore
  })
  return [begin, ...inner, { type: eventTypes.sliceEnd, atNs: endNs }]
}

function addQueueLength(
  tracks: Tracks,
  group: number,
  requests: readonly TimelineRequest[],
  model: string,
): void {
  const counter = tracks.add({
    name: 'waiting requests',
    parent_uuid: group,
    counter: { unit_name: 'requests' },
  })
  for (const { atNs, length } of queueLengths(requests).get(model) ?? [])
    tracks.happens(counter, { type: eventTypes.counter, atNs, counter_value: length })
}

function nameOf({ trace: { requestId, id } }: TimelineRequest): string {
  return requestId || `request ${id}`
}

function grouped<T>(items: readonly T[], nameOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const name = nameOf(item)
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [item])
    else group.push(item)
  }
  return groups
}
