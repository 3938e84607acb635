import { FileWindow } from '../file-window.ts'
import { withRegularFileSync } from '../../base/files.ts'
import {
  type Attribute,
  checkScopes,
  type DeclaredInput,
  functionKey,
  type OnnxFunction,
  type OnnxGraph,
  type OnnxModel,
  type OnnxNode,
  type StoredTensor,
} from './onnx-model.ts'
import { countOf } from './dims.ts'
import { elementType, mostElements } from './followed-values.ts'
import {
  doubles,
  float,
  floats,
  int,
  int32,
  ints,
  MessageReader,
  part,
  parts,
  UnreadableGraph,
  type Fields,
} from '../message-reader.ts'

/** Most elements of a float tensor that are kept: scales of a resize, but not weights. */
const mostFloats = 64
/** Most numbers of an attribute that are kept: axes, shapes, pads, but not the nodes of tree ensembles. */
const mostNumbers = 4096

/**
 * Reads the graph of a model: nodes with attributes, subgraphs, functions, and the elements of small
 * initializers. Large ones are skipped, so that the largest file takes some milliseconds. The graph is the
 * one that ONNX Runtime runs: files that it may read differently are refused.
 *
 * @param source the path of the file, or the bytes of the model.
 * @returns `null` for a model in ONNX Runtime's own format (`.ort`), which only ONNX Runtime can read.
 * @throws UnreadableGraph, `NotReadable`, or the error of Node.js for a file that cannot be opened.
 */
export function readGraph(source: string | Uint8Array): OnnxModel | null {
  if (typeof source !== 'string') return modelIn(new FileWindow(source, source.byteLength))
  return withRegularFileSync(source, (file, byteLength) => modelIn(new FileWindow(file, byteLength)))
}

function modelIn(window: FileWindow): OnnxModel | null {
  if (window.isOrtFormat) return null
  const model = new GraphReader(new MessageReader(window)).model(window.byteLength)
  checkScopes(model)
  return model
}

/** The fields of ONNX's schema (onnx/onnx.proto) that are read, by message. */
const fieldsOf = {
  model: { 7: part, 8: parts, 25: parts },
  // ONNX Runtime truncates versions to 32 bits.
  opset: { 1: part, 2: int32 },
  graph: { 1: parts, 5: parts, 11: parts, 12: parts, 13: parts, 15: parts },
  function: { 1: part, 4: parts, 5: parts, 7: parts, 9: parts, 10: part, 11: parts, 13: part },
  node: { 1: parts, 2: parts, 3: part, 4: part, 5: parts, 7: part, 8: part },
  attribute: {
    1: part, 2: float, 3: int, 4: part, 5: part, 6: part, 7: floats, 8: ints, 9: parts, 10: parts, 11: parts,
    14: part, 15: parts, 20: int32, 21: part, 22: part, 23: parts,
  },
  value: { 1: part, 2: part },
  type: { 1: part, 4: part, 5: part, 7: part, 8: part, 9: part },
  tensorType: { 1: int32, 2: part },
  /** Of a sequence or an optional value. */
  elementType: { 1: part },
  shape: { 1: parts },
  dimension: { 1: int, 2: part },
  tensor: {
    1: ints, 2: int32, 3: part, 4: floats, 5: ints, 6: parts, 7: ints, 8: part, 9: part, 10: doubles,
    11: ints, 14: int32,
  },
  sparseTensor: { 1: part, 2: part, 3: ints },
} as const satisfies Readonly<Record<string, Fields>> // prettier-ignore

