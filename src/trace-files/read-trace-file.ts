import { InferenceError } from '../errors.ts'
import { NotReadable, withRegularFile } from '../regular-file.ts'
import { JsonObjects, NoObjects } from './json-objects.ts'
import type { Trace } from './trace.ts'
import { addRecord, NoRecord, type PartialTrace } from './trace-record.ts'

/** More than is put together in memory. */
const mostFileBytes = 2 * 2 ** 30
const chunkBytes = 2 ** 20

/** What a file of traces holds. */
export interface TraceFile {
  readonly path: string
  /** Ascending by their ids. */
  readonly traces: readonly Trace[]
  /** Whether it ends within a record, or without the end of the array: that record is left out. */
  readonly cut: boolean
}

/**
 * Reads a file of traces, of this library or of Triton; one that was cut off up to its last whole record.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for what is no such file; the error of Node.js for one that cannot be opened.
 */
export async function readTraceFile(path: string): Promise<TraceFile> {
  const traces = new Map<number, PartialTrace>()
  const objects = new JsonObjects()
  try {
    await withRegularFile(path, async (file, byteLength) => {
      if (byteLength > mostFileBytes) throw new NoObjects(`it has ${byteLength} bytes, of which at most ${mostFileBytes} are read; trace to several files (logFrequency)`)
      const chunk = Buffer.allocUnsafeSlow(Math.min(chunkBytes, byteLength + 1))
      for (let total = 0; ; ) {
        const { bytesRead } = await file.read(chunk, 0, chunk.length, null)
        if (bytesRead === 0) return
        if ((total += bytesRead) > mostFileBytes) throw new NoObjects('it grows while it is read')
        for (const text of objects.take(chunk.subarray(0, bytesRead))) addRecord(traces, text)
      }
    })
  } catch (error) {
    if (error instanceof NoRecord) throw notTraces(path, `record ${objects.count}: ${error.message}`, error)
    if (error instanceof NoObjects || error instanceof NotReadable) throw notTraces(path, error.message, error)
    throw error
  }
  if (objects.isEmpty) throw notTraces(path, 'it is empty')
  return { path, traces: complete(path, traces, objects.isCut), cut: objects.isCut }
}

/** @param cut whether the last one may be without its first record. */
function complete(path: string, traces: ReadonlyMap<number, PartialTrace>, cut: boolean): Trace[] {
  const all = [...traces.values()].toSorted((a, b) => a.id - b.id)
  const nameless = all.find(({ model }) => model === null)
  if (nameless !== undefined && !cut) throw notTraces(path, `no record of trace ${nameless.id} has a model_name`)
  return all.flatMap((trace) => (trace.model === null ? [] : [trace as Trace]))
}

function notTraces(path: string, reason: string, cause?: unknown): InferenceError {
  return new InferenceError('ERR_INVALID_ARG', `${path} is no file of traces: ${reason}.`, { name: 'file', expected: 'a file of traces', cause })
}
