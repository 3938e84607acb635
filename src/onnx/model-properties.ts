import type { ModelProperties } from '../tensor/metadata.ts'
import { withRegularFile } from '../base/files.ts'
import { FileWindow } from './file-window.ts'
import { WireReader, type Span } from './wire-reader.ts'

/** Longest text that is kept, and all of them together, in bytes: labels and vocabularies are far shorter. What is longer is left out. */
const mostText = 2 ** 20
const mostTexts = 2 ** 22

/** What a model says of itself, and of its inputs and outputs. */
export interface SaidOfModel {
  readonly properties: ModelProperties
  /** By name of the input or output; of those that have one. */
  readonly descriptions: ReadonlyMap<string, string>
}

/**
 * Reads what a model says of itself, and nothing of its graph but its name and what its inputs and outputs are described as.
 *
 * @param source the path of a file, or its bytes.
 * @returns `null` for a model that cannot be read: ONNX Runtime's own format (`.ort`) for one.
 */
export async function readModelProperties(source: string | Uint8Array): Promise<SaidOfModel | null> {
  try {
    if (typeof source !== 'string') return read(new FileWindow(source, source.byteLength))
    return await withRegularFile(source, ({ fd }, byteLength) => read(new FileWindow(fd, byteLength)))
  } catch {
    return null // whether it can be loaded is for ONNX Runtime to say
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
