import protobuf from 'protobufjs'
import { grouped } from '../grouped.ts'
import type { Trace } from './read-trace-file.ts'
import {
  inLanes,
  queueLengths,
  type Stretch,
  type TimelineBatch,
  timelineOf,
  type TimelineRequest,
} from './timeline.ts'

/** All packets belong to one sequence of one writer, with timestamps of `CLOCK_MONOTONIC`. */
const sequence = { trusted_packet_sequence_id: 1 }
const monotonicClock = 3
const packetsAtOnce = 10_000

type Event = Omit<TrackEvent, 'track_uuid'> & { readonly atNs: number }

/** The tracks of a timeline and their events. */
class Tracks {
  readonly descriptors: TrackDescriptor[] = []
  readonly events: { readonly atNs: number; readonly event: TrackEvent }[] = []

  /** @returns its number. */
  add(descriptor: Omit<TrackDescriptor, 'uuid'>): number {
    const uuid = this.descriptors.length + 1
    this.descriptors.push({ uuid, ...descriptor })
    return uuid
  }

  /**
   * Adds tracks of one name below another, one per lane, with stretches on them. `eventsOf` returns a
   * stretch's events.
   */
  addLanes<T extends Stretch>(
    parent: number,
    name: string,
    stretches: readonly T[],
    eventsOf: (stretch: T) => readonly Event[],
  ): void {
    const lanes = new Map<number, number>()
    for (const stretch of inLanes(stretches)) {
      const track = lanes.get(stretch.lane) ?? this.add({ name, parent_uuid: parent })
      lanes.set(stretch.lane, track)
      for (const event of eventsOf(stretch)) this.happens(track, event)
    }
  }

  /** Events of a track must be added in order. */
  happens(track: number, { atNs, ...event }: Event): void {
    this.events.push({ atNs, event: { ...event, track_uuid: track } })
  }
}

/**
 * Traces as a timeline for Perfetto's viewer: a track for each worker with its batches; the requests of each
 * model, with an arrow from each to its batch; and the number of waiting requests.
 *
 * @returns consecutive parts of a file.
 */
export function* perfettoTimeline(traces: readonly Trace[]): Generator<Uint8Array> {
  const { batches, requests } = timelineOf(traces)
  const tracks = new Tracks()
  const root = tracks.add({ process: { pid: 1, process_name: 'zerohop' }, child_ordering: 3 })
  addBatches(tracks, root, batches, requests)
  for (const [rank, [model, ofModel]] of [...grouped(requests, ({ trace }) => trace.model)].entries()) {
    const group = tracks.add({ name: model, parent_uuid: root, sibling_order_rank: 1 + rank })
    const counter = { name: 'waiting requests', parent_uuid: group, counter: { unit_name: 'requests' } }
    const waiting = tracks.add(counter)
    for (const { atNs, length } of queueLengths(ofModel))
      tracks.happens(waiting, { type: eventTypes.counter, atNs, counter_value: length })
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

/** @param goOn requests that continue to another batch. @param end the other requests. */
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
    const from = Math.min(endNs, Math.max(startNs, fromNs)) // it may have been moved to the end of the part before
    return [{ type: eventTypes.sliceBegin, atNs: from, name }, { type: eventTypes.sliceEnd, atNs: Math.min(endNs, Math.max(from, toNs)) }] // prettier-ignore
  })
  return [begin, ...inner, { type: eventTypes.sliceEnd, atNs: endNs }]
}

function nameOf({ trace: { requestId, id } }: TimelineRequest): string {
  return requestId || `request ${id}`
}

/**
 * The part of Perfetto's trace format that is written, with the names and numbers of its own schema
 * (protos/perfetto/trace).
 */
const schema = `
  syntax = "proto2";

  message Trace {
    repeated TracePacket packet = 1;
  }
  message TracePacket {
    optional uint64 timestamp = 8;
    optional uint32 trusted_packet_sequence_id = 10;
    optional TrackEvent track_event = 11;
    optional uint32 sequence_flags = 13;
    optional uint32 timestamp_clock_id = 58;
    optional TrackDescriptor track_descriptor = 60;
  }
  message TrackDescriptor {
    optional uint64 uuid = 1;
    optional string name = 2;
    optional ProcessDescriptor process = 3;
    optional uint64 parent_uuid = 5;
    optional CounterDescriptor counter = 8;
    optional ChildTracksOrdering child_ordering = 11;
    enum ChildTracksOrdering {
      UNKNOWN = 0;
      LEXICOGRAPHIC = 1;
      CHRONOLOGICAL = 2;
      EXPLICIT = 3;
    }
    optional int32 sibling_order_rank = 12;
  }
  message ProcessDescriptor {
    optional int32 pid = 1;
    optional string process_name = 6;
  }
  message CounterDescriptor {
    optional string unit_name = 6;
  }
  message TrackEvent {
    repeated DebugAnnotation debug_annotations = 4;
    optional Type type = 9;
    enum Type {
      TYPE_UNSPECIFIED = 0;
      TYPE_SLICE_BEGIN = 1;
      TYPE_SLICE_END = 2;
      TYPE_INSTANT = 3;
      TYPE_COUNTER = 4;
    }
    optional uint64 track_uuid = 11;
    repeated string categories = 22;
    optional string name = 23;
    optional int64 counter_value = 30;
    repeated fixed64 flow_ids = 47;
    repeated fixed64 terminating_flow_ids = 48;
  }
  message DebugAnnotation {
    optional bool bool_value = 2;
    optional int64 int_value = 4;
    optional string string_value = 6;
    optional string name = 10;
  }
`

const type = protobuf.parse(schema, { keepCase: true }).root.lookupType('Trace')

/** The content of a packet. */
export interface TracePacket {
  readonly timestamp?: number
  readonly trusted_packet_sequence_id: number
  /** 1: earlier definitions, such as names, are void. */
  readonly sequence_flags?: number
  readonly timestamp_clock_id?: number
  readonly track_event?: TrackEvent
  readonly track_descriptor?: TrackDescriptor
}

interface TrackDescriptor {
  readonly uuid: number
  readonly name?: string
  readonly parent_uuid?: number
  readonly process?: { readonly pid: number; readonly process_name: string }
  readonly counter?: { readonly unit_name: string }
  readonly child_ordering?: 3
  readonly sibling_order_rank?: number
}

/** The numbers of `TrackEvent.Type`. */
export const eventTypes = { sliceBegin: 1, sliceEnd: 2, counter: 4 } as const

interface TrackEvent {
  readonly type: (typeof eventTypes)[keyof typeof eventTypes]
  readonly track_uuid: number
  readonly name?: string
  readonly categories?: readonly string[]
  readonly counter_value?: number
  readonly flow_ids?: readonly number[]
  readonly terminating_flow_ids?: readonly number[]
  readonly debug_annotations?: readonly {
    readonly name: string
    readonly string_value?: string
    readonly int_value?: number
    readonly bool_value?: boolean
  }[]
}

/** A part of a trace. Concatenated parts are one trace. */
function encodePackets(packet: readonly TracePacket[]): Uint8Array {
  return type.encode(type.fromObject({ packet })).finish()
}

/** Reads a trace as plain objects, with 64-bit integers as numbers. */
export function decodeTrace(bytes: Uint8Array): { readonly packet: readonly TracePacket[] } {
  return type.toObject(type.decode(bytes), { longs: Number }) as { packet: TracePacket[] }
}
