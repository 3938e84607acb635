import { LRUCache } from 'lru-cache'
import type { BatchReport } from '../../options/infer-options.ts'
import type { AnyOutputs } from '../../options/model-signature.ts'
import { copyOutputs, keptBytes } from './own-copies.ts'
import { copyReport } from './reports.ts'

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
