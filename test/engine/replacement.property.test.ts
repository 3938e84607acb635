// Alone in test:full: long histories go slowly in a process with much behind it.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { InferenceEngine, type InferenceError, type ModelConfig } from '../../src/index.ts'
import { markedModel, markOf } from '../support/versions.ts'
import { repetitions } from '../support/full.ts'

/** What callers do to one name, of which versions 1 and 2 come and go; none waits for another. */
type Step =
  | { readonly do: 'load' | 'load nonsense'; readonly version: number }
  | { readonly do: 'load and abort'; readonly version: number; readonly turns: number }
  | { readonly do: 'unload'; readonly version: number | undefined }
  | { readonly do: 'infer'; readonly version: number | undefined; readonly value: number }
  | { readonly do: 'stream' }
  /** Requests, some each turn, until a load has ended. */
  | { readonly do: 'busy'; readonly version: number | undefined; readonly perTurn: number }
  | { readonly do: 'wait'; readonly turns: number }

const version = fc.constantFrom(1, 2)
const ofAny = fc.constantFrom(1, 2, undefined)
const infer = fc.record({
  do: fc.constant('infer' as const),
  version: ofAny,
  value: fc.integer({ min: 1, max: 9 }),
})
const busy = fc.record({
  do: fc.constant('busy' as const),
  version: ofAny,
  perTurn: fc.integer({ min: 1, max: 20 }),
})
const wait = fc.record({ do: fc.constant('wait' as const), turns: fc.integer({ min: 1, max: 60 }) })
const step: fc.Arbitrary<Step> = fc.oneof(
  { arbitrary: fc.record({ do: fc.constant('load' as const), version }), weight: 5 },
  { arbitrary: fc.record({ do: fc.constant('load nonsense' as const), version }), weight: 1 },
  {
    arbitrary: fc.record({
      do: fc.constant('load and abort' as const),
      version,
      turns: fc.integer({ min: 0, max: 40 }),
    }),
    weight: 2,
  },
  { arbitrary: fc.record({ do: fc.constant('unload' as const), version: ofAny }), weight: 1 },
  { arbitrary: infer, weight: 12 },
  { arbitrary: fc.constant<Step>({ do: 'stream' }), weight: 1 },
  { arbitrary: busy, weight: 6 },
  { arbitrary: wait, weight: 4 },
)
const endings = ['close', 'destroy', 'unload'] as const

/** Why a request may be refused, or a load end otherwise. */
const refusals = ['ERR_MODEL_NOT_FOUND', 'ERR_MODEL_NOT_READY', 'ERR_CLOSED']