/** Types of attributes, by the field with their value. */
const attributeTypes: Readonly<Record<number, number>> = {
  2: 1, 3: 2, 4: 3, 5: 4, 6: 5, 7: 6, 8: 7, 9: 8, 10: 9, 11: 10, 22: 11, 23: 12, 14: 13, 15: 14,
} // prettier-ignore
/** The attributes that define a Constant, and their types. */
const constantTypes: Readonly<Record<string, number>> = {
  value: 4, sparse_value: 11, value_float: 1, value_floats: 6, value_int: 2, value_ints: 7, value_string: 3,
  value_strings: 8,
} // prettier-ignore
/** Attributes with 64-bit integers. For others ONNX Runtime may use 32 bits. */
const wideNumbers: ReadonlySet<string> = new Set(['value_int', 'default_int64'])
/** Boolean attributes. For numbers other than 0 and 1 operators disagree whether they mean true. */
const flags: ReadonlySet<string> = new Set([
  'across_channels', 'allowzero', 'ceil_mode', 'channels_last', 'fmod', 'inverse', 'is_test', 'keepdims',
  'layout', 'new_axis', 'noop_with_empty_axes', 'onesided', 'spatial', 'training_mode', 'transA', 'transB',
  'transBatchA', 'transBatchB',
]) // prettier-ignore
/**
 * Attribute types that need a value. For others a missing value is empty or 0, as some writers omit zeros.
 */
const neverEmpty: ReadonlySet<number> = new Set([4, 5, 11, 13])

/** Reads messages by the numbers of their fields. */
class GraphReader {
  readonly #reader: MessageReader
  #isInFunction = false
  /** Names that nodes take as inputs, anywhere. */
  readonly #taken = new Set<string>()

  constructor(reader: MessageReader) {
    this.#reader = reader
  }

