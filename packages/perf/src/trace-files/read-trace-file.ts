import { getHeapStatistics } from 'node:v8'
import * as v from 'valibot'
import { InferenceError, NotReadable, withRegularFile } from 'zerohop/internals'
import { withoutUndefined } from '../without-undefined.ts'

/**
 * One trace, assembled from its records. Fields that only this library's files have are missing in others.
 */
export interface Trace {
  readonly id: number
  readonly model: string
  /** -1 for the newest, in Triton's files. */
  readonly version: number
  readonly requestId?: string
  readonly parentId?: number
  readonly rows?: number
  readonly priority?: number
  readonly timeoutMs?: number
  readonly deadlineMs?: number
  readonly sequenceId?: number | string
  /** Dims of inputs that the model leaves open, apart from the rows, by name. */
  readonly dims?: Readonly<Record<string, readonly number[]>>
  /** Why it was not answered: a code of `InferenceError`, or `'cancelled'`. */
  readonly error?: string
  /** Whether another request's run answered it. */
  readonly shared?: 'cached' | 'coalesced'
  /** The runs that it took part in. */
  readonly batches: readonly TraceBatch[]
  /** In the file's order, in nanoseconds. */
  readonly timestamps: readonly Timestamp[]
  readonly tensors: readonly TraceTensor[]
}

interface Timestamp {
  readonly name: string
  readonly ns: number
}

/** A tensor, as in the file. */
export interface TraceTensor {
  readonly activity: string
  readonly name: string
  /** Elements separated by commas; strings in JSON. */
  readonly data: string
  /** Dims separated by commas. */
  readonly shape: string
  readonly dtype: string
}

/** A run that a request took part in. */
export interface TraceBatch {
  /** Its number among the runs of the model. */
  readonly id: number
  readonly instance: string
  readonly worker: string
  readonly reason: string
  readonly rows: number
  readonly requests: number
  /** Position of the request's first row. */
  readonly position: number
  /** Which part of a split request it is. */
  readonly part?: number
  /** Whether the application's thread ran it. */
  readonly inline: boolean
  readonly rerun: boolean
  readonly error?: string
  /** `null` if it failed. */
  readonly moments: BatchTimes | null
}

/** The times of a batch's stages, in nanoseconds. */
export interface BatchTimes {
  readonly takenNs: number
  readonly gatheredNs: number
  readonly startNs: number
  readonly inferStartNs: number
  readonly inferEndNs: number
  readonly outputStartNs: number
  readonly outputEndNs: number
}

/** The timestamp of a stage; `undefined` if the trace did not reach it, or the file does not have it. */
export function timestampOf({ timestamps }: Trace, name: string): number | undefined {
  return timestamps.find((timestamp) => timestamp.name === name)?.ns
}

const chunkBytes = 2 ** 20
/**
 * Most traces open at a time. Records of different traces are interleaved if requests are traced as they go,
 * as Triton does.
 */
const mostOpen = 10_000
/** Share of JavaScript's memory limit that kept traces may take. */
const mostShare = 0.5

/** The content of a trace file. */
interface TraceFile {
  readonly path: string
  /** Ascending by id. */
  readonly traces: readonly Trace[]
  /** Whether it ends within a record, which is left out. */
  readonly cut: boolean
}

/**
 * Reads a trace file of this library or of Triton. A truncated file is read up to its last complete record.
 *
 * @param share of JavaScript's memory limit that the traces may take.
 * @throws InferenceError `ERR_INVALID_ARG` if it is no such file, or has too many traces; the error of
 * Node.js if it cannot be opened.
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
 * Reads a file of any length: calls `take` for each trace, in the order in which they begin in the file, and
 * keeps none.
 *
 * @returns whether it ends within a record.
 */
