import { getHeapStatistics } from 'node:v8'
import { InferenceError, NotReadable, withRegularFile } from 'zerohop/internals'
import { JsonObjects, NoObjects } from './json-objects.ts'
import type { Trace } from './trace.ts'
import { addRecord, NoRecord, type PartialTrace } from './trace-record.ts'

const chunkBytes = 2 ** 20
/** So many traces are open at a time: records of one lie between those of others where requests are traced as they go, as Triton does. */
const mostOpen = 10_000
/** Which share of the memory that JavaScript may have the traces of a file may take, where they are kept. */
const mostShare = 0.5

/** What a file of traces holds. */
interface TraceFile {
  readonly path: string
  /** Ascending by their ids. */
  readonly traces: readonly Trace[]
  /** Whether it ends within a record: that record is left out. */
  readonly cut: boolean
}

/**
 * Reads a file of traces, of this library or of Triton; one that was cut off up to its last whole record.
 *
 * @param share which part of the memory that JavaScript may have they may take.
 * @throws InferenceError `ERR_INVALID_ARG` for what is no such file, or has too many; the error of Node.js for one that cannot be opened.
 */
export async function readTraceFile(path: string, share = mostShare): Promise<TraceFile> {
  const traces: Trace[] = []
  const { cut } = await eachTrace(path, (trace) => {
    traces.push(trace)
    if (traces.length % 1000 === 0) checkRoom(path, share)
  })
  return { path, traces: traces.toSorted((a, b) => a.id - b.id), cut }
}

/**
 * The same, of a file of any length: has one trace after the other taken, in the order in which they begin in it, and keeps none.
 *
 * @returns whether it ends within a record.
 */
export async function eachTrace(path: string, take: (trace: Trace) => void): Promise<Pick<TraceFile, 'cut'>> {
  const open = new Map<number, PartialTrace>()
  const objects = new JsonObjects()
  /** @param isLast whether what it lacks may have been cut off. */
  const whole = (trace: PartialTrace, isLast: boolean) => {
    if (trace.model !== null) take(trace as Trace)
    else if (!isLast) throw new NoObjects(`no record of trace ${trace.id} has a model_name`)
  }
  try {
    await readRecords(path, objects, (text) => {
      const before = addRecord(open, text)
      if (before !== null) whole(before, false)
      if (open.size <= mostOpen) return
      const [first] = open.values()
      open.delete(first!.id)
      whole(first!, false)
    })
    for (const trace of open.values()) whole(trace, objects.isCut)
  } catch (error) {
    if (error instanceof NoRecord) throw notTraces(path, `record ${objects.count}: ${error.message}`, error)
    if (error instanceof NoObjects || error instanceof NotReadable)
      throw notTraces(path, error.message, error)
    throw error
  }
  return { cut: objects.isCut }
}

/** As far as the file is when it is opened: it may be written meanwhile. */
async function readRecords(path: string, objects: JsonObjects, take: (text: string) => void): Promise<void> {
  await withRegularFile(path, async (file, byteLength) => {
    const chunk = Buffer.allocUnsafeSlow(Math.min(chunkBytes, byteLength + 1))
    for (let at = 0; at < byteLength;) {
      const { bytesRead } = await file.read(chunk, 0, Math.min(chunk.length, byteLength - at), at)
      if (bytesRead === 0) return
      at += bytesRead
      for (const text of objects.take(chunk.subarray(0, bytesRead))) take(text)
    }
  })
  if (objects.isEmpty) throw new NoObjects('it is empty')
}

function checkRoom(path: string, share: number): void {
  const { used_heap_size: usedBytes, heap_size_limit: limitBytes } = getHeapStatistics()
  if (usedBytes < share * limitBytes) return
  const limitMiB = Math.round(limitBytes / 2 ** 20)
  const hint = `Set NODE_OPTIONS=--max-old-space-size=${4 * limitMiB}, or trace to several files (logFrequency)`
  throw new InferenceError(
    'ERR_INVALID_ARG',
    `${path} has more traces than there is memory for, which is ${limitMiB} MiB. ${hint}.`,
    { name: 'file', expected: 'a smaller file of traces' },
  )
}

function notTraces(path: string, reason: string, cause?: unknown): InferenceError {
  return new InferenceError('ERR_INVALID_ARG', `${path} is no file of traces: ${reason}.`, {
    name: 'file',
    expected: 'a file of traces',
    cause,
  })
}
