import { LRUCache } from 'lru-cache'
import type { BatchReport } from '../../options/infer-options.ts'
import type { AnyOutputs } from '../../options/model-signature.ts'
import { ownProperties } from '../../options/plain-options.ts'
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

/** The answer of a request, in memory of its own. */
export interface KeptAnswer {
  readonly outputs: AnyOutputs
  readonly report: BatchReport
}

/** Answers by the keys of their requests, up to a number of bytes. The least recently used are evicted. */
export class KeptAnswers {
  readonly #byKey: LRUCache<string, KeptAnswer>
  #evictions = 0

  constructor(maxBytes: number) {
    const dispose = (_answer: KeptAnswer, _key: string, reason: string) =>
      void (reason === 'evict' && this.#evictions++)
    this.#byKey = new LRUCache(ownProperties({ maxSize: maxBytes, dispose }))
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

  /** Keeps a copy of an answer, unless it is larger than the whole cache. */
  put(key: string, outputs: AnyOutputs, report: BatchReport): void {
    const size = keptBytes(outputs)
    if (size <= this.#byKey.maxSize)
      this.#byKey.set(
        key,
        { outputs: copyOutputs(outputs), report: copyReport(report) },
        ownProperties({ size }),
      )
  }

  clear(): void {
    this.#byKey.clear()
  }
}

const none = ownProperties({})

/** JavaScript's memory for an answer without its data. Measured, and rounded up. */
const bytesPerAnswer = 500
const bytesPerTensor = 320
const bytesPerEntry = 40 // of an array or a map

/** Whether another thread shares the data of a request, and could change it while it is read. */
export function isShared({ data, preparation }: ParsedFeeds): boolean {
  const sources = preparation === undefined ? [] : [...preparation.sources.values()]
  return [...data, ...sources].some(
    (values) => ArrayBuffer.isView(values) && isSharedArrayBuffer(plainView(values).buffer),
  )
}

/**
 * A request with data that its caller cannot change. Strings and values other than tensors were copied
 * before.
 */
export function ownFeeds(feeds: ParsedFeeds): ParsedFeeds {
  const { preparation } = feeds
  // The placeholder of an encoded image is shared by all requests and never written.
  const own = (values: ParsedFeeds['data'][number], index: number) =>
    ArrayBuffer.isView(values) && preparation?.sources.has(index) !== true
      ? ownData(plainView(values))
      : values
  return {
    ...feeds,
    data: feeds.data.map(own),
    ...(preparation === undefined ? {} : { preparation: preparation.owned() }),
  }
}

/** A deep copy of outputs. */
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
  // Newer Node presents float16 as numbers, older as bits; the bits are kept.
  const data = type === 'string' ? [...(value.data as string[])] : ownData(toStorage(type, value.data)!)
  return makeTensor(type, data, [...value.dims])
}

/** Approximate memory for keeping outputs, in bytes. */
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

/** A map of strings can have these keys, too, but its values are no arrays. */
function isTensor(value: object): value is TensorLike {
  return Array.isArray((value as TensorLike).dims)
}

function ownData(data: TensorData): TensorData {
  return copyOf(data, 0, data.length)
}

function sum<T>(items: readonly T[], bytesOf: (item: T) => number): number {
  return items.reduce((bytes, item) => bytes + bytesOf(item), bytesPerEntry)
}

/** A copy of a run's report. */
function copyReport(report: BatchReport): BatchReport {
  const { parts } = report
  return { ...report, ...(parts === undefined ? {} : { parts: parts.map(copyReport) }) }
}

/** The report of a request answered from the cache: that of the original run, marked as having had no run. */
export function cachedReport(report: BatchReport): BatchReport {
  return { ...copyReport(report), queuedMs: 0, computeMs: 0, cached: true }
}

/** The report of a request that shared another request's run. */
export function coalescedReport(report: BatchReport, queuedMs: number): BatchReport {
  return { ...copyReport(report), queuedMs, coalesced: true }
}
