import { elementBytes, elementName } from './element-types.ts'
import type { TensorTotals } from './onnx-file.ts'
import type { Messages } from './onnx-schema.ts'
import { MalformedFile, type Span, type WireReader } from './wire-reader.ts'

/** Files that a model may name. */
const mostFiles = 100_000

/** The files that tensors lie in, with how long each has to be. */
export class NeededFiles {
  readonly byLocation = new Map<string, number>()

  /** @param byteLength of the tensor, which counts where the file does not say how many bytes are its own. */
  add(entries: Messages['TensorProto']['externalData'], byteLength: number): void {
    const said = Object.fromEntries(entries.map(({ key, value }) => [key, value]))
    const location = said['location'] ?? ''
    const end = wholeNumber(said['offset'], 0) + wholeNumber(said['length'], byteLength)
    this.byLocation.set(location, Math.max(end, this.byLocation.get(location) ?? 0))
    if (this.byLocation.size > mostFiles) throw new MalformedFile(`it names more than ${mostFiles} files`)
  }
}

function wholeNumber(text: string | undefined, otherwise: number): number {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : otherwise
}

/** Counts tensors, without their values. */
export class TensorCount implements TensorTotals {
  tensors = 0
  elements = 0
  byteLength = 0
  readonly #files: NeededFiles

  constructor(files: NeededFiles) {
    this.#files = files
  }

  /** Counts the tensor at a place, and gives its name. */
  add(reader: WireReader, span: Span): string {
    let textBytes = 0
    const { name, dims, dataType, externalData, dataLocation } = reader.read('TensorProto', span, {
      6: ({ start, end }) => (textBytes += end - start), // string_data
    })
    const elements = dims.reduce((product, dim) => product * dim, 1)
    if (dims.some((dim) => dim < 0) || !Number.isSafeInteger(elements)) {
      throw new MalformedFile(
        `tensor '${name}' at byte ${span.start} has the shape [${dims.slice(0, 10).join(', ')}]`,
      )
    }
    const byteLength = elementName(dataType) === 'string' ? textBytes : elementBytes(dataType, elements)
    this.tensors++
    this.elements += elements
    this.byteLength += byteLength
    if (dataLocation === 1) this.#files.add(externalData, byteLength)
    return name
  }

  get totals(): TensorTotals {
    const { tensors, elements, byteLength } = this
    return { tensors, elements, byteLength }
  }
}