  model(byteLength: number): OnnxModel {
    const opsets = new Map<string, number>()
    const functions = new Map<string, OnnxFunction>()
    const graphs: OnnxGraph[] = []
    this.#reader.read(0, byteLength, fieldsOf.model, (field, _, start, end) => {
      if (field === 7) graphs.push(this.#graph(start, end))
      else if (field === 8) this.#opset(start, end, opsets)
      else {
        const each = this.#function(start, end)
        addOnce(functions, functionKey(each.domain, each.name), each, 'function')
      }
    })
    const graph = graphs[0]
    if (graph === undefined) throw new UnreadableGraph('it has no graph')
    // The declared shape of an output has no effect unless a node uses the output, too. Some exporters
    // declare a single row.
    const lengths = new Map([...graph.lengths].filter(([name]) => this.#taken.has(name)))
    return { opsets, graph: { ...graph, lengths }, functions }
  }

  #opset(start: number, end: number, opsets: Map<string, number>): void {
    let [domain, version] = ['', 0]
    this.#reader.read(start, end, fieldsOf.opset, (field, value, from, to) => {
      if (field === 1) domain = this.#reader.name(from, to)
      else version = value
    })
    const own = plainDomain(domain)
    // skl2onnx gives the same version twice. For different ones ONNX Runtime takes the last.
    if (opsets.get(own) !== version) addOnce(opsets, own, version, 'set of operators')
  }

  #graph(start: number, end: number): OnnxGraph {
    const nodes: OnnxNode[] = []
    const initializers = new Map<string, StoredTensor>()
    const inputs: DeclaredInput[] = []
    const outputs: string[] = []
    const lengths = new Map<string, (readonly (number | null)[])[]>()
    this.#reader.read(start, end, fieldsOf.graph, (field, _, from, to) => {
      if (field === 1) nodes.push(this.#node(from, to))
      else if (field === 11 || field === 12 || field === 13) {
        const { name, type, shapes } = this.#value(from, to)
        if (field === 11) inputs.push({ name, type })
        else if (field === 12) outputs.push(name)
        const fixed = shapes.filter((shape) => shape.some((length) => length !== null))
        if (fixed.length > 0) lengths.set(name, [...(lengths.get(name) ?? []), ...fixed])
      } else {
        const { name, tensor } = field === 5 ? this.#tensor(from, to) : this.#sparse(from, to)
        if (name === '') throw new UnreadableGraph('an initializer has no name')
        addOnce(initializers, name, tensor, 'initializer')
      }
    })
    return { nodes, initializers, inputs, outputs, lengths }
  }

  #function(start: number, end: number): OnnxFunction {
    let [name, domain, overload] = ['', '', '']
    const inputs: string[] = []
    const outputs: string[] = []
    const nodes: OnnxNode[] = []
    const opsets = new Map<string, number>()
    const defaults = new Map<string, Attribute>()
    this.#reader.read(start, end, fieldsOf.function, (field, _, from, to) => {
      if (field === 1) name = this.#reader.name(from, to)
      else if (field === 4) inputs.push(this.#reader.name(from, to))
      else if (field === 5) outputs.push(this.#reader.name(from, to))
      else if (field === 7) {
        this.#isInFunction = true
        nodes.push(this.#node(from, to))
        this.#isInFunction = false
      } else if (field === 9) this.#opset(from, to, opsets)
      else if (field === 10) domain = this.#reader.name(from, to)
      else if (field === 11) this.#attribute(from, to, defaults)
      else overload = this.#reader.name(from, to)
    })
    return {
      name: overloaded(name, overload),
      domain: plainDomain(domain),
      inputs,
      outputs,
      nodes,
      opsets,
      defaults,
    }
  }

  #node(start: number, end: number): OnnxNode {
    let [name, operator, domain, overload] = ['', '', '', '']
    const inputs: string[] = []
    const outputs: string[] = []
    const attributes = new Map<string, Attribute>()
    this.#reader.read(start, end, fieldsOf.node, (field, _, from, to) => {
      if (field === 5) {
        this.#attribute(from, to, attributes)
        return
      }
      const text = this.#reader.name(from, to)
      if (field === 1) {
        inputs.push(text)
        this.#taken.add(text)
      } else if (field === 2) outputs.push(text)
      else if (field === 3) name = text
      else if (field === 4) operator = text
      else if (field === 7) domain = text
      else overload = text
    })
    const node = {
      name,
      operator: overloaded(operator, overload),
      domain: plainDomain(domain),
      inputs,
      outputs,
      attributes,
    }
    // ONNX Runtime takes the first attribute of any Constant, whatever its name and domain.
    if (
      operator === 'Constant' &&
      (node.domain !== '' ||
        attributes.size !== 1 ||
        [...attributes].some(([key, { type }]) => constantTypes[key] !== type))
    )
      throw new UnreadableGraph(
        `Constant '${outputs[0] ?? ''}' does not have exactly one value of its own type`,
      )
    return node
  }

  #attribute(start: number, end: number, attributes: Map<string, Attribute>): void {
    let name = ''
    const numbers: number[] = []
    const fractions: number[] = []
    const strings: string[] = []
    let type = 0
    const held = new Set<number>()
    const scalars: {
      i?: number
      f?: number
      s?: string
      tensor?: StoredTensor
      graph?: OnnxGraph
      reference?: string
    } = {}
    this.#reader.read(start, end, fieldsOf.attribute, (field, value, from, to) => {
      if (attributeTypes[field] !== undefined) held.add(attributeTypes[field])
      if (field === 1) name = this.#reader.name(from, to)
      else if (field === 2) scalars.f = value
      else if (field === 3) scalars.i = value
      else if (field === 4) scalars.s = this.#reader.text(from, to)
      else if (field === 5) scalars.tensor = this.#tensor(from, to).tensor
      else if (field === 6) scalars.graph = this.#graph(from, to)
      else if (field === 7) this.#reader.addNumbers(fractions, mostNumbers, floats, value, from, to)
      else if (field === 8) this.#reader.addNumbers(numbers, mostNumbers, ints, value, from, to)
      else if (field === 9) strings.push(strings.length > mostNumbers ? '' : this.#reader.text(from, to))
      else if (field === 20) type = value
      else if (field === 21 && to > from) scalars.reference = this.#reader.name(from, to)
    })
    if (type < 1 || type > 14 || [...held].some((each) => each !== type))
      throw new UnreadableGraph(`attribute '${name}' is of type ${type}, but has a value of another type`)
    if (scalars.reference !== undefined && (!this.#isInFunction || held.size > 0))
      throw new UnreadableGraph(
        `attribute '${name}' takes its value from around a function, ${this.#isInFunction ? 'and has one of its own' : 'and is in none'}`,
      )
    if (scalars.reference === undefined && neverEmpty.has(type) && held.size === 0)
      throw new UnreadableGraph(`attribute '${name}' has no value`)
    if (type === 1) scalars.f ??= 0
    if (type === 2) scalars.i ??= 0
    if (type === 3) scalars.s ??= ''
    if (scalars.i !== undefined && scalars.i !== (scalars.i | 0) && !wideNumbers.has(name))
      throw new UnreadableGraph(`attribute '${name}' is ${scalars.i}, which has more than 32 bits`)
    if (
      type === 2 &&
      flags.has(name) &&
      scalars.reference === undefined &&
      scalars.i !== 0 &&
      scalars.i !== 1
    )
      throw new UnreadableGraph(`attribute '${name}' is ${scalars.i}, where it should be 0 or 1`)
    const few = <T>(list: readonly T[]): readonly T[] | undefined =>
      list.length > mostNumbers ? undefined : list
    addOnce(
      attributes,
      name,
      { ...scalars, type, ints: few(numbers), floats: few(fractions), strings: few(strings) },
      'attribute',
    )
  }

  /**
   * The name of a value, its type, and its shapes: one for a tensor; those of the contained tensors for other
   * values.
   */
  #value(start: number, end: number): DeclaredInput & { shapes: (number | null)[][] } {
    let [name, type] = ['', 0]
    const shapes: (number | null)[][] = []
    this.#reader.read(start, end, fieldsOf.value, (field, _, from, to) => {
      if (field === 1) name = this.#reader.name(from, to)
      else type = this.#type(from, to, shapes)
    })
    return { name, type, shapes }
  }

  #type(start: number, end: number, shapes: (number | null)[][]): number {
    let type = 0
    let kinds = 0
    this.#reader.read(start, end, fieldsOf.type, (kind, _, from, to) => {
      if (++kinds > 1) throw new UnreadableGraph(`the value of the type at byte ${start} is of several types`)
      if (kind === 1) {
        this.#reader.read(from, to, fieldsOf.tensorType, (field, value, at, until) => {
          if (field === 1) type = value
          else shapes.push(this.#shape(at, until))
        })
      } else if (kind === 4 || kind === 9)
        this.#reader.read(
          from,
          to,
          fieldsOf.elementType,
          (__, ___, at, until) => void this.#type(at, until, shapes),
        )
    })
    return type
  }

  #shape(start: number, end: number): (number | null)[] {
    const shape: (number | null)[] = []
    this.#reader.read(start, end, fieldsOf.shape, (_, __, from, to) => {
      const lengths: (number | null)[] = []
      this.#reader.read(from, to, fieldsOf.dimension, (field, value) =>
        lengths.push(field === 1 && value >= 0 ? value : null),
      )
      if (lengths.length > 1) throw new UnreadableGraph(`the dimension at byte ${from} has several lengths`)
      shape.push(lengths[0] ?? null)
    })
    return shape
  }

  #sparse(start: number, end: number): { name: string; tensor: StoredTensor } {
    let [name, type] = ['', 0]
    const dims: number[] = []
    this.#reader.read(start, end, fieldsOf.sparseTensor, (field, value, from, to) => {
      if (field === 1) {
        const values = this.#tensor(from, to)
        name = values.name
        type = values.tensor.type
      } else if (field === 3) this.#reader.addNumbers(dims, mostNumbers, ints, value, from, to)
    })
    return { name, tensor: { type, dims, elements: null } }
  }

  #tensor(start: number, end: number): { name: string; tensor: StoredTensor } {
    let [name, type] = ['', 0]
    const dims: number[] = []
    const listed: number[] = []
    const sources = new Set<number>() // fields that have elements
    let raw: { start: number; end: number } | null = null
    let isExternal = false // in an external file, which may have been replaced
    this.#reader.read(start, end, fieldsOf.tensor, (field, value, from, to) => {
      if (field === 1) this.#reader.addNumbers(dims, mostNumbers, ints, value, from, to)
      else if (field === 2) type = value
      else if (field === 8) name = this.#reader.name(from, to)
      else if (field === 14) isExternal = value === 1
      else {
        sources.add(field)
        if (field === 9) raw = { start: from, end: to }
        else if (field !== 6) {
          const kind = (fieldsOf.tensor as Fields)[field]!
          this.#reader.addNumbers(listed, mostElements, kind, value, from, to)
        }
      }
    })
    if (sources.size > 1 || [...sources].some((field) => field !== 9 && field !== (listedIn[type] ?? 5)))
      throw new UnreadableGraph(`tensor '${name}' has elements in several fields, or not in that of its type`)
    if (dims.some((dim) => !Number.isSafeInteger(dim) || dim < 0))
      throw new UnreadableGraph(`tensor '${name}' has the dimensions [${dims.join(', ')}]`)
    const isFloat = type === elementType.float32 || type === elementType.float64
    const count = countOf(dims)
    const isKept = count <= (isFloat ? mostFloats : mostElements) && !isExternal
    return {
      name,
      tensor: {
        type,
        dims,
        elements: isKept ? checked(type, count, raw === null ? listed : this.#raw(type, count, raw)) : null,
      },
    }
  }

  #raw(type: number, count: number, { start, end }: { start: number; end: number }): number[] | null {
    if (numeric[type] === undefined) return null
    const [, , size, read] = numeric[type]
    if (end - start !== size * count) return null
    const bytes = this.#reader.bytes(start, end)
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    return Array.from({ length: count }, (_, index) => read(view, index * size))
  }
}

