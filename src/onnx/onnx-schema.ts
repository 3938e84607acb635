import protobuf from 'protobufjs'

/**
 * What is read of an ONNX model, with the names and numbers of ONNX's own schema. Only fields that stand here are kept; what
 * holds weights, and what holds such parts, is walked through by {@link WireReader} instead.
 */
const schema = `
  syntax = "proto2";

  message ModelProto {
    optional int64 ir_version = 1;
    optional string producer_name = 2;
    optional string producer_version = 3;
    optional string domain = 4;
    optional int64 model_version = 5;
    repeated OperatorSetIdProto opset_import = 8;
  }
  message OperatorSetIdProto {
    optional string domain = 1;
    optional int64 version = 2;
  }
  message GraphProto {
    optional string name = 2;
  }
  message NodeProto {
    optional string op_type = 4;
    optional string domain = 7;
  }
  message FunctionProto {
    optional string name = 1;
    optional string domain = 10;
  }
  message TensorProto {
    repeated int64 dims = 1;
    optional int32 data_type = 2;
    optional string name = 8;
    repeated StringStringEntryProto external_data = 13;
    optional int32 data_location = 14;
  }
  message StringStringEntryProto {
    optional string key = 1;
    optional string value = 2;
  }
  message ValueInfoProto {
    optional string name = 1;
    optional TypeProto type = 2;
  }
  message TypeProto {
    message Tensor {
      optional int32 elem_type = 1;
      optional TensorShapeProto shape = 2;
    }
    message Sequence {
      optional TypeProto elem_type = 1;
    }
    message Map {
      optional int32 key_type = 1;
      optional TypeProto value_type = 2;
    }
    message Opaque {}
    oneof value {
      Tensor tensor_type = 1;
      Sequence sequence_type = 4;
      Map map_type = 5;
      Opaque opaque_type = 7;
      Tensor sparse_tensor_type = 8;
      Sequence optional_type = 9;
    }
  }
  message TensorShapeProto {
    message Dimension {
      oneof value {
        int64 dim_value = 1;
        string dim_param = 2;
      }
    }
    repeated Dimension dim = 1;
  }
  message Container {}
`

const { root } = protobuf.parse(schema)

/** Messages of {@link schema} as they are read: what is absent has its default. */
export interface Messages {
  ModelProto: {
    readonly irVersion: number
    readonly producerName: string
    readonly producerVersion: string
    readonly domain: string
    readonly modelVersion: number
    readonly opsetImport: readonly { readonly domain: string; readonly version: number }[]
  }
  GraphProto: { readonly name: string }
  NodeProto: { readonly opType: string; readonly domain: string }
  FunctionProto: { readonly name: string; readonly domain: string }
  TensorProto: {
    readonly dims: readonly number[]
    readonly dataType: number
    readonly name: string
    readonly externalData: readonly { readonly key: string; readonly value: string }[]
    readonly dataLocation: number
  }
  ValueInfoProto: { readonly name: string; readonly type: TypeProto | null }
  /** Of which nothing is kept but its parts. */
  Container: object
}

/** The type of an input or output; one member is set, or none. */
export interface TypeProto {
  readonly tensorType?: {
    readonly elemType: number
    readonly shape: { readonly dim: readonly Dimension[] } | null
  }
  readonly sequenceType?: { readonly elemType: TypeProto | null }
  readonly mapType?: { readonly keyType: number; readonly valueType: TypeProto | null }
  readonly opaqueType?: object
  readonly sparseTensorType?: object
  readonly optionalType?: { readonly elemType: TypeProto | null }
}

/** A dimension that is fixed, named, or neither. */
export interface Dimension {
  readonly dimValue?: number
  readonly dimParam?: string
}

const types = new Map<string, protobuf.Type>()

function typeOf(name: keyof Messages): protobuf.Type {
  let type = types.get(name)
  if (type === undefined) types.set(name, (type = root.lookupType(name)))
  return type
}

/** Whether a message keeps the field of that number. */
export function keeps(name: keyof Messages, field: number): boolean {
  return typeOf(name).fieldsById[field] !== undefined
}

/** Reads a message; throws an Error for what is none. */
export function decode<Name extends keyof Messages>(name: Name, bytes: Uint8Array): Messages[Name] {
  const type = typeOf(name)
  return type.toObject(type.decode(bytes), { longs: Number, defaults: true }) as Messages[Name]
}
