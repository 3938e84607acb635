// Alone in test:full: long histories go slowly in a process with much behind it.
import fc from 'fast-check'
import { describe, it } from 'vitest'
import type { InferOptions, Outputs, ReportedOutputs } from '../../src/index.ts'
import { keptBytes } from '../../src/features/response-cache/kept-answers.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { ensure } from '../queue/ledger.ts'
import { SharedModel, turns, type Call } from './sharing.ts'
import { repetitions } from '../support/full.ts'

const histories = Number(process.env.HISTORIES ?? repetitions(300, 60))

interface Plan {
  readonly maxBatchSize: number
  /** Answers of one row that are kept; 0 for none. */
  readonly kept: number
  readonly coalesce: boolean
  readonly maxQueueSize: number
  readonly ordering: 'none' | 'preserved' | 'levels'
  readonly delays: boolean
  readonly rerunAfterCrash: boolean
  readonly workers: 1 | 2
}

type Step =
  | {
      readonly do: 'call'
      readonly rows: readonly number[]
      readonly priority: number
      readonly timeoutMs: number
      readonly deadlineMs: number
      readonly maxRunMs: number
    }
  /** `call` is taken modulo how many there were. */
  | { readonly do: 'abort'; readonly call: number }
  | { readonly do: 'change input'; readonly call: number; readonly detach: boolean }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'claim'; readonly worker: number }
  | { readonly do: 'finish'; readonly worker: number; readonly fails: boolean }
  | { readonly do: 'die'; readonly worker: number }

interface Known extends Call {
  readonly options: InferOptions
  readonly controller: AbortController
  outcome: unknown
}

const oneRow = keptBytes({ y: new Tensor('float32', new Float32Array(4), [1, 4]) })
const reasons: Record<string, string> = {
  ERR_TIMEOUT: 'timeout',
  ERR_DEADLINE: 'deadline',
  ERR_QUEUE_FULL: 'queueFull',
  ERR_EXECUTION: 'execution',
  ERR_INSTANCE_CRASHED: 'crashed',
  ERR_CLOSED: 'closed',
  aborted: 'cancelled',
}

/** Lives through steps and checks what must hold of them. */
class SharedHistory {
  readonly #model: SharedModel
  readonly #plan: Plan
  readonly #calls: Known[] = []
  readonly #buffers = new Set<ArrayBufferLike>()
  readonly #responses: number[] = [] // in the order in which they came

  constructor(model: SharedModel, plan: Plan) {
    this.#model = model
    this.#plan = plan
  }

  static async begin(plan: Plan): Promise<SharedHistory> {
    const { maxBatchSize, kept, coalesce, maxQueueSize, ordering, delays, rerunAfterCrash, workers } = plan
    const config = {
      maxBatchSize,
      rerunAfterCrash,
      coalesce,
      responseCache: kept > 0 && { maxBytes: kept * oneRow },
      dynamicBatching: {
        preserveOrdering: ordering === 'preserved',
        ...(ordering === 'levels' ? { priorityLevels: 2 } : {}),
        defaultQueuePolicy: {
          maxQueueSize,
          timeoutAction: delays && ordering !== 'preserved' ? ('DELAY' as const) : ('REJECT' as const),
        },
      },
    }
    return new SharedHistory(await SharedModel.open(config, workers), plan)
  }

  async perform(step: Step): Promise<void> {
    if (step.do === 'call') this.#call(step)
    else if (step.do === 'abort') this.#at(step.call)?.controller.abort('aborted')
    else if (step.do === 'change input') this.#changeInput(this.#at(step.call), step.detach)
    else if (step.do === 'advance') this.#model.house.clock.advanceBy(step.ms)
    else if (step.do === 'claim') this.#thread(step.worker).claim()
    else if (step.do === 'finish') this.#thread(step.worker).finish(step.fails ? 'it failed' : null)
    else this.#thread(step.worker).die()
    await new Promise(setImmediate)
    this.#check()
  }

