import protobuf from 'protobufjs'

/** What is written of Perfetto's traces, with the names and numbers of its own schema (protos/perfetto/trace). */
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

/** What a packet is about. */
export interface TracePacket {
  readonly timestamp?: number
  readonly trusted_packet_sequence_id: number
  /** 1: what was said before of names and the like holds no more. */
  readonly sequence_flags?: number
  readonly timestamp_clock_id?: number
  readonly track_event?: TrackEvent
  readonly track_descriptor?: TrackDescriptor
}

export interface TrackDescriptor {
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

export interface TrackEvent {
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

/** A part of a trace; parts one behind the other are one. */
export function encodePackets(packet: readonly TracePacket[]): Uint8Array {
  return type.encode(type.fromObject({ packet })).finish()
}

/** Reads a trace as plain objects, whose integers of 64 bits are numbers. */
export function decodeTrace(bytes: Uint8Array): { readonly packet: readonly TracePacket[] } {
  return type.toObject(type.decode(bytes), { longs: Number }) as { packet: TracePacket[] }
}
