import { fileURLToPath } from 'node:url'
import protobuf from 'protobufjs'

/** A dimension in a declared shape: a fixed size, a symbolic name, or neither. */
export interface DimensionProto {
  dimValue?: number
  dimParam?: string
}

/** The declared type of a graph input, output or intermediate value. Exactly one member is set. */
export interface TypeProto {
  tensorType?: { elemType: number; shape?: { dim: DimensionProto[] } }
  sequenceType?: { elemType: TypeProto }
  mapType?: { keyType: number; valueType: TypeProto }
  optionalType?: { elemType: TypeProto }
}

/** A named, typed value of a graph. */
export interface ValueInfoProto {
  name: string
  type: TypeProto
}

/** A constant tensor: its elements are in `rawData`, in `stringData`, or in a file beside the model. */
export interface TensorProto {
  name?: string
  dims: number[]
  dataType: number
  stringData?: Uint8Array[]
  rawData?: Uint8Array
  externalData?: { key: string; value: string }[]
  dataLocation?: number
}

/** One attribute of a node; `type` says which of the other members holds the value. */
export interface AttributeProto {
  name: string
  type: number
  f?: number
  i?: number
  s?: Uint8Array
  t?: TensorProto
  g?: GraphProto
  floats?: number[]
  ints?: number[]
  strings?: Uint8Array[]
  /** Inside a function: the attribute of the call from which the value comes. */
  refAttrName?: string
}

/** One operator call. */
export interface NodeProto {
  name: string
  opType: string
  domain?: string
  input: string[]
  output: string[]
  attribute: AttributeProto[]
}

/** The computation graph of a model. */
export interface GraphProto {
  name: string
  node: NodeProto[]
  initializer: TensorProto[]
  input: ValueInfoProto[]
  output: ValueInfoProto[]
  valueInfo: ValueInfoProto[]
}

/** A function that a model brings along; it is called like an operator of its domain. */
export interface FunctionProto {
  name: string
  domain: string
  input: string[]
  output: string[]
  attribute: string[]
  node: NodeProto[]
  opsetImport: { domain: string; version: number }[]
}

/** A whole model. */
export interface ModelProto {
  irVersion: number
  producerName: string
  graph: GraphProto
  opsetImport: { domain: string; version: number }[]
  metadataProps: { key: string; value: string }[]
  functions?: FunctionProto[]
}

const schema = protobuf.loadSync(fileURLToPath(new URL('./onnx.proto', import.meta.url)))
const modelType = schema.lookupType('onnx.ModelProto')

/** Serialises a model to the bytes of an `.onnx` file. */
export function encodeModel(model: ModelProto): Uint8Array {
  // One allocation of the final size: a 240 MB model costs one copy of its weights.
  return modelType.encode(model).finish()
}