  async end(): Promise<void> {
    const { house, served } = this.#model
    for (let round = 0; this.#calls.some(({ settlements }) => settlements === 0); round++) {
      ensure(
        round < 400,
        () =>
          `these wait for ever: ${this.#calls
            .filter(({ settlements }) => settlements === 0)
            .map(({ id }) => id)
            .join()}`,
      )
      await this.#model.finish()
      if (round > 0) house.clock.advanceBy(1000)
    }
    await this.#model.finish()
    this.#check()
    const { scheduler } = served
    const waiting = [
      scheduler.waiting,
      scheduler.running,
      scheduler.levels.of(1).waiting,
      scheduler.levels.of(2).waiting,
    ]
    ensure(
      waiting.every((count) => count === 0),
      () => `it ends with ${waiting.join()}`,
    )
    ensure(house.keepAlive.holds === 0, () => `the loop is held ${house.keepAlive.holds} times`)
    this.#checkCounts()
    if (this.#plan.ordering === 'preserved') {
      ensure(
        this.#responses.every((id, at) => at === 0 || this.#responses[at - 1]! < id),
        () => `responses came in the order ${this.#responses.join()}`,
      )
    }
    await Promise.all(served.sessions.map((session) => session.close()))
    await Promise.all(house.places.map(({ worker }) => worker.close(1000)))
    ensure(house.clock.timers === 0, () => `${house.clock.timers} timers are left`)
  }

  #call({ rows, priority, timeoutMs, deadlineMs, maxRunMs }: Extract<Step, { do: 'call' }>): void {
    if (this.#model.served.failure !== null) return
    const controller = new AbortController()
    const limits = {
      ...(timeoutMs > 0 ? { timeoutMs } : {}),
      ...(deadlineMs > 0 ? { deadlineMs } : {}),
      ...(maxRunMs > 0 ? { maxRunMs } : {}),
    }
    const options = { priority, signal: controller.signal, ...limits }
    const call: Known = Object.assign(this.#model.call(rows, options), {
      options,
      controller,
      outcome: undefined,
    })
    this.#calls.push(call)
    call.answer.then(
      (answer) => this.#answered(call, answer),
      (reason: { code?: string }) => this.#rejected(call, reason.code ?? (reason as unknown as string)),
    ).catch((error: unknown) => (call.outcome = error)) // prettier-ignore
  }

  #answered(call: Known, { outputs, report }: ReportedOutputs<Outputs>): void {
    const { dims } = outputs.y!
    const data = outputs.y!.data as Float32Array
    const values = [...data]
    ensure(
      dims.join() === `${call.values.length / 4},4` &&
        values.join() === call.values.map((value) => 2 * value).join(),
      () => `#${call.id} was answered with ${values.join()}`,
    )
    ensure(!this.#buffers.has(data.buffer), () => `#${call.id} was answered with memory of another`)
    this.#buffers.add(data.buffer)
    ensure(!(report.cached && report.coalesced), () => 'it is either from the cache or from a run')
    data.fill(-1)
    ;(dims as number[]).fill(0)
    report.batchId = -1
    this.#responses.push(call.id)
    call.outcome = 'answered'
  }

  #rejected(call: Known, code: string): void {
    const { timeoutMs, deadlineMs, maxRunMs, signal } = call.options
    ensure(code in reasons, () => `#${call.id}: ${code}`)
    ensure(
      code !== 'ERR_TIMEOUT' || timeoutMs !== undefined || maxRunMs !== undefined,
      () => `#${call.id} has the timeout of another`,
    )
    ensure(
      code !== 'ERR_DEADLINE' || deadlineMs !== undefined,
      () => `#${call.id} has the deadline of another`,
    )
    ensure(code !== 'aborted' || signal!.aborted, () => `#${call.id} has the abort of another`)
    if (code === 'ERR_EXECUTION') this.#responses.push(call.id)
    call.outcome = code
  }

  #check(): void {
    for (const { id, settlements, outcome, controller } of this.#calls) {
      ensure(settlements <= 1, () => `#${id} was settled ${settlements} times`)
      ensure(outcome === undefined || typeof outcome === 'string', () => `#${id}: ${String(outcome)}`)
      ensure(!controller.signal.aborted || settlements === 1, () => `#${id} was aborted and is not settled`)
    }
    const { bytes } = this.#model.sharing.totals.counts
    ensure(bytes <= this.#plan.kept * oneRow, () => `${bytes} bytes are kept`)
  }

  #checkCounts(): void {
    const { inferenceStats, rejections, responseCache } = this.#model.stats()
    const { hits, misses, coalesced } = responseCache!
    ensure(
      hits + misses + coalesced === this.#calls.length,
      () => `${hits} hits, ${misses} misses and ${coalesced} coalesced are not ${this.#calls.length}`,
    )
    ensure(this.#plan.kept > 0 || hits === 0, () => 'hits without a cache')
    ensure(this.#plan.coalesce || coalesced === 0, () => 'coalesced without being asked to')
    const ended = (outcome: string) => this.#calls.filter((call) => call.outcome === outcome).length
    ensure(
      inferenceStats.success.count === ended('answered'),
      () => `${inferenceStats.success.count} successes`,
    )
    for (const [code, reason] of Object.entries(reasons)) {
      const counted = rejections[reason as keyof typeof rejections]
      ensure(counted === ended(code), () => `${counted} ${reason}, ${ended(code)} ${code}`)
    }
    ensure(
      inferenceStats.success.count + inferenceStats.fail.count === this.#calls.length,
      () => 'not every call is counted once',
    )
  }

  #changeInput(call: Known | undefined, detach: boolean): void {
    if (call === undefined || call.data.length === 0) return
    if (detach) structuredClone(call.data.buffer, { transfer: [call.data.buffer as ArrayBuffer] })
    else call.data.fill(77)
  }

  #thread(worker: number) {
    return this.#model.house.places[worker % this.#plan.workers]!.threads.current
  }

  #at(call: number): Known | undefined {
    return this.#calls[call % Math.max(1, this.#calls.length)]
  }
}

