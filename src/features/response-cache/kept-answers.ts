import { LRUCache } from 'lru-cache'
import type { BatchReport } from '../../options/infer-options.ts'
import type { AnyOutputs } from '../../options/model-signature.ts'
import { isSharedArrayBuffer } from 'node:util/types'
import type { ParsedFeeds } from '../../request/infer-request.ts'
import {
  copyOf,
  makeTensor,
  putValue,
  toStorage,
  type ElementType,
  type TensorData,
  type TensorLike,
  plainView,
} from '../../tensor/tensor.ts'
import type { MapEntry, OutputValue } from '../../tensor/values.ts'

/** What a request was answered with; nobody else has it. */
export interface KeptAnswer {
  readonly outputs: AnyOutputs
  readonly report: BatchReport
}

/** Answers by the keys of their requests, up to a number of bytes. Those that were not asked for longest make room. */
export class KeptAnswers {
  readonly #byKey: LRUCache<string, KeptAnswer>
  #evictions = 0

  constructor(maxBytes: number) {
    const dispose = (_answer: KeptAnswer, _key: string, reason: string) =>
      void (reason === 'evict' && this.#evictions++)
    this.#byKey = new LRUCache(plain({ maxSize: maxBytes, dispose }))
  }

  get evictions(): number {
    return this.#evictions
  }

  get entries(): number {
    return this.#byKey.size
  }

  get bytes(): number {
    return this.#byKey.calculatedSize
  }

  get(key: string): KeptAnswer | undefined {
    return this.#byKey.get(key, none)
  }

  /** Keeps a copy of an answer; none of one that is larger than all that may be kept. */
  put(key: string, outputs: AnyOutputs, report: BatchReport): void {
    const size = keptBytes(outputs)
    if (size <= this.#byKey.maxSize)
      this.#byKey.set(key, { outputs: copyOutputs(outputs), report: copyReport(report) }, plain({ size }))
  }

  clear(): void {
    this.#byKey.clear()
  }
}

/** Options in which a changed `Object.prototype` has no say. */
function plain<T extends object>(options: T): T {
  return { __proto__: null, ...options } as T
}

const none = plain({})

/** What JavaScript takes for an answer that is kept, its data aside. Measured, and rounded up. */
const bytesPerAnswer = 500
const bytesPerTensor = 320
const bytesPerEntry = 40 // of an array or a map

/** Whether a caller could change data of a request while it is read: another thread has it, too. */
export function isShared({ data, preparation }: ParsedFeeds): boolean {
  const sources = preparation === undefined ? [] : [...preparation.sources.values()]
  return [...data, ...sources].some(
    (values) => ArrayBuffer.isView(values) && isSharedArrayBuffer(plainView(values).buffer),
  )
}

/** A request whose data its caller cannot change any more. Strings and values that are no tensors were copied before. */
export function ownFeeds(feeds: ParsedFeeds): ParsedFeeds {
  const own = (values: ParsedFeeds['data'][number]) =>
    ArrayBuffer.isView(values) ? ownData(plainView(values)) : values
  const { preparation } = feeds
  return {
    ...feeds,
    data: feeds.data.map(own),
    ...(preparation === undefined ? {} : { preparation: preparation.owned() }),
  }
}

/** Outputs that share nothing with those given. */
export function copyOutputs(outputs: AnyOutputs): AnyOutputs {
  const copy: AnyOutputs = {}
  for (const name of Object.keys(outputs)) putValue(copy, name, copyValue(outputs[name]!))
  return copy
}

function copyValue(value: OutputValue): OutputValue {
  if (value === null) return null
  if (Array.isArray(value)) return value.map(copyValue)
  if (value instanceof Map) return new Map(value)
  if (!isTensor(value)) return { ...(value as { [key: string]: MapEntry }) }
  const type = value.type as ElementType
  // Newer Node shows float16 as numbers, older as bits: it is the bits that are kept.
  const data = type === 'string' ? [...(value.data as string[])] : ownData(toStorage(type, value.data)!)
  return makeTensor(type, data, [...value.dims])
}

/** About how many bytes it takes to keep outputs. */
export function keptBytes(outputs: AnyOutputs): number {
  let bytes = bytesPerAnswer
  for (const name of Object.keys(outputs)) bytes += valueBytes(outputs[name]!)
  return bytes
}

function valueBytes(value: OutputValue | MapEntry): number {
  if (typeof value === 'string') return bytesPerEntry + 2 * value.length
  if (typeof value !== 'object' || value === null) return bytesPerEntry
  if (Array.isArray(value)) return sum(value, valueBytes)
  if (value instanceof Map) return sum([...value.values()], (entry) => bytesPerEntry + valueBytes(entry))
  if (!isTensor(value))
    return sum(Object.entries(value), ([key, entry]) => valueBytes(key) + valueBytes(entry as MapEntry))
  const { data } = value
  return bytesPerTensor + (ArrayBuffer.isView(data) ? data.byteLength : sum(data as string[], valueBytes))
}

/** A map of strings can have these names, too, but no array among its values. */
function isTensor(value: object): value is TensorLike {
  return Array.isArray((value as TensorLike).dims)
}

function ownData(data: TensorData): TensorData {
  return copyOf(data, 0, data.length)
}

function sum<T>(items: readonly T[], bytesOf: (item: T) => number): number {
  return items.reduce((bytes, item) => bytes + bytesOf(item), bytesPerEntry)
}

/** The report of a run, that nobody else has. */
function copyReport(report: BatchReport): BatchReport {
  const { parts } = report
  return { ...report, ...(parts === undefined ? {} : { parts: parts.map(copyReport) }) }
}

/** What a request is told that is answered from the cache: of the run that the answer came from, and that there was none now. */
export function cachedReport(report: BatchReport): BatchReport {
  return { ...copyReport(report), queuedMs: 0, computeMs: 0, cached: true }
}

/** What a request is told that joined the run of another. */
export function coalescedReport(report: BatchReport, queuedMs: number): BatchReport {
  return { ...copyReport(report), queuedMs, coalesced: true }
}