/** Of several equal names ONNX Runtime uses the last, or none. */
function addOnce<T>(map: Map<string, T>, name: string, value: T, what: string): void {
  if (map.has(name)) throw new UnreadableGraph(`${what} '${name}' comes twice`)
  map.set(name, value)
}

/** A name that is unique for each name and overload of functions. */
function overloaded(name: string, overload: string): string {
  return overload === '' ? withoutColon(name) : `${withoutColon(name)}:${withoutColon(overload)}`
}

function plainDomain(domain: string): string {
  return domain === 'ai.onnx' ? '' : withoutColon(domain)
}

/** Domains, names and overloads are joined by colons, here and in ONNX Runtime. */
function withoutColon(name: string): string {
  if (name.includes(':'))
    throw new UnreadableGraph(`the name '${name}' of an operator or a domain has a colon`)
  return name
}

/** The field with the elements of a type if they are not raw bytes (`float_data`, `int64_data`, ...), if not 5. */
const listedIn: Readonly<Record<number, number>> = {
  [elementType.float32]: 4, 14: 4, [elementType.string]: 6, [elementType.int64]: 7, [elementType.float64]: 10, 15: 10,
  [elementType.uint32]: 11, [elementType.uint64]: 11,
} // prettier-ignore

/** Types with plain numeric elements: smallest and largest number, bytes of one, and how it is read. */
const numeric: Readonly<
  Record<
    number,
    readonly [least: number, most: number, size: number, read: (view: DataView, at: number) => number]
  >