const row = fc.constantFrom(1, 1, 2)
const call: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('call' as const),
  rows: fc.oneof(
    { weight: 4, arbitrary: fc.tuple(row) },
    fc.tuple(row, row),
    fc.constant([1, 2, 1, 2, 1, 2]),
  ),
  priority: fc.constantFrom(0, 0, 1, 2),
  timeoutMs: fc.constantFrom(0, 0, 0, 2, 7),
  deadlineMs: fc.constantFrom(0, 0, 0, 0, 6, 40),
  maxRunMs: fc.constantFrom(0, 0, 0, 0, 3),
})
const abort: fc.Arbitrary<Step> = fc.record({ do: fc.constant('abort' as const), call: fc.nat(40) })
const changeInput: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('change input' as const),
  call: fc.nat(40),
  detach: fc.boolean(),
})
const advance: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('advance' as const),
  ms: fc.constantFrom(0, 1, 3, 150),
})
const claim: fc.Arbitrary<Step> = fc.record({ do: fc.constant('claim' as const), worker: fc.nat(1) })
const finish: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('finish' as const),
  worker: fc.nat(1),
  fails: fc.constantFrom(false, false, false, true),
})
const die: fc.Arbitrary<Step> = fc.record({ do: fc.constant('die' as const), worker: fc.nat(1) })

const plan: fc.Arbitrary<Plan> = fc
  .record({
    maxBatchSize: fc.constantFrom(1, 2, 4),
    kept: fc.constantFrom(0, 1, 2, 100),
    coalesce: fc.constantFrom(true, true, true, false),
    maxQueueSize: fc.constantFrom(0, 0, 2),
    ordering: fc.constantFrom('none' as const, 'preserved' as const, 'levels' as const),
    delays: fc.constantFrom(false, false, true),
    rerunAfterCrash: fc.boolean(),
    workers: fc.constantFrom(1 as const, 1 as const, 2 as const),
  })
  .filter(({ kept, coalesce }) => kept > 0 || coalesce)

const kinds: [name: string, step: fc.Arbitrary<Step>][] = [
  [
    'come, leave and are served',
    fc.oneof(
      { weight: 8, arbitrary: call },
      { weight: 4, arbitrary: finish },
      { weight: 2, arbitrary: claim },
      { weight: 3, arbitrary: abort },
      { weight: 2, arbitrary: changeInput },
      advance,
    ),
  ],
  [
    'have limits',
    fc.oneof(
      { weight: 8, arbitrary: call },
      { weight: 2, arbitrary: finish },
      { weight: 2, arbitrary: claim },
      { weight: 6, arbitrary: advance },
      abort,
    ),
  ],
  [
    'have workers that die',
    fc.oneof(
      { weight: 8, arbitrary: call },
      { weight: 3, arbitrary: finish },
      { weight: 2, arbitrary: claim },
      { weight: 2, arbitrary: die },
      abort,
      advance,
    ),
  ],
]

describe('callers of a model whose requests share answers and runs each get what a model without gives, once, and nothing is left', () => {
  it.each(kinds)('when they %s', async (_name, step) => {
    const property = fc.asyncProperty(
      plan,
      fc.array(step, { minLength: 1, maxLength: 40, size: 'max' }),
      async (drawn, steps) => {
        const history = await SharedHistory.begin(drawn)
        for (const each of steps) await history.perform(each)
        await history.end()
      },
    )
    await fc.assert(property, { numRuns: histories })
    await turns()
  })
})