export async function eachTrace(path: string, take: (trace: Trace) => void): Promise<Pick<TraceFile, 'cut'>> {
  const open = new Map<number, PartialTrace>()
  const objects = new JsonObjects()
  /** @param isLast whether missing parts may have been cut off. */
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

/** Reads as far as the file is when it is opened, as it may grow meanwhile. */
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

const number = v.pipe(v.number(), v.finite())
const id = v.pipe(v.number(), v.safeInteger())
/** A range that JSON numbers represent, exactly up to a hundred days. */
const ns = v.pipe(v.number(), v.minValue(0), v.maxValue(2 ** 62))
const text = v.string()
const dims = v.array(v.pipe(v.number(), v.integer(), v.minValue(0)))

const batch = v.object({
  id, instance: text, worker: text, reason: text, rows: number, requests: number, position: number,
  part: v.optional(number), inline: v.optional(v.boolean(), false), rerun: v.optional(v.boolean(), false), error: v.optional(text),
  taken_ns: v.optional(ns), gathered_ns: v.optional(ns), start_ns: v.optional(ns), infer_start_ns: v.optional(ns), infer_end_ns: v.optional(ns),
  output_start_ns: v.optional(ns), output_end_ns: v.optional(ns),
}) // prettier-ignore

/** Of this library's fields only those that are used. Triton's files have none of them. */
const record = v.object({
  id,
  model_name: v.optional(text),
  model_version: v.optional(number),
  request_id: v.optional(text),
  parent_id: v.optional(id),
  rows: v.optional(number),
  priority: v.optional(number),
  timeout_ms: v.optional(number),
  deadline_ms: v.optional(number),
  sequence_id: v.optional(v.union([number, text])),
  dims: v.optional(v.record(text, dims)),
  error: v.optional(text),
  shared: v.optional(v.picklist(['cached', 'coalesced'])),
  batches: v.optional(v.array(batch), []),
  timestamps: v.optional(v.array(v.object({ name: text, ns })), []),
  activity: v.optional(text),
  tensor: v.optional(v.object({ name: text, data: text, shape: text, dtype: text })),
})

type Batch = v.InferOutput<typeof batch>
type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }
/** A trace of which some records have been read. */
export type PartialTrace = Mutable<Omit<Trace, 'timestamps' | 'tensors' | 'model' | 'version'>> & {
  model: string | null
  version: number
  readonly timestamps: Timestamp[]
  readonly tensors: TraceTensor[]
}

/** What is wrong with a record. */
class NoRecord extends Error {}

/**
 * Adds a record to its trace.
 *
 * @returns the earlier trace with that id, from another process, if this is a first record; otherwise `null`.
 * @throws NoRecord
 */
export function addRecord(traces: Map<number, PartialTrace>, given: string): PartialTrace | null {
  const { id, timestamps, activity, tensor, ...rest } = parsed(given)
  const known = traces.get(id)
  const isAnother = known !== undefined && known.model !== null && rest.model_name !== undefined
  if (isAnother) traces.delete(id) // moves the new trace behind the open ones
  let trace = isAnother ? undefined : known
  if (trace === undefined)
    traces.set(id, (trace = { id, model: null, version: -1, batches: [], timestamps: [], tensors: [] }))
  if (rest.model_name !== undefined) Object.assign(trace, described(rest))
  trace.timestamps.push(...timestamps)
  if (activity !== undefined && tensor !== undefined) trace.tensors.push({ activity, ...tensor })
  return isAnother ? known : null
}

function parsed(given: string): v.InferOutput<typeof record> {
  let value: unknown
  try {
    value = JSON.parse(given)
  } catch {
    throw new NoRecord('is no JSON')
  }
  const result = v.safeParse(record, value, { abortEarly: true })
  if (result.success) return result.output
  const [issue] = result.issues
  const path = (issue.path ?? []).reduce(
    (before, { key }) =>
      typeof key === 'number'
        ? `${before}[${key}]`
        : before === ''
          ? String(key)
          : `${before}.${String(key)}`,
    '',
  )
  throw new NoRecord(`${path}: expected ${issue.expected ?? issue.message}, received ${issue.received}`)
}

type Described = Omit<v.InferOutput<typeof record>, 'id' | 'timestamps' | 'activity' | 'tensor'>

/** The content of the first record. */
function described({ model_name, model_version = -1, batches, ...given }: Described): Partial<Trace> {
  return { ...camelCased(given), model: model_name!, version: model_version, batches: batches.map(batchOf) }
}

