import { basename, resolve } from 'node:path'
import { InferenceError } from '../errors.ts'
import { withRegularFile } from '../base/files.ts'
import { findExternalFiles } from './external-data.ts'
import { FileWindow } from './file-window.ts'
import { GraphWalk, onnxDomain } from './graph-walk.ts'
import type { OnnxFile } from './onnx-file.ts'
import { otherFormat, tellingBytes } from './other-formats.ts'
import { MalformedFile, WireReader, type Span } from './wire-reader.ts'

/** The beginning of a text that is kept. */
const mostText = 65_536
/** Entries of a model's metadata. */
const mostEntries = 100_000

/**
 * Reads what a model file says of itself. Weights are jumped over, so that the largest file takes some milliseconds; nothing
 * of ONNX Runtime is loaded.
 *
 * @returns `null` for a file in ONNX Runtime's own format (`.ort`), which only that can read.
 * @throws InferenceError `ERR_MODEL_LOAD` for a file that is no ONNX model, or is cut short. `NotReadable` for what is no file,
 * or the error of Node.js, such as `ENOENT`.
 */
export function readOnnxFile(path: string): Promise<OnnxFile | null> {
  const absolute = resolve(path)
  return withRegularFile(absolute, ({ fd }, byteLength) => {
    const window = new FileWindow(fd, byteLength)
    try {
      if (isOrtFormat(window)) return null
      const other = otherFormat(window.copy(0, Math.min(tellingBytes, byteLength)))
      if (other !== null) throw new MalformedFile(other)
      return readModel(absolute, window)
    } catch (error) {
      if (error instanceof MalformedFile || error instanceof RangeError) throw unreadable(absolute, error)
      throw error
    }
  })
}

/** A flatbuffer has its kind behind its first four bytes. */
function isOrtFormat(window: FileWindow): boolean {
  return window.byteLength >= 8 && window.copy(4, 8).toString('latin1') === 'ORTM'
}

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
    parameters: walk.parameters.totals,
    constants: walk.constants.totals,
    externalFiles: findExternalFiles(path, walk.files.byLocation),
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
  return new InferenceError('ERR_MODEL_LOAD', `Model '${model}' cannot be loaded from ${path}: it is no ONNX model that can be read: ${cause.message}`, {
    model, name: 'path', expected: 'an ONNX model', received: path, cause,
  }) // prettier-ignore
}
