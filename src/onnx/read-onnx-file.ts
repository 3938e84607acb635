import { realpathSync, statSync } from 'node:fs'
import { basename, dirname, isAbsolute, relative, resolve, sep } from 'node:path'
import { withRegularFile } from '../base/files.ts'
import { InferenceError } from '../errors.ts'
import { bitsOfType, nameOfType, typeNumbers } from '../tensor/elements.ts'
import { FileWindow } from './file-window.ts'
import { otherFormat, tellingBytes } from './other-format.ts'
import {
  type Dimension,
  MalformedFile,
  type Messages,
  type Parts,
  type Span,
  type TypeProto,
  WireReader,
} from './wire-reader.ts'

/** Number and size of tensors. */
export interface TensorTotals {
  readonly tensors: number
  /** Number of elements. */
  readonly elements: number
  /** Bytes of the elements, wherever they are stored. */
  readonly byteLength: number
}

/** The content of a model file, without weights. */
export interface OnnxFile {
  /** Absolute path. */
  readonly path: string
  /** Bytes of the file, without external files. */
  readonly byteLength: number
  /** Version of the file format. */
  readonly irVersion: number
  /** Versions of the operator sets, by domain; `ai.onnx` is ONNX's own. */
  readonly opsets: Readonly<Record<string, number>>
  readonly producer: { readonly name: string; readonly version: string }
  /** Domain of the model itself, such as `com.example`. */
  readonly domain: string
  readonly modelVersion: number
  /** Cut to 64 KiB; so are the values of `metadata`. */
  readonly description: string
  readonly metadata: Readonly<Record<string, string>>
  readonly graphName: string
  /** The inputs that a request has to give. */
  readonly inputs: readonly DeclaredValue[]
  readonly outputs: readonly DeclaredValue[]
  /**
   * Inputs that are also initializers: they have a default value. Requests may give another one if
   * `optionalInputs` or `inputs` name them.
   */
  readonly initializedInputs: readonly DeclaredValue[]
  /**
   * Number of calls of each operator, including those in branches, loops and functions. The name has the
   * domain unless it is ONNX's own.
   */
  readonly operators: Readonly<Record<string, number>>
  /** Functions that the model defines. They are called like operators. */
  readonly functions: readonly string[]
  /** Initializers, usually the learnt parameters. */
  readonly parameters: TensorTotals
  /** Tensors in attributes of operators, such as `Constant`. */
  readonly constants: TensorTotals
  /** Files with tensors, besides the model. */
  readonly externalFiles: readonly ExternalFile[]
}

/** Longest text kept, in bytes; longer ones are cut. */
const mostText = 65_536
/** Most entries of a model's metadata. */
const mostEntries = 100_000

/**
 * Reads a model file without its weights, so that the largest file takes some milliseconds. It does not load
 * ONNX Runtime.
 *
 * @returns `null` for a file in ONNX Runtime's own format (`.ort`), which only ONNX Runtime can read.
 * @throws InferenceError `ERR_MODEL_LOAD` for a file that is no ONNX model, or is truncated. `NotReadable`
 * for what is no file, or the error of Node.js, such as `ENOENT`.
 */
export function readOnnxFile(path: string): Promise<OnnxFile | null> {
  const absolute = resolve(path)
  return withRegularFile(absolute, ({ fd }, byteLength) => {
    const window = new FileWindow(fd, byteLength)
    try {
      if (window.isOrtFormat) return null
      const other = otherFormat(window.copy(0, Math.min(tellingBytes, byteLength)))
      if (other !== null) throw new MalformedFile(other)
      return readModel(absolute, window)
    } catch (error) {
      if (error instanceof MalformedFile || error instanceof RangeError) throw unreadable(absolute, error)
      throw error
    }
  })
}

