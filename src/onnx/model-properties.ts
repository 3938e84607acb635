import type { ModelProperties } from '../tensor/metadata.ts'
import { withRegularFile } from '../base/files.ts'
import { FileWindow } from './file-window.ts'
import { WireReader, type Span } from './wire-reader.ts'

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

function read(window: FileWindow): SaidOfModel {
  const reader = new WireReader(window)
  const custom = new Map<string, string>()
  const descriptions = new Map<string, string>()
  let left = mostTexts
  const text = (span: Span): string => {
    const length = span.end - span.start
    if (length > Math.min(mostText, left)) return ''
    left -= length
    return reader.text(span, length)
  }
  let [description, graphName, graphDescription] = ['', '', '']
  const entry = (part: Span) => {
    let [key, value] = ['', '']
    reader.read('Container', part, { 1: (span) => (key = text(span)), 2: (span) => (value = text(span)) })
    if (key !== '') custom.set(key, value)
  }
  const value = (part: Span) => {
    let [name, said] = ['', '']
    reader.read('Container', part, { 1: (span) => (name = text(span)), 3: (span) => (said = text(span)) })
    if (said !== '') descriptions.set(name, said)
  }
  const graph = (part: Span) =>
    reader.read('Container', part, {
      2: (span) => (graphName = text(span)),
      10: (span) => (graphDescription = text(span)),
      11: value,
      12: value,
    })
  const { producerName, producerVersion, domain, modelVersion } = reader.read(
    'ModelProto',
    { start: 0, end: window.byteLength },
    { 6: (span) => (description = text(span)), 7: graph, 14: entry },
  )
  const properties = {
    producer: Object.freeze({ name: producerName, version: producerVersion }),
    domain,
    version: modelVersion,
    description,
    graph: Object.freeze({ name: graphName, description: graphDescription }),
    custom: Object.freeze(Object.fromEntries(custom)),
  }
  return { properties: Object.freeze(properties), descriptions }
}
