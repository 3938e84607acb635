import { checkRequests } from '../instance/row-check.ts'
import type { RunTrial } from '../instance/row-trials.ts'
import { bytesIn, rowsIn, type TrialFeeds } from '../instance/trial-feeds.ts'
import type { ModelMetadata } from '../metadata.ts'
import type { InferRequest } from '../request/infer-request.ts'
import { elementCount, type MailedTensor, type TensorData } from '../tensor.ts'
import type { Joining } from './joining.ts'

/** Different requests of equal row shapes that are tried together. */
const wanted = 3
/** After so many requests of a shape two different ones are enough. */
const patience = 16
/** Trials that may show nothing before the question is left open. */
const maxTrials = 4
const maxShapes = 8
const maxBytes = 16 * 2 ** 20

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
    const { stacked } = this.#joining
    const ownDims = dims ?? stacked.inputs.map(({ shape }) => [rows, ...(shape.slice(1) as number[])])
    const given = ownDims.filter((_, index) => data[index] !== null)
    if (ownDims.some((own, index) => data[index] !== null && data[index]!.length !== elementCount(own))) return // detached since
    const first = given[0]?.[0] ?? 0
    if (first === 0 || 2 * first > stacked.maxBatchSize || given.some((own) => own[0] !== first)) return
    const shape = ownDims.map((own, index) => (data[index] === null ? '-' : own.slice(1).join())).join(';')
    let kept = this.#byShape.get(shape)
    if (kept === undefined) {
      if (this.#byShape.size >= maxShapes) this.#forget()
      this.#byShape.set(shape, (kept = { requests: [], seen: 0 }))
    }
    kept.seen++
    const feeds = copied(stacked, data, ownDims)
    if (!kept.requests.some((other) => isSame(other, feeds))) {
      this.#bytes += bytesIn(feeds)
      if (this.#bytes > maxBytes) return this.#forget()
      kept.requests.push(feeds)
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
      const verdict = await checkRequests(stacked, requests, stacked.maxBatchSize, this.#run)
      this.#joining.found(verdict, this.#trials === maxTrials)
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

function copied({ inputs }: ModelMetadata, data: InferRequest['data'], dims: readonly (readonly number[])[]): TrialFeeds {
  return data.map((values, index): MailedTensor | null => {
    if (values === null) return null
    const { type } = inputs[index]!
    if (type === 'string') return { type, dims: dims[index]!, data: [...(values as readonly string[])] }
    const { buffer, byteOffset, byteLength } = values as TensorData
    return { type, dims: dims[index]!, data: new Uint8Array(buffer, byteOffset, byteLength).slice().buffer }
  })
}

function isSame(a: TrialFeeds, b: TrialFeeds): boolean {
  return a.every((own, index) => {
    const other = b[index]
    if (own === null || !other) return own === null && !other
    if (!(own.data instanceof ArrayBuffer)) return own.data.join('\0') === (other.data as readonly string[]).join('\0')
    return Buffer.from(own.data).equals(Buffer.from(other.data as ArrayBuffer))
  })
}