class History {
  readonly engine = new InferenceEngine({ cpuWorkers: 2 })
  /** By mark. */
  readonly #versionOf = new Map<number, number>()
  readonly #underWay: Promise<void>[] = []
  /** By version, the marks of loads in the order of their calls, `null` for an unload. */
  readonly #loaded = new Map<number, (number | null)[]>([
    [1, []],
    [2, []],
  ])
  readonly #succeeded = new Set<number>()
  #destroyed = false
  #loads = 0 // under way
  #marks = 0

  /** Does it and looks at what comes of it; returns at once but for turns. */
  async take(step: Step): Promise<void> {
    if (step.do === 'wait') return this.#turns(step.turns)
    if (step.do === 'busy') return this.#busy(step.version, step.perTurn)
    if (step.do === 'load and abort') return this.#abort(step.version, step.turns)
    if (step.do === 'load') this.#load(step.version)
    else if (step.do === 'infer') this.#infer(step.version, step.value)
    else if (step.do === 'load nonsense')
      this.#expect(this.engine.load('m', { bytes: Uint8Array.of(1), version: step.version }), [
        'ERR_MODEL_LOAD',
        'ERR_CLOSED',
      ])
    else if (step.do === 'unload') this.#unload(step.version)
    else this.#stream()
  }

  /** Ends it all; what serves before is what was loaded last. */
  async end(how: (typeof endings)[number]): Promise<void> {
    if (how === 'unload') {
      await Promise.all(this.#underWay.splice(0))
      await this.#checkServing()
      for (const { name } of this.engine.models()) await this.engine.unload(name)
    } else {
      this.#destroyed = how === 'destroy'
      await this.engine[how]()
    }
    await Promise.all(this.#underWay)
    expect(this.engine.models().every(({ state }) => state === 'closed')).toBe(true)
    expect(this.engine.stats().staging?.usedBytes ?? 0).toBe(0)
    await this.engine.destroy()
  }

  #config(version: number): { readonly mark: number; readonly config: ModelConfig } {
    const mark = ++this.#marks * 16
    this.#versionOf.set(mark, version)
    return {
      mark,
      config: { bytes: markedModel(mark), version, warmup: false, checkRows: false, maxBatchSize: 4 },
    }
  }

  #load(version: number): void {
    const { mark, config } = this.#config(version)
    this.#loaded.get(version)!.push(mark)
    this.#loads++
    const loading = this.engine
      .load('m', config)
      .then(() => void this.#succeeded.add(mark))
      .finally(() => this.#loads--)
    this.#expect(loading, ['ERR_CLOSED'])
  }

  async #abort(version: number, turns: number): Promise<void> {
    const { mark, config } = this.#config(version)
    this.#loaded.get(version)!.push(mark)
    const controller = new AbortController()
    const loading = this.engine.load('m', config, { signal: controller.signal })
    this.#expect(
      loading.then(() => void this.#succeeded.add(mark)),
      ['aborted', 'ERR_CLOSED'],
    )
    await this.#turns(turns)
    controller.abort({ code: 'aborted' })
  }

  #unload(version: number | undefined): void {
    for (const of of version === undefined ? [1, 2] : [version]) this.#loaded.get(of)!.push(null)
    this.#expect(this.engine.unload('m', version === undefined ? {} : { version }), ['ERR_MODEL_NOT_FOUND'])
  }

  #infer(version: number | undefined, value: number): void {
    const feeds = { x: new Float32Array(4).fill(value) }
    const wasReady = this.#isReady(version)
    const answer = this.engine.infer('m', feeds, version === undefined ? {} : { version }).then((outputs) => {
      const answeredBy = this.#versionOf.get(markOf(outputs, value))
      expect(answeredBy).toBeDefined()
      if (version !== undefined) expect(answeredBy).toBe(version)
    })
    // What is accepted is answered, whatever is loaded or unloaded meanwhile.
    this.#expect(answer, wasReady ? [] : refusals)
  }

  async #busy(version: number | undefined, perTurn: number): Promise<void> {
    const before = this.#loads
    for (let turns = 0; turns < 3000 && this.#loads === before && before > 0; turns++) {
      for (let count = 0; count < perTurn; count++) this.#infer(version, 1 + (count % 9))
      await this.#turns(1)
    }
  }

  #stream(): void {
    if (!this.#isReady(undefined)) return
    const consume = async () => {
      const items = Array.from({ length: 30 }, () => ({ x: new Float32Array(4).fill(1) }))
      for await (const { outputs, error } of this.engine.model('m').inferMany(items, { maxInFlight: 4 })) {
        if (error) throw error
        expect(this.#versionOf.has(markOf(outputs, 1))).toBe(true)
      }
    }
    this.#expect(consume(), refusals) // its model may be unloaded while it goes on
  }

  #isReady(version: number | undefined): boolean {
    try {
      return this.engine.model('m', version).state === 'ready'
    } catch {
      return false
    }
  }

  /** Of each version the last load that succeeded serves, unless it was unloaded since. */
  async #checkServing(): Promise<void> {
    for (const [version, loads] of this.#loaded) {
      const last = loads.filter((mark) => mark === null || this.#succeeded.has(mark)).at(-1) ?? null
      expect(this.#isReady(version)).toBe(last !== null)
      if (last === null) continue
      const outputs = await this.engine.infer('m', { x: new Float32Array(4).fill(1) }, { version })
      expect(markOf(outputs, 1)).toBe(last)
    }
  }

  /** That a promise is fulfilled, or rejects with one of these codes; all do when the engine is destroyed. */
  #expect(promise: Promise<unknown>, codes: readonly string[]): void {
    const checked = promise.then(
      () => {},
      (error: InferenceError) => {
        if (!(this.#destroyed && error.code === 'ERR_CLOSED') && !codes.includes(error.code)) throw error
      },
    )
    checked.catch(() => {}) // it is looked at in the end
    this.#underWay.push(checked)
  }

  async #turns(turns: number): Promise<void> {
    for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
  }
}

it(
  'whatever is loaded, replaced, aborted and unloaded at once, each request is answered by one model, and what was loaded last serves',
  { timeout: 120_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 5, maxLength: 30 }),
        fc.constantFrom(...endings),
        async (steps, ending) => {
          const history = new History()
          for (const step of steps) await history.take(step)
          await history.end(ending)
        },
      ),
      {
        numRuns: Number(process.env['HISTORIES'] ?? repetitions(40, 8)),
        interruptAfterTimeLimit: 90_000,
        markInterruptAsFailure: false,
      },
    )
  },
)
