import { sharedKey } from '../../request/bucket-keys.ts'
import type { InferRequest } from '../../request/infer-request.ts'
import { mailed } from '../../tensor/elements.ts'
import { batchAxisOf, type ModelMetadata, type TensorMetadata } from '../../tensor/metadata.ts'
import {
  copyOf,
  elementCount,
  plainView,
  storageLength,
  type ElementType,
  type MailedTensor,
  type TensorData,
} from '../../tensor/tensor.ts'
import type { TrialFeeds } from './trial-feeds.ts'

/** Number of different requests of equal row shape for one trial. */
const wanted = 3
/** After this many requests of a shape, two different ones are enough. */
const patience = 16
const maxShapes = 8
const maxBytes = 16 * 2 ** 20

/** An input as the caller gave it. The values are copied out of the caller's object. */
interface Given {
  readonly type: ElementType
  readonly dims: readonly number[]
  /** -1 for values that rows share. */
  readonly axisOfRows: number
  readonly values: TensorData | readonly string[]
}

/** Requests of one shape, as the model takes them. */
export class KeptShape {
  /** Their bucket. */
  readonly bucketKey: string
  readonly requests: TrialFeeds[] = []
  readonly #largestBatch: number
  seen = 0
  bytes = 0
  rows = 0
  /** Rows of the latest request. */
  lastRows = 0

  constructor(bucketKey: string, largestBatch: number) {
    this.bucketKey = bucketKey
    this.#largestBatch = largestBatch
  }

  /** Whether they are enough for a trial. */
  get isEnough(): boolean {
    const { length } = this.requests
    return (
      length >= (this.seen >= patience ? 2 : wanted) ||
      (length > 1 && this.rows + this.lastRows > this.#largestBatch)
    )
  }
}

/** Keeps copies of the first different requests of some shapes, with equal values in inputs that rows share. */
export class KeptRequests {
  readonly #model: ModelMetadata
  readonly #byShape = new Map<string, KeptShape>()

  constructor(model: ModelMetadata) {
    this.#model = model
  }

  /** All shapes. */
  get shapes(): Iterable<KeptShape> {
    return this.#byShape.values()
  }

  /** Keeps a request of a bucket, unless an equal one is kept, or it cannot be used in a trial. */
  keep({ data, dims, rows }: InferRequest, bucketKey: string): void {
    const { inputs, maxBatchSize } = this.#model
    const feeds = data.map((values, index): Given | null => {
      if (values === null) return null
      const { type, shape } = inputs[index] as TensorMetadata // other values have no rows
      const axisOfRows = batchAxisOf(inputs[index]!)
      return {
        type,
        dims: dims?.[index] ?? shape.map((dim, axis) => (axis === axisOfRows ? rows : (dim as number))),
        axisOfRows,
        values: ArrayBuffer.isView(values) ? plainView(values as TensorData) : (values as readonly string[]),
      }
    })
    const given = feeds.filter((feed) => feed !== null)
    const rowsOf = given.flatMap(({ dims: own, axisOfRows }) =>
      axisOfRows === -1 ? [] : [own[axisOfRows] ?? 0],
    )
    const [first = 0] = rowsOf
    if (first === 0 || 2 * first > maxBatchSize || rowsOf.some((count) => count !== first)) return
    const bytes = bytesOf(given)
    const isDetached = given.some(
      ({ type, values, dims: own }) => values.length !== storageLength(type, elementCount(own)),
    )
    if (isDetached || bytes > maxBytes / 4) return
    const kept = this.#shapeOf(feeds.map(wordOf).join(';'), bucketKey)
    kept.seen++
    kept.lastRows = first
    if (kept.requests.length >= wanted || kept.requests.some((other) => isSame(other, feeds))) return
    kept.bytes += bytes
    kept.rows += first
    kept.requests.push(feeds.map((feed) => feed && copied(feed)))
    for (const [key, shape] of this.#byShape)
      if (this.#bytes > maxBytes && shape !== kept) this.#byShape.delete(key)
  }

  /** Drops the kept requests of a bucket. */
  drop(bucketKey: string): void {
    for (const [key, shape] of this.#byShape) if (shape.bucketKey === bucketKey) this.#byShape.delete(key)
  }

  clear(): void {
    this.#byShape.clear()
  }

  get #bytes(): number {
    let bytes = 0
    for (const shape of this.#byShape.values()) bytes += shape.bytes
    return bytes
  }

  #shapeOf(key: string, bucketKey: string): KeptShape {
    let shape = this.#byShape.get(key)
    if (shape !== undefined) return shape
    if (this.#byShape.size >= maxShapes) this.#byShape.delete(this.#byShape.keys().next().value!) // the oldest
    this.#byShape.set(key, (shape = new KeptShape(bucketKey, this.#model.maxBatchSize)))
    return shape
  }
}

function bytesOf(feeds: readonly Given[]): number {
  return feeds.reduce((sum, { values }) => {
    if (ArrayBuffer.isView(values)) return sum + values.byteLength
    return sum + 2 * (values as readonly string[]).reduce((length, text) => length + text.length, 0)
  }, 0)
}

/** What is equal for requests of one shape. */
function wordOf(feed: Given | null): string {
  if (feed === null) return '-'
  const { dims, axisOfRows, values } = feed
  return `${dims.filter((_, axis) => axis !== axisOfRows).join()}${axisOfRows === -1 ? sharedKey(values) : ''}`
}

function copied({ type, dims, values }: Given): MailedTensor {
  return mailed(type, dims, ArrayBuffer.isView(values) ? copyOf(values, 0, values.length) : [...values])
}

function isSame(kept: TrialFeeds, feeds: readonly (Given | null)[]): boolean {
  return kept.every((own, index) => {
    const other = feeds[index]
    if (own === null || !other) return own === null && !other
    if (own.dims.join() !== other.dims.join()) return false
    if (own.data instanceof ArrayBuffer)
      return Buffer.from(own.data).equals(bytes(other.values as TensorData))
    return own.data.every((text, at) => text === (other.values as readonly string[])[at])
  })
}

const bytes = ({ buffer, byteOffset, byteLength }: TensorData) =>
  new Uint8Array(buffer, byteOffset, byteLength)
