import { attribute } from './attribute.ts'
import type { AttributeValue } from './attribute.ts'
import { elementBytes, elementTypeCode } from './element-type.ts'
import type { ElementData, ElementType } from './element-type.ts'
import { encodeModel } from './proto.ts'
import type { GraphProto, NodeProto, TensorProto, TypeProto } from './proto.ts'
import { tensor } from './value-type.ts'
import type { Dims } from './value-type.ts'

export { float } from './attribute.ts'
export type { AttributeValue } from './attribute.ts'
export type { ElementData, ElementType } from './element-type.ts'
export { map, optional, sequence, tensor } from './value-type.ts'
export type { Dims } from './value-type.ts'

/** What a model file declares about itself. */
export interface BuildOptions {
  /** Version of the default operator set. Default 17. */
  opset?: number
  /** Version of the file format. Default 8; 4-bit types came with 10. */
  irVersion?: number
  /** Further operator sets by domain, such as `{ 'ai.onnx.ml': 3 }`. */
  domains?: Record<string, number>
  /** Free key-value pairs stored in the model. */
  metadata?: Record<string, string>
}

/** Where an initializer's elements are kept when they are not in the model file. */
export interface InitializerOptions {
  /** Name of the file beside the model. Initializers that name the same file are appended to it. */
  externalFile?: string
}

/** A model together with the files of its external initializers. */
export interface ModelFiles {
  model: Uint8Array
  /** Contents by file name, relative to the model's folder. */
  files: ReadonlyMap<string, Uint8Array>
}

/** A constant tensor, for initializers and for tensor attributes. */
export function constant(
  name: string,
  type: ElementType,
  dims: readonly number[],
  data: ElementData,
): TensorProto {
  const head = { name, dims: [...dims], dataType: elementTypeCode[type] }
  if (type !== 'string') return { ...head, rawData: elementBytes(type, data) }
  return { ...head, stringData: Array.from(data as readonly string[], (text) => Buffer.from(text)) }
}

/** Builds an ONNX model step by step. Nothing is checked: wrong models are wanted too. */
export class GraphBuilder {
  readonly #graph: GraphProto
  readonly #externalFiles = new Map<string, Uint8Array>()

  constructor(name: string) {
    this.#graph = { name, node: [], initializer: [], input: [], output: [], valueInfo: [] }
  }

  /** Declares a graph input: an element type with its dims, or a type made by {@link sequence} and the like. */
  input(name: string, type: ElementType | TypeProto, dims?: Dims): this {
    this.#graph.input.push({ name, type: asType(type, dims) })
    return this
  }

  /** Declares a graph output. */
  output(name: string, type: ElementType | TypeProto, dims?: Dims): this {
    this.#graph.output.push({ name, type: asType(type, dims) })
    return this
  }

  /** Declares the type of an intermediate value. */
  valueInfo(name: string, type: ElementType | TypeProto, dims?: Dims): this {
    this.#graph.valueInfo.push({ name, type: asType(type, dims) })
    return this
  }

  /** Adds a constant. */
  initializer(
    name: string,
    type: ElementType,
    dims: readonly number[],
    data: ElementData,
    { externalFile }: InitializerOptions = {},
  ): this {
    const value = constant(name, type, dims, data)
    this.#graph.initializer.push(externalFile === undefined ? value : this.#moveOut(value, externalFile))
    return this
  }

  /** Adds an operator call; an operator of another domain is written `domain:Name`. */
  node(
    op: string,
    inputs: readonly string[],
    outputs: readonly string[],
    attributes: Record<string, AttributeValue> = {},
  ): this {
    const colon = op.lastIndexOf(':')
    const opType = op.slice(colon + 1)
    const node: NodeProto = {
      name: `${opType}_${this.#graph.node.length}`,
      opType,
      input: [...inputs],
      output: [...outputs],
      attribute: Object.entries(attributes).map(([name, value]) => attribute(name, value)),
    }
    if (colon > 0) node.domain = op.slice(0, colon)
    this.#graph.node.push(node)
    return this
  }

  /** The bytes of the model. External initializers only name their file; {@link GraphBuilder.bundle} has both. */
  build({ opset = 17, irVersion = 8, domains = {}, metadata = {} }: BuildOptions = {}): Uint8Array {
    return encodeModel({
      irVersion,
      producerName: 'zerohop-test',
      graph: this.#graph,
      opsetImport: Object.entries({ '': opset, ...domains }).map(([domain, version]) => ({
        domain,
        version,
      })),
      metadataProps: Object.entries(metadata).map(([key, value]) => ({ key, value })),
    })
  }

  /** What was built as a branch or body, for an attribute of a node that runs it. */
  subgraph(): GraphProto {
    return this.#graph
  }

  /** The bytes of the model and the contents of its external files. */
  bundle(options: BuildOptions = {}): ModelFiles {
    return { model: this.build(options), files: this.#externalFiles }
  }

  #moveOut({ rawData = new Uint8Array(), ...value }: TensorProto, file: string): TensorProto {
    const before = this.#externalFiles.get(file) ?? new Uint8Array()
    // Readers map external files by page, so exporters align the start of each tensor.
    const offset = Math.ceil(before.byteLength / 4096) * 4096
    const padding = new Uint8Array(offset - before.byteLength)
    this.#externalFiles.set(file, Buffer.concat([before, padding, rawData]))
    const location = { location: file, offset, length: rawData.byteLength }
    const externalData = Object.entries(location).map(([key, part]) => ({ key, value: String(part) }))
    return { ...value, dataLocation: 1, externalData }
  }
}

/** Starts a model. */
export const graph = (name: string): GraphBuilder => new GraphBuilder(name)

function asType(type: ElementType | TypeProto, dims: Dims | undefined): TypeProto {
  return typeof type === 'string' ? tensor(type, dims) : type
}
