import type { ModelProperties } from '../tensor/metadata.ts'
import { withRegularFile } from '../base/files.ts'
import { FileWindow } from './file-window.ts'
import { type Fields, int, MessageReader, part, parts } from './message-reader.ts'

/**
 * Longest text kept, and the limit for all of them together, in bytes. Labels and vocabularies are far
 * shorter. Longer texts are left out.
 */
const mostText = 2 ** 20
const mostTexts = 2 ** 22

/** The metadata of a model, and the descriptions of its inputs and outputs. */
export interface SaidOfModel {
  readonly properties: ModelProperties
  /** By name of the input or output, for those with a description. */
  readonly descriptions: ReadonlyMap<string, string>
}

/**
 * Reads the metadata of a model and, of its graph, only the name and the descriptions of its inputs and
 * outputs.
 *
 * @param source the path of a file, or its bytes.
 * @returns `null` for a model that cannot be read, such as one in ONNX Runtime's own format (`.ort`).
 */
export async function readModelProperties(source: string | Uint8Array): Promise<SaidOfModel | null> {
  try {
    if (typeof source !== 'string') return read(new FileWindow(source, source.byteLength))
    return await withRegularFile(source, ({ fd }, byteLength) => read(new FileWindow(fd, byteLength)))
  } catch {
    return null // ONNX Runtime decides whether it can be loaded
  }
}

/** The fields that are read, by message of ONNX's schema (onnx/onnx.proto). */
const fieldsOf = {
  model: { 2: part, 3: part, 4: part, 5: int, 6: part, 7: part, 14: parts },
  graph: { 2: part, 10: part, 11: parts, 12: parts },
  metadata: { 1: part, 2: part },
  value: { 1: part, 3: part },
}

function read(window: FileWindow): SaidOfModel {
  const reader = new MessageReader(window)
  let left = mostTexts
  const text = (start: number, end: number): string => {
    const length = end - start
    if (length > Math.min(mostText, left)) return ''
    left -= length
    return reader.bytes(start, end).toString()
  }
  /** The two texts of a message. */
  const pair = (fields: Fields, start: number, end: number): [key: string, value: string] => {
    let [key, value] = ['', '']
    reader.read(start, end, fields, (field, _, from, to) => {
      if (field === 1) key = text(from, to)
      else value = text(from, to)
    })
    return [key, value]
  }
  const custom = new Map<string, string>()
  const descriptions = new Map<string, string>()
  const ofModel: Partial<Record<number, string>> = {}
  const ofGraph: Partial<Record<number, string>> = {}
  let version = 0
  const readGraph = (start: number, end: number): void =>
    reader.read(start, end, fieldsOf.graph, (field, _, from, to) => {
      if (field < 11) return void (ofGraph[field] = text(from, to))
      const [name, said] = pair(fieldsOf.value, from, to)
      if (said !== '') descriptions.set(name, said)
    })
  reader.read(0, window.byteLength, fieldsOf.model, (field, value, start, end) => {
    if (field === 5) version = value
    else if (field === 7) readGraph(start, end)
    else if (field === 14) {
      const [key, said] = pair(fieldsOf.metadata, start, end)
      if (key !== '') custom.set(key, said)
    } else ofModel[field] = text(start, end)
  })
  const properties = {
    producer: Object.freeze({ name: ofModel[2] ?? '', version: ofModel[3] ?? '' }),
    domain: ofModel[4] ?? '',
    version,
    description: ofModel[6] ?? '',
    graph: Object.freeze({ name: ofGraph[2] ?? '', description: ofGraph[10] ?? '' }),
    custom: Object.freeze(Object.fromEntries(custom)),
  }
  return { properties: Object.freeze(properties), descriptions }
}
