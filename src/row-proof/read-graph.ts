import { FileWindow } from '../onnx-file/file-window.ts'
import { withRegularFileSync } from '../regular-file.ts'
import { functionKey, type Attribute, type DeclaredInput, type OnnxFunction, type OnnxGraph, type OnnxModel, type OnnxNode, type StoredTensor } from './onnx-model.ts'
import { elementType, mostElements } from './followed-values.ts'

/** A file that is no ONNX model, or one beyond all limits. */
export class UnreadableGraph extends Error {
  override readonly name = 'UnreadableGraph'
}

/** Messages in each other, and fields of a file: a graph of 100 000 operators has about 3 million. */
const deepest = 100
const mostFields = 10_000_000
/** Characters of a name. */
const mostText = 65_536
/** Elements of a tensor of fractions that are kept: scales of a resize, not weights. */
const mostFloats = 64
/** Numbers of an attribute that are kept: axes, shapes, pads; the nodes of a forest of trees are not. */
const mostNumbers = 4096

/**
 * Reads the graph of a model: nodes and their attributes, subgraphs, functions, and the elements of small initializers. Large ones
 * are jumped over, so that the largest file takes some milliseconds.
 *
 * @param source the path of the file, or the bytes of the model.
 * @returns `null` for a model in ONNX Runtime's own format (`.ort`), which only that can read.
 * @throws UnreadableGraph, `NotReadable`, or the error of Node.js for a file that cannot be opened.
 */
export function readGraph(source: string | Uint8Array): OnnxModel | null {
  if (typeof source !== 'string') return new GraphReader(new FileWindow(source, source.byteLength)).model()
  return withRegularFileSync(source, (file, byteLength) => new GraphReader(new FileWindow(file, byteLength)).model())
}

/** Fields that hold fractions, of 4 or 8 bytes, by message. */
const attributeFractions = [2, 7]
const tensorFractions = [4, 10]

/** The place of a number, which holds nothing. */
const notHeld = -1

/** A field of a message: its number, and its value or the place of it. */
type Visit = (field: number, value: number, start: number, end: number) => void

/** Reads messages of ONNX's schema (onnx/onnx.proto) by the numbers of their fields. */
class GraphReader {
  readonly #window: FileWindow
  readonly #float = new DataView(new ArrayBuffer(8))
  #at = 0
  #fields = 0
  #depth = 0

  constructor(window: FileWindow) {
    this.#window = window
  }