/** What {@link readOnnxFile} says of a file, or of bytes, that are no ONNX model; `null` if they are one. */
export async function whyUnreadable({
  path,
  bytes,
}: {
  readonly path: string
  readonly bytes: SharedArrayBuffer | null
}): Promise<string | null> {
  try {
    if (bytes === null) await readOnnxFile(path)
    else readModel('', new FileWindow(new Uint8Array(bytes), bytes.byteLength))
    return null
  } catch (error) {
    const { cause } = error instanceof InferenceError ? error : { cause: error }
    return cause instanceof MalformedFile ? sentence(cause) : null
  }
}

const sentence = (cause: Error): string => `it is not a readable ONNX model: ${cause.message}`

function readModel(path: string, window: FileWindow): OnnxFile {
  const reader = new WireReader(window)
  const walk = new GraphWalk(reader)
  const metadata = new Map<string, string>()
  let description = ''
  let graphName = null as string | null
  const { irVersion, producerName, producerVersion, domain, modelVersion, opsetImport } = reader.read(
    'ModelProto',
    { start: 0, end: window.byteLength },
    {
      6: (part) => (description = reader.text(part, mostText)),
      7: (part) => (graphName = walk.main(part)),
      14: (part) => addEntry(reader, part, metadata),
      25: (part) => walk.function(part),
    },
  )
  if (graphName === null)
    throw new MalformedFile(`it has no graph${window.byteLength === 0 ? ', and no other byte' : ''}`)
  const { initializers } = walk
  return {
    path,
    byteLength: window.byteLength,
    irVersion,
    opsets: Object.fromEntries(opsetImport.map((opset) => [opset.domain || onnxDomain, opset.version])),
    producer: { name: producerName, version: producerVersion },
    domain,
    modelVersion,
    description,
    metadata: Object.fromEntries(metadata),
    graphName,
    inputs: walk.inputs.filter(({ name }) => !initializers.has(name)),
    outputs: walk.outputs,
    initializedInputs: walk.inputs.filter(({ name }) => initializers.has(name)),
    operators: Object.fromEntries(
      [...walk.operators].sort(([a, often], [b, times]) => times - often || (a < b ? -1 : 1)),
    ),
    functions: walk.functions,
    parameters: walk.parameters,
    constants: walk.constants,
    externalFiles: findExternalFiles(path, walk.files),
  }
}

function addEntry(reader: WireReader, span: Span, metadata: Map<string, string>): void {
  let [key, value] = ['', '']
  reader.read('Container', span, {
    1: (part) => (key = reader.text(part, mostText)),
    2: (part) => (value = reader.text(part, mostText)),
  })
  metadata.set(key, value)
  if (metadata.size > mostEntries)
    throw new MalformedFile(`its metadata has more than ${mostEntries} entries`)
}

function unreadable(path: string, cause: Error): InferenceError {
  const model = basename(path)
  return new InferenceError('ERR_MODEL_LOAD', `Model '${model}' cannot be loaded from ${path}: ${sentence(cause)}`, {
    model, name: 'path', expected: 'an ONNX model', received: path, cause,
  }) // prettier-ignore
}

/** Most inputs, outputs, initializers, functions and operators remembered of a file, each. */
const mostRemembered = 1_000_000

/** One of the two names of ONNX's own operator domain. */
const onnxDomain = 'ai.onnx'

/** Walks through graphs, their branches and bodies, and functions, and counts their content. */
class GraphWalk {
  readonly inputs: DeclaredValue[] = []
  readonly outputs: DeclaredValue[] = []
  readonly initializers = new Set<string>()
  readonly operators = new Map<string, number>()
  readonly functions: string[] = []
  /** The size that each external file must have, by its path in the model. */
  readonly files = new Map<string, number>()
  readonly parameters = { tensors: 0, elements: 0, byteLength: 0 }
  readonly constants = { tensors: 0, elements: 0, byteLength: 0 }
  readonly #reader: WireReader

  constructor(reader: WireReader) {
    this.#reader = reader
  }