function batchOf(given: Batch): TraceBatch {
  const { takenNs, gatheredNs, startNs, inferStartNs, inferEndNs, outputStartNs, outputEndNs, ...same } =
    camelCased(given)
  const moments = { takenNs, gatheredNs, startNs, inferStartNs, inferEndNs, outputStartNs, outputEndNs }
  return { ...same, moments: Object.values(moments).includes(undefined) ? null : (moments as BatchTimes) }
}

type Camel<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<Camel<Rest>>}`
  : Name

/** The fields that have a value, under this library's names. */
function camelCased<T extends object>(fields: T): { [Name in keyof T & string as Camel<Name>]: T[Name] } {
  const named = Object.entries(withoutUndefined(fields)).map(([name, value]) => [
    name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
    value as unknown,
  ])
  return Object.fromEntries(named) as { [Name in keyof T & string as Camel<Name>]: T[Name] }
}

/** Longer than the record of the largest traced tensor. */
const mostBytes = 64 * 2 ** 20

const [quote, backslash, open, close] = [...'"\\{}'].map((character) => character.charCodeAt(0)) as [
  number,
  number,
  number,
  number,
]
/** Characters between the objects of an array: blanks, commas, and the array's own brackets. */
const between = new Set([...' \t\r\n,[]'].map((character) => character.charCodeAt(0)))
const blanks = new Set([...' \t\r\n'].map((character) => character.charCodeAt(0)))

const mark = Buffer.from('\uFEFF')

/** Why a file is no JSON array of objects. */
class NoObjects extends Error {}

/**
 * Finds the objects of a JSON array while its bytes arrive. The array may lack its end, if the process that
 * wrote it was stopped.
 */
class JsonObjects {
  #rest: Buffer[] = []
  #restBytes = 0
  #depth = 0
  #inText = false
  #escaped = false
  #begun = false
  /** Number of objects so far. */
  count = 0

  /** Whether the bytes so far end within an object. */
  get isCut(): boolean {
    return this.#depth > 0
  }

  /** Whether there were only blanks. */
  get isEmpty(): boolean {
    return !this.#begun
  }

  /**
   * The objects that end in these bytes, as text.
   *
   * @throws NoObjects
   */
  *take(bytes: Buffer): Generator<string> {
    let from = 0
    for (let at = this.#markLength(bytes); at < bytes.length; at++) {
      const byte = bytes[at]!
      if (this.#depth === 0) {
        if (byte === open) {
          this.#checkBegun(byte)
          this.#depth = 1
          from = at
        } else this.#checkBetween(byte)
      } else if (this.#inText) this.#text(byte)
      else if (byte === quote) this.#inText = true
      else if (byte === open) this.#depth++
      else if (byte === close && --this.#depth === 0) {
        yield this.#whole(bytes.subarray(from, at + 1))
        from = at + 1
      }
    }
    if (this.#depth > 0) this.#keep(bytes.subarray(from))
  }

  /** Length of a byte order mark. */
  #markLength(bytes: Buffer): number {
    return !this.#begun && this.count === 0 && bytes.subarray(0, mark.length).equals(mark) ? mark.length : 0
  }

  #text(byte: number): void {
    if (this.#escaped) this.#escaped = false
    else if (byte === backslash) this.#escaped = true
    else if (byte === quote) this.#inText = false
  }

  #whole(last: Buffer): string {
    this.count++
    const text = Buffer.concat([...this.#rest, last]).toString()
    this.#rest = []
    this.#restBytes = 0
    return text
  }

  #keep(bytes: Buffer): void {
    this.#restBytes += bytes.length
    if (this.#restBytes > mostBytes)
      throw new NoObjects(`record ${this.count + 1} has more than ${mostBytes} bytes`)
    this.#rest.push(Buffer.from(bytes)) // a copy, as the buffer is reused
  }

  #checkBetween(byte: number): void {
    if (!between.has(byte))
      throw new NoObjects(
        this.#begun ? `what follows record ${this.count} is no object` : 'it is no JSON array of objects',
      )
    if (!blanks.has(byte)) this.#checkBegun(byte)
  }

  #checkBegun(byte: number): void {
    if (!this.#begun && byte !== '['.charCodeAt(0)) throw new NoObjects('it is no JSON array of objects')
    this.#begun = true
  }
}