  model(): OnnxModel | null {
    const window = this.#window
    if (window.byteLength >= 8 && window.copy(4, 8).toString('latin1') === 'ORTM') return null
    const opsets = new Map<string, number>()
    const functions = new Map<string, OnnxFunction>()
    let graph: OnnxGraph | null = null
    this.#read(0, window.byteLength, (field, _, start, end) => {
      if (field === 7) graph = this.#once(graph, this.#graph(start, end))
      else if (field === 8) this.#opset(start, end, opsets)
      else if (field === 25) {
        const each = this.#function(start, end)
        functions.set(functionKey(each.domain, each.name), each)
      }
    })
    if (graph === null) throw new UnreadableGraph('it has no graph')
    return { opsets, graph, functions }
  }

  #opset(start: number, end: number, opsets: Map<string, number>): void {
    let [domain, version] = ['', 0]
    this.#read(start, end, (field, value, from, to) => {
      if (field === 1) domain = this.#text(from, to)
      else if (field === 2) version = value
    })
    opsets.set(plainDomain(domain), version)
  }

  #graph(start: number, end: number): OnnxGraph {
    const nodes: OnnxNode[] = []
    const initializers = new Map<string, StoredTensor>()
    const inputs: DeclaredInput[] = []
    const outputs: string[] = []
    this.#read(start, end, (field, _, from, to) => {
      if (field === 1) nodes.push(this.#node(from, to))
      else if (field === 5) this.#addTensor(initializers, from, to)
      else if (field === 11) inputs.push(this.#input(from, to))
      else if (field === 12) outputs.push(this.#input(from, to).name)
      else if (field === 15) this.#addSparse(initializers, from, to)
    })
    return { nodes, initializers, inputs, outputs }
  }

  #function(start: number, end: number): OnnxFunction {
    let [name, domain, overload] = ['', '', '']
    const inputs: string[] = []
    const outputs: string[] = []
    const nodes: OnnxNode[] = []
    const opsets = new Map<string, number>()
    const defaults = new Map<string, Attribute>()
    this.#read(start, end, (field, _, from, to) => {
      if (field === 1) name = this.#text(from, to)
      else if (field === 4) inputs.push(this.#text(from, to))
      else if (field === 5) outputs.push(this.#text(from, to))
      else if (field === 7) nodes.push(this.#node(from, to))
      else if (field === 9) this.#opset(from, to, opsets)
      else if (field === 10) domain = this.#text(from, to)
      else if (field === 11) this.#attribute(from, to, defaults)
      else if (field === 13) overload = this.#text(from, to)
    })
    return { name: overloaded(name, overload), domain: plainDomain(domain), inputs, outputs, nodes, opsets, defaults }
  }

  #node(start: number, end: number): OnnxNode {
    let [name, operator, domain, overload] = ['', '', '', '']
    const inputs: string[] = []
    const outputs: string[] = []
    const attributes = new Map<string, Attribute>()
    this.#read(start, end, (field, _, from, to) => {
      if (field === 1) inputs.push(this.#text(from, to))
      else if (field === 2) outputs.push(this.#text(from, to))
      else if (field === 3) name = this.#text(from, to)
      else if (field === 4) operator = this.#text(from, to)
      else if (field === 5) this.#attribute(from, to, attributes)
      else if (field === 7) domain = this.#text(from, to)
      else if (field === 8) overload = this.#text(from, to)
    })
    return { name, operator: overloaded(operator, overload), domain: plainDomain(domain), inputs, outputs, attributes }
  }

  #attribute(start: number, end: number, attributes: Map<string, Attribute>): void {
    let name = ''
    const ints: number[] = []
    const floats: number[] = []
    const strings: string[] = []
    let type = 0
    const scalars: { i?: number; f?: number; s?: string; tensor?: StoredTensor; graph?: OnnxGraph; reference?: string } = {}
    this.#read(start, end, (field, value, from, to) => {
      if (field === 1) name = this.#text(from, to)
      else if (field === 2) scalars.f = value
      else if (field === 3) scalars.i = value
      else if (field === 4) scalars.s = this.#text(from, to)
      else if (field === 5) scalars.tensor = this.#once(scalars.tensor, this.#tensor(from, to).tensor)
      else if (field === 6) scalars.graph = this.#once(scalars.graph, this.#graph(from, to))
      else if (field === 7) this.#numbers(floats, value, from, to, 5)
      else if (field === 8) this.#numbers(ints, value, from, to, 0)
      else if (field === 9) strings.push(this.#text(from, Math.min(to, from + 64)))
      else if (field === 20) type = value
      else if (field === 21) scalars.reference = this.#text(from, to)
      // The rest of a long list does not count, but for what says of which type it is.
    }, attributeFractions)
    if (type === 1) scalars.f ??= 0 // some writers leave out what is 0
    if (type === 2) scalars.i ??= 0
    if (type === 3) scalars.s ??= ''
    const holds = [scalars.f, scalars.i, scalars.s, scalars.tensor, scalars.graph, floats[0], ints[0], strings[0]].flatMap((each, index) => (each === undefined ? [] : [index + 1]))
    if (holds.some((each) => type !== 0 && each !== type)) throw new UnreadableGraph(`attribute '${name}' is of type ${type}, and has a value of another`)
    const few = <T>(list: readonly T[]): readonly T[] | undefined => (list.length > mostNumbers ? undefined : list)
    attributes.set(name, { ...scalars, ints: few(ints), floats: few(floats), strings: few(strings) })
  }

  #input(start: number, end: number): DeclaredInput {
    let name = ''
    let type = 0
    let shape: (number | string)[] | null = null
    this.#read(start, end, (field, _, from, to) => {
      if (field === 1) name = this.#text(from, to)
      else if (field === 2) {
        this.#read(from, to, (kind, __, at, until) => {
          if (kind !== 1) return
          this.#read(at, until, (part, value, first, last) => {
            if (part === 1) type = value
            else if (part === 2) shape = this.#once(shape, this.#shape(first, last))
          })
        })
      }
    })
    return { name, type, shape }
  }

  #shape(start: number, end: number): (number | string)[] {
    const shape: (number | string)[] = []
    this.#read(start, end, (field, _, from, to) => {
      if (field !== 1) return
      let dim: number | string = ''
      this.#read(from, to, (kind, value, first, last) => {
        if (kind === 1) dim = value < 0 ? '' : value
        else if (kind === 2) dim = this.#text(first, last)
      })
      shape.push(dim)
    })
    return shape
  }

  #addTensor(initializers: Map<string, StoredTensor>, start: number, end: number): void {
    const { name, tensor } = this.#tensor(start, end)
    initializers.set(name, tensor)
  }

  #addSparse(initializers: Map<string, StoredTensor>, start: number, end: number): void {
    const dims: number[] = []
    let values: { name: string; tensor: StoredTensor } | null = null
    this.#read(start, end, (field, value, from, to) => {
      if (field === 1) values = this.#tensor(from, to)
      else if (field === 3) this.#numbers(dims, value, from, to, 0)
    })
    const { name, tensor } = values ?? { name: '', tensor: { type: 0, dims, elements: null } }
    initializers.set(name, { type: tensor.type, dims, elements: null })
  }

  #tensor(start: number, end: number): { name: string; tensor: StoredTensor } {
    let name = ''
    let type = 0
    const dims: number[] = []
    const listed: number[] = []
    const narrow: number[] = []
    let raw: { start: number; end: number } | null = null
    let isExternal = false // in a file beside the model, which may be another one by now
    this.#read(start, end, (field, value, from, to) => {
      if (field === 1) this.#numbers(dims, value, from, to, 0)
      else if (field === 2) type = value
      else if (field === 4) this.#numbers(listed, value, from, to, 5)
      else if (field === 5) this.#numbers(narrow, value, from, to, 0)
      else if (field === 7 || field === 11) this.#numbers(listed, value, from, to, 0)
      else if (field === 8) name = this.#text(from, to)
      else if (field === 9) raw = { start: from, end: to }
      else if (field === 10) this.#numbers(listed, value, from, to, 1)
      else if (field === 14) isExternal = value === 1
    }, tensorFractions)
    for (const each of narrow) listed.push(Number(BigInt.asIntN(32, BigInt(each)))) // as protobuf reads them
    const count = dims.reduce((sum, dim) => sum * dim, 1)
    const isSmall = count <= (isFloat(type) ? mostFloats : mostElements) && type !== elementType.string
    const elements = !isSmall ? null : isExternal ? null : raw === null ? (listed.length === count && isPlain(type) ? listed.map((each) => (type === elementType.bool ? Number(each !== 0) : each)) : null) : this.#rawElements(type, count, raw)
    return { name, tensor: { type, dims, elements } }
  }

  #rawElements(type: number, count: number, { start, end }: { start: number; end: number }): number[] | null {
    if (start === notHeld) throw new UnreadableGraph('a number stands where bytes should')
    return decoded(type, count, this.#window.copy(start, Math.min(end, start + 8 * mostElements)))
  }

  /** One number, or several that are packed: of 64 or 32 bits, or of any length. */
  #numbers(list: number[], value: number, start: number, end: number, kind: 0 | 1 | 5): void {
    if (start === notHeld) {
      list.push(value)
      return
    }
    if (kind === 0) {
      this.#at = start
      while (this.#at < end && list.length <= mostNumbers) list.push(this.#number(end))
      return
    }
    const size = kind === 1 ? 8 : 4
    for (let at = start; at + size <= end && list.length <= mostNumbers; at += size) list.push(this.#fixed(at, size))
  }

  #fixed(at: number, size: 4 | 8): number {
    for (let byte = 0; byte < size; byte++) this.#float.setUint8(byte, this.#window.byteAt(at + byte))
    return size === 8 ? this.#float.getFloat64(0, true) : this.#float.getFloat32(0, true)
  }

  /** Protobuf merges messages that come twice in one field, which nobody writes and this does not. */
  #once<T>(earlier: T | null | undefined, read: T): T {
    if (earlier !== null && earlier !== undefined) throw new UnreadableGraph('a message comes twice where there is room for one')
    return read
  }

  /**
   * Goes through the fields of a message. A number is its value, and has no place ({@link notHeld}); what holds something has its
   * place.
   *
   * @param fractions fields that have 4 or 8 bytes; no others have.
   */
  #read(start: number, end: number, visit: Visit, fractions: readonly number[] = []): void {
    if (start === notHeld) throw new UnreadableGraph('a number stands where a message should')
    if (++this.#depth > deepest) throw new UnreadableGraph(`messages lie in each other more than ${deepest} deep`)
    for (let at = start; at < end; ) {
      if (++this.#fields > mostFields) throw new UnreadableGraph(`it has more than ${mostFields} fields`)
      this.#at = at
      const tag = this.#number(end)
      const field = Math.floor(tag / 8)
      const wire = tag % 8
      if (field <= 0) throw new UnreadableGraph(`byte ${at} begins no field`)
      let value = 0
      let next = this.#at
      if (wire === 0) {
        value = this.#number(end)
        next = this.#at
      } else if (wire === 2) {
        const length = this.#number(end)
        if (length < 0) throw new UnreadableGraph(`field ${field} at byte ${at} has a length below 0`)
        next = this.#at + length
      } else if (wire === 1 || wire === 5) {
        const size = wire === 1 ? 8 : 4
        next = this.#at + size
        if (next <= end) value = this.#fixed(this.#at, size)
      } else throw new UnreadableGraph(`field ${field} at byte ${at} is of kind ${wire}, which no ONNX model has`)
      if (next > end) throw new UnreadableGraph(`field ${field} at byte ${at} goes on beyond byte ${end}`)
      // Protobuf takes a field of another kind for one that it does not know.
      if (wire !== 2 && fractions.includes(field) !== (wire !== 0)) throw new UnreadableGraph(`field ${field} at byte ${at} is of kind ${wire}, which is not its own`)
      if (wire === 2) visit(field, value, this.#at, next)
      else visit(field, value, notHeld, notHeld)
      at = next
    }
    this.#depth--
  }

  /** Of up to 64 bits with a sign, in 7 bits a byte; beyond 2^53 about as large as it is. */
  #number(limit: number): number {
    let low = 0
    let high = 0
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.#at >= limit) throw new UnreadableGraph(`a number goes on beyond byte ${limit}`)
      const byte = this.#window.byteAt(this.#at++)
      if ((byte === 0 && shift > 0) || (shift === 63 && byte > 1 && byte < 0x80)) throw new UnreadableGraph(`a number before byte ${this.#at} is not written as protobuf writes it`)
      const bits = byte & 0x7f
      if (shift < 28) low += bits * 2 ** shift
      else if (shift === 28) {
        low += (bits & 0xf) * 2 ** 28
        high += bits >> 4
      } else high += bits * 2 ** (shift - 32)
      if (byte < 0x80) return (high % 2 ** 32 | 0) * 2 ** 32 + low
    }
    throw new UnreadableGraph(`a number before byte ${this.#at} has more than 10 bytes`)
  }

  #text(start: number, end: number): string {
    if (start === notHeld) throw new UnreadableGraph('a number stands where a text should')
    if (end - start > mostText) throw new UnreadableGraph(`a name at byte ${start} has more than ${mostText} bytes`)
    return this.#window.copy(start, end).toString()
  }
}