  /** Walks through the model's main graph; returns its name. */
  main(span: Span): string {
    const reader = this.#reader
    const value = (values: DeclaredValue[]) => (part: Span) => {
      values.push(declaredValue(reader.read('ValueInfoProto', part)))
      checkCount(values.length, 'inputs or outputs')
    }
    const { name } = reader.read('GraphProto', span, {
      ...this.#content((initializer) => {
        this.initializers.add(initializer)
        checkCount(this.initializers.size, 'initializers')
      }),
      11: value(this.inputs),
      12: value(this.outputs),
    })
    return name
  }

  /** Walks through a function, which is called like an operator. */
  function(span: Span): void {
    const { name, domain } = this.#reader.read('FunctionProto', span, { 7: (node) => this.#node(node) })
    this.functions.push(operatorName(name, domain))
    checkCount(this.functions.length, 'functions')
  }

  /** Nodes, initializers and sparse initializers of a graph. */
  #content(initializer: (name: string) => void): Parts {
    const tensor = (part: Span) => initializer(this.#tensor(part, this.parameters))
    return {
      1: (node) => this.#node(node),
      5: tensor,
      15: (sparse) => void this.#reader.read('Container', sparse, { 1: tensor }), // the values; the indices are no parameters
    }
  }

  #node(span: Span): void {
    const { opType, domain } = this.#reader.read('NodeProto', span, {
      5: (attribute) => this.#attribute(attribute),
    })
    const name = operatorName(opType, domain)
    this.operators.set(name, (this.operators.get(name) ?? 0) + 1)
    checkCount(this.operators.size, 'operators')
  }

  /** An attribute has one value. A list of numbers may have millions, so only its first is read. */
  #attribute(span: Span): void {
    const tensor = (part: Span) => void this.#tensor(part, this.constants)
    const graph = (part: Span) =>
      void this.#reader.read(
        'Container',
        part,
        this.#content(() => {}),
      )
    const sparse = (part: Span) => void this.#reader.read('Container', part, { 1: tensor })
    const plain = 'last'
    this.#reader.read('Container', span, {
      2: plain, 3: plain, 4: plain, 7: plain, 8: plain, 9: plain,
      5: tensor, 6: graph, 10: tensor, 11: graph, 22: sparse, 23: sparse,
    }) // prettier-ignore
  }

  /** Counts the tensor at a place, without reading its values, and returns its name. */
  #tensor(span: Span, totals: GraphWalk['parameters']): string {
    let textBytes = 0
    const { name, dims, dataType, externalData, dataLocation } = this.#reader.read('TensorProto', span, {
      6: ({ start, end }) => (textBytes += end - start), // string_data
    })
    const elements = dims.reduce((product, dim) => product * dim, 1)
    if (dims.some((dim) => dim < 0) || !Number.isSafeInteger(elements)) {
      throw new MalformedFile(
        `tensor '${name}' at byte ${span.start} has the shape [${dims.slice(0, 10).join(', ')}]`,
      )
    }
    const byteLength =
      dataType === typeNumbers.string ? textBytes : Math.ceil((elements * bitsOfType(dataType)) / 8)
    totals.tensors++
    totals.elements += elements
    totals.byteLength += byteLength
    if (dataLocation === 1) this.#needsFile(externalData, byteLength)
    return name
  }

  /** @param byteLength of the tensor; used if the file does not give its length in the external file. */
  #needsFile(entries: Messages['TensorProto']['externalData'], byteLength: number): void {
    const said = Object.fromEntries(entries.map(({ key, value }) => [key, value]))
    const location = said['location'] ?? ''
    const end = wholeNumber(said['offset'], 0) + wholeNumber(said['length'], byteLength)
    this.files.set(location, Math.max(end, this.files.get(location) ?? 0))
    if (this.files.size > mostFiles) throw new MalformedFile(`it names more than ${mostFiles} files`)
  }
}

/** Most files that a model may name. */
const mostFiles = 100_000

function operatorName(name: string, domain: string): string {
  return domain === '' || domain === onnxDomain ? name : `${domain}:${name}`
}

function checkCount(count: number, what: string): void {
  if (count > mostRemembered) throw new MalformedFile(`it has more than ${mostRemembered} ${what}`)
}