> = {
  [elementType.float32]: [-Infinity, Infinity, 4, (view, at) => view.getFloat32(at, true)],
  [elementType.float64]: [-Infinity, Infinity, 8, (view, at) => view.getFloat64(at, true)],
  [elementType.bool]: [0, 1, 1, (view, at) => view.getUint8(at)],
  [elementType.uint8]: [0, 2 ** 8 - 1, 1, (view, at) => view.getUint8(at)],
  [elementType.int8]: [-(2 ** 7), 2 ** 7 - 1, 1, (view, at) => view.getInt8(at)],
  [elementType.uint16]: [0, 2 ** 16 - 1, 2, (view, at) => view.getUint16(at, true)],
  [elementType.int16]: [-(2 ** 15), 2 ** 15 - 1, 2, (view, at) => view.getInt16(at, true)],
  [elementType.uint32]: [0, 2 ** 32 - 1, 4, (view, at) => view.getUint32(at, true)],
  [elementType.int32]: [-(2 ** 31), 2 ** 31 - 1, 4, (view, at) => view.getInt32(at, true)],
  [elementType.uint64]: [0, 2 ** 64, 8, (view, at) => Number(view.getBigUint64(at, true))],
  [elementType.int64]: [-(2 ** 63), 2 ** 63, 8, (view, at) => Number(view.getBigInt64(at, true))],
}

/**
 * The elements, if their count is right and each fits its type; otherwise `null`, as ONNX Runtime wraps
 * others around.
 */
function checked(type: number, count: number, elements: readonly number[] | null): readonly number[] | null {
  if (numeric[type] === undefined || elements?.length !== count) return null
  const [least, most] = numeric[type]
  return elements.some((element) => element < least || element > most) ? null : elements
}
