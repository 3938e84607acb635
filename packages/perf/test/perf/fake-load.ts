import { setMaxListeners } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { InferenceError, type ModelMetadata } from '../../../../src/index.ts'
import { ModelCounts } from '../../../../src/observe/model-counts.ts'
import type { Sample, SampleSource } from '../../src/perf/input/sample-source.ts'
import type { LoadClock } from '../../src/perf/load/load.ts'
import type { PerfModel } from '../../src/perf/open-target.ts'
import { FakeClock } from '../../../../test/fake-clock.ts'

/** A clock on which nothing takes time but waiting, and turns of the event loop a little. */
export class FakeLoadClock extends FakeClock implements LoadClock {
  readonly #turnMs: number
  #heldMs = 0

  /** @param turnMs how long a turn takes. Long ones take less time to go through. */
  constructor(turnMs = 0.01) {
    super()
    this.#turnMs = turnMs
  }

  nextTurn(callback: () => void): void {
    this.setTimer(callback, this.#turnMs)
  }

  /** Lets time pass until a promise settles; each timer fires when all that came before has been worked off. */
  async run<T>(promise: Promise<T>): Promise<T> {
    let settled = false
    const end = () => (settled = true)
    promise.then(end, end)
    for (;;) {
      await nextTurn()
      if (settled) return promise
      if (this.nextMs === Infinity) throw new Error('nothing is left that could settle the promise')
      this.advanceTo(Math.max(this.nextMs, this.nowMs()))
      if (this.#heldMs > 0) this.stall(this.#heldMs)
      this.#heldMs = 0
    }
  }

  /** From within a callback: nothing else happens for so long after it. */
  hold(ms: number): void {
    this.#heldMs += ms
  }
}

/** The same request again and again. */
export function oneSample(sample: Partial<Sample> = {}): SampleSource {
  const same: Sample = { feeds: {}, rows: 1, ...sample }
  return { size: 1, next: () => same }
}

const metadata: ModelMetadata = {
  name: 'fake',
  path: '',
  inputs: [],
  outputs: [],
  properties: null,
  unservableOutputs: [],
  executionProviders: [],
  maxBatchSize: 0,
  joining: { rows: 'unknown', how: 'unknown', largestDifference: null, reason: 'it is no model' },
}

/** How a {@link fakeModel} answers. */
export interface FakeService {
  /** How long the request of a number, from 0, is worked at; one that throws, fails. Requests are worked at one after the other, or all at once. */
  readonly serviceMs: (number: number) => number
  readonly servers?: 'one' | 'any'
  /** From when to when nothing is begun. */
  readonly stall?: readonly [fromMs: number, toMs: number]
}

/** A model that takes its time on a clock that stands still. */
export function fakeModel(
  clock: FakeLoadClock,
  { serviceMs, servers = 'any', stall: [stallFromMs, stallToMs] = [Infinity, Infinity] }: FakeService,
): PerfModel & { readonly calls: number } {
  let freeAtMs = 0
  let calls = 0
  const stats = new ModelCounts()
  const infer = (_feeds: unknown, options: { signal?: AbortSignal } = {}) => {
    let doneMs: number
    try {
      const ms = serviceMs(calls++)
      let beginMs = Math.max(clock.nowMs(), servers === 'one' ? freeAtMs : 0)
      if (beginMs >= stallFromMs) beginMs = Math.max(beginMs, stallToMs)
      doneMs = beginMs + ms
    } catch (error) {
      return Promise.reject(error)
    }
    freeAtMs = doneMs
    return new Promise((resolve, reject) => {
      const timer = clock.setTimer(() => resolve({}), doneMs - clock.nowMs())
      if (options.signal !== undefined) setMaxListeners(0, options.signal)
      options.signal?.addEventListener('abort', () => {
        clock.clearTimer(timer)
        reject(options.signal!.reason)
      })
    })
  }
  return {
    name: 'fake',
    version: 1,
    metadata,
    stats: () => stats.snapshot(0),
    infer: infer as never,
    get calls() {
      return calls
    },
  }
}

/** What a full queue refuses with. */
export const queueFull = new InferenceError('ERR_QUEUE_FULL', 'the queue is full')