function wholeNumber(text: string | undefined, otherwise: number): number {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : otherwise
}

/** An input or output as a model file declares it. */
export interface DeclaredValue {
  readonly name: string
  /** As in `ValueMetadata`; `'undefined'` if the file does not declare it. */
  readonly type: string
  /** As in `ValueMetadata`; `null` if the file does not declare it. */
  readonly shape: readonly (number | string)[] | null
}

/** The declaration of an input or output, in the form of this library. */
function declaredValue({ name, type }: Messages['ValueInfoProto']): DeclaredValue {
  const called = typeName(type)
  const { tensorType } = type ?? {}
  if (tensorType !== undefined)
    return { name, type: called, shape: tensorType.shape?.dim.map(dimension) ?? null }
  return { name, type: called, shape: called === untold ? null : [] }
}

function typeName(type: TypeProto | null): string {
  if (type === null) return untold
  const { tensorType, sequenceType, mapType, optionalType, sparseTensorType, opaqueType } = type
  if (tensorType !== undefined) return nameOfType(tensorType.elemType)
  if (sequenceType !== undefined) return `seq(${typeName(sequenceType.elemType)})`
  if (optionalType !== undefined) return `optional(${typeName(optionalType.elemType)})`
  if (mapType !== undefined) return `map(${nameOfType(mapType.keyType)}, ${typeName(mapType.valueType)})`
  if (sparseTensorType !== undefined) return 'a sparse tensor'
  return opaqueType === undefined ? untold : 'an opaque value'
}

/** ONNX Runtime treats negative values as unknown. */
function dimension({ dimValue, dimParam }: Dimension): number | string {
  return dimValue !== undefined && dimValue >= 0 ? dimValue : (dimParam ?? '')
}

/** A file with tensors, besides the model. */
export interface ExternalFile {
  /** Path as in the model. */
  readonly location: string
  /** Absolute path. */
  readonly path: string
  /** Size of the file; `null` if it does not exist, or is not checked. */
  readonly byteLength: number | null
  /** Smallest size for the model's tensors. */
  readonly neededBytes: number
  /** Why the model cannot be loaded with it; `null` if it can. */
  readonly problem: string | null
}

/** Looks up the files that a model names, by the rules of ONNX Runtime. It does not read them. */
function findExternalFiles(model: string, needed: ReadonlyMap<string, number>): ExternalFile[] {
  return [...needed].map(([location, neededBytes]) => {
    const path = resolve(dirname(model), location)
    const found = (problem: string | null, byteLength: number | null = null) =>
      ({ location, path, byteLength, neededBytes, problem }) // prettier-ignore
    const wrong = (problem: string) => found(`${problem}, which ONNX Runtime refuses`)
    // The system ends the name there, so ONNX Runtime would open another file than the one named.
    if (location.includes('\0')) return found('its name has a NUL character')
    if (isAbsolute(location)) return wrong('it is an absolute path')
    if (!isWithin(dirname(model), path)) return wrong("it leads out of the model's folder")
    const byteLength = sizeOf(path)
    if (byteLength === null) return found('there is no such file')
    const real = realpathSync(path)
    // A model may be a link, as in a cache of downloads. Its files may then lie beside the link's target.
    if (
      ![realpathSync(dirname(model)), dirname(realpathSync(model))].some((folder) => isWithin(folder, real))
    )
      return wrong("it is a link that leads out of the model's folder")
    const isShort = byteLength < neededBytes
    return found(
      isShort ? `it has ${byteLength} bytes, and the model needs ${neededBytes}` : null,
      byteLength,
    )
  })
}

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return !isAbsolute(way) && way !== '..' && !way.startsWith(`..${sep}`)
}

/** `null` if it is no file. */
function sizeOf(path: string): number | null {
  try {
    const stats = statSync(path)
    return stats.isFile() ? stats.size : null
  } catch {
    return null // does not exist, or is no valid file name
  }
}

/** The type name for a value whose type the file does not declare. */
export const untold = 'undefined'
