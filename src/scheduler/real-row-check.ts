import { checkRequests } from '../instance/row-check.ts'
import type { RunTrial } from '../instance/row-trials.ts'
import { rowsIn, type TrialFeeds } from '../instance/trial-feeds.ts'
import type { InferRequest } from '../request/infer-request.ts'
import { elementCount, storageLength, type ElementType, type MailedTensor, type TensorData } from '../tensor.ts'
import type { TensorMetadata } from '../metadata.ts'
import { plainView } from '../typed-array.ts'
import type { Joining } from './joining.ts'

/** Different requests of equal row shapes that are tried together. */
const wanted = 3
/** After so many requests of a shape two different ones are enough. */
const patience = 16
/** Trials that may show nothing before the question is left open. */
const maxTrials = 4
const maxShapes = 8
const maxBytes = 16 * 2 ** 20

/** Requests that are looked at; of later ones one of so many is. */
const attentiveFor = 64
const lookAtEvery = 16

/** An input as its caller gave it, whatever its object says of itself. */
interface Given {
  readonly type: ElementType
  readonly dims: readonly number[]
  readonly values: TensorData | readonly string[]
}

/** Requests of one shape, kept for a trial. */
interface Kept {
  readonly requests: TrialFeeds[]
  seen: number
}

/**
 * Decides by what callers send whether rows are independent, where made-up rows have shown nothing: keeps copies of the
 * first different requests of a shape, all of which were served alone, runs them again alone and joined, one run at a
 * time between other work, and compares.
 */
export class RealRowCheck {
  readonly #joining: Joining
  readonly #run: RunTrial
  readonly #byShape = new Map<string, Kept>()
  #bytes = 0
  #seen = 0
  #trials = 0
  #busy = false

  constructor(joining: Joining, run: RunTrial) {
    this.#joining = joining
    this.#run = run
  }

  /** To be told of requests that were answered, before their callers hear of it: their data is theirs to change then. */
  served(requests: readonly InferRequest[]): void {
    for (const request of requests) if (!this.#busy && this.#joining.undecided) this.#keep(request)
  }

  #keep({ data, dims, rows }: InferRequest): void {
    // One that stays undecided for long should cost next to nothing.
    if (++this.#seen > attentiveFor && this.#seen % lookAtEvery !== 0) return
    const { stacked } = this.#joining
    const feeds = data.map((values, index): Given | null => {
      const { type, shape } = stacked.inputs[index] as TensorMetadata // others have no rows
      if (values === null) return null
      const own = ArrayBuffer.isView(values) ? plainView(values as TensorData) : (values as readonly string[])
      return { type, dims: dims?.[index] ?? [rows, ...(shape.slice(1) as number[])], values: own }
    })
    const given = feeds.filter((feed) => feed !== null)
    const first = given[0]?.dims[0] ?? 0
    if (first === 0 || 2 * first > stacked.maxBatchSize || given.some((feed) => feed.dims[0] !== first)) return
    // Detached since it was run, or too large to be kept.
    if (given.some(({ type, values, dims }) => values.length !== storageLength(type, elementCount(dims))) || bytesOf(given) > maxBytes / 4) return
    const shape = feeds.map((feed) => feed?.dims.slice(1).join() ?? '-').join(';')
    let kept = this.#byShape.get(shape)
    if (kept === undefined) {
      if (this.#byShape.size >= maxShapes || this.#bytes > maxBytes) this.#forget()
      this.#byShape.set(shape, (kept = { requests: [], seen: 0 }))
    }
    kept.seen++
    if (!kept.requests.some((other) => isSame(other, feeds))) {
      this.#bytes += bytesOf(given)
      kept.requests.push(feeds.map((feed) => feed && copied(feed)))
    }
    const rowsKept = kept.requests.reduce((sum, other) => sum + rowsIn(other), 0)
    const enough = kept.requests.length >= (kept.seen >= patience ? 2 : wanted)
    if (enough || (kept.requests.length > 1 && rowsKept + first > stacked.maxBatchSize)) void this.#try(kept.requests)
  }

  async #try(requests: readonly TrialFeeds[]): Promise<void> {
    this.#busy = true
    this.#trials++
    const { stacked } = this.#joining
    try {
      const verdict = await checkRequests(stacked, requests, stacked.maxBatchSize, this.#joining.tolerance, this.#run)
      this.#joining.found(verdict, this.#trials >= maxTrials)
    } catch {
      // The worker died over it, or the model is being closed: the next requests may decide.
    }
    this.#forget()
    this.#busy = false
  }

  #forget(): void {
    this.#byShape.clear()
    this.#bytes = 0
  }
}

function bytesOf(feeds: readonly Given[]): number {
  return feeds.reduce((sum, { values }) => {
    if (ArrayBuffer.isView(values)) return sum + values.byteLength
    return sum + 2 * (values as readonly string[]).reduce((length, text) => length + text.length, 0)
  }, 0)
}

function copied({ type, dims, values }: Given): MailedTensor {
  return { type, dims, data: ArrayBuffer.isView(values) ? new Uint8Array(bytes(values)).buffer : [...(values as readonly string[])] }
}

function isSame(kept: TrialFeeds, feeds: readonly (Given | null)[]): boolean {
  return kept.every((own, index) => {
    const other = feeds[index]
    if (own === null || !other) return own === null && !other
    if (own.dims[0] !== other.dims[0]) return false
    if (own.data instanceof ArrayBuffer) return Buffer.from(own.data).equals(bytes(other.values as TensorData))
    return own.data.every((text, at) => text === (other.values as readonly string[])[at])
  })
}

const bytes = ({ buffer, byteOffset, byteLength }: TensorData) => new Uint8Array(buffer, byteOffset, byteLength)