/** A name that only functions of that name and overload have. */
function overloaded(name: string, overload: string): string {
  return overload === '' ? name : `${name}:${overload}`
}

function plainDomain(domain: string): string {
  return domain === 'ai.onnx' ? '' : domain
}

function isFloat(type: number): boolean {
  return type === elementType.float32 || type === elementType.float64
}

/** Whether its elements are listed as the numbers that they are. */
function isPlain(type: number): boolean {
  return type !== elementType.float16 && type !== elementType.bfloat16 && type <= elementType.uint64
}

const sizes: Readonly<Record<number, number>> = { 1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 11: 8, 12: 4, 13: 8 }

/** The elements of a tensor out of its bytes; `null` for types that are no plain numbers, or where bytes are missing. */
function decoded(type: number, count: number, bytes: Buffer): number[] | null {
  const size = sizes[type]
  if (size === undefined || bytes.length < size * count) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const read = (at: number): number => {
    switch (type) {
      case elementType.float32: return view.getFloat32(at, true)
      case elementType.int8: return view.getInt8(at)
      case elementType.uint16: return view.getUint16(at, true)
      case elementType.int16: return view.getInt16(at, true)
      case elementType.int32: return view.getInt32(at, true)
      case elementType.int64: return Number(view.getBigInt64(at, true))
      case elementType.float64: return view.getFloat64(at, true)
      case elementType.uint32: return view.getUint32(at, true)
      case elementType.uint64: return Number(view.getBigUint64(at, true))
      case elementType.bool: return Number(view.getUint8(at) !== 0)
      default: return view.getUint8(at)
    }
  }
  return Array.from({ length: count }, (_, index) => read(index * size))
}
