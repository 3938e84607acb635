import { ensure } from '../queue/ledger.ts'
import { House, Served, settled, type Sent } from './serving.ts'

/** How two models on two workers are configured. */
export interface Plan {
  /** Workers on which each model has an instance. */
  readonly instances: 1 | 2
  readonly maxBatchSize: number
  readonly maxQueueSize: number
  readonly maxQueueDelayMs: number
  /** Whether timeouts delay instead of rejecting. */
  readonly delays: boolean
  readonly rerunAfterCrash: boolean
  readonly preserveOrdering: boolean
  /** 0 for none. */
  readonly maxRunMs: number
  /** Whether runs can be told to stop. */
  readonly canStop: boolean
}

/** One event. `request` is taken modulo how many there were. */
export type Step =
  | {
      readonly do: 'arrive'
      readonly model: number
      readonly rows: number
      readonly length: number
      readonly priority: number
      readonly timeoutMs: number
      readonly deadlineMs: number
      readonly maxRunMs: number
    }
  | { readonly do: 'abort'; readonly request: number }
  | { readonly do: 'detach'; readonly request: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'claim'; readonly worker: number }
  | { readonly do: 'finish'; readonly worker: number; readonly fails: boolean }
  | { readonly do: 'die'; readonly worker: number; readonly knownFirst: boolean }
  /** The next start, or opening of a session, on a worker fails. */
  | { readonly do: 'refuse'; readonly worker: number; readonly what: 'start' | 'open' }
  | { readonly do: 'take back'; readonly model: number }
  /** A model is to have so many instances. */
  | { readonly do: 'scale'; readonly model: number; readonly count: number }
  /** A run that was left to itself comes to its end. */
  | { readonly do: 'end left'; readonly worker: number }
  | { readonly do: 'unload'; readonly model: number; readonly destroys: boolean }

interface Known extends Sent {
  readonly id: number
  readonly model: number
  readonly lane: string
  readonly controller: AbortController
  readonly plain: boolean
  outcome: unknown
}

const known = new Set([
  'ERR_TIMEOUT',
  'ERR_DEADLINE',
  'ERR_QUEUE_FULL',
  'ERR_EXECUTION',
  'ERR_INSTANCE_CRASHED',
  'ERR_CLOSED',
  'ERR_INVALID_ARG',
  'aborted',
])

/** Lives through a history of {@link Step}s and checks what must hold of it. */
export class History {
  readonly #house: House
  readonly #models: readonly Served[]
  readonly #plan: Plan
  readonly #sent: Known[] = []
  readonly #unloaded = new Set<Served>()
  readonly #refused: { start: number; open: number }[]
  /** Scalings that go on, and whether there was any. */
  readonly #scalings = new Set<Promise<void>>()
  #scaled = false
  #tooMany: string | null = null
  /** The last request answered, by lane. */
  readonly #last = new Map<string, Known>()

  private constructor(house: House, models: readonly Served[], plan: Plan) {
    this.#house = house
    this.#models = models
    this.#plan = plan
    this.#refused = house.places.map(({ threads }) => {
      const refused = { start: 0, open: 0 }
      const refuse = async (what: 'start' | 'open') => {
        if (refused[what] === 0) return
        refused[what]--
        throw new Error(`no ${what}`)
      }
      threads.onStart = () => refuse('start')
      threads.onOpen = () => refuse('open')
      threads.canStop = plan.canStop
      return refused
    })
  }

  static async begin(plan: Plan): Promise<History> {
    const house = await House.open(2)
    const config = {
      maxBatchSize: plan.maxBatchSize,
      rerunAfterCrash: plan.rerunAfterCrash,
      ...(plan.maxRunMs > 0 ? { maxRunMs: plan.maxRunMs } : {}),
      dynamicBatching: {
        ...(plan.preserveOrdering ? {} : { priorityLevels: 2, defaultPriorityLevel: 2 }),
        maxQueueDelayMs: plan.maxQueueDelayMs,
        preserveOrdering: plan.preserveOrdering,
        defaultQueuePolicy: {
          maxQueueSize: plan.maxQueueSize,
          timeoutAction: plan.delays && !plan.preserveOrdering ? ('DELAY' as const) : ('REJECT' as const),
        },
      },
    }
    const places = house.places.slice(0, plan.instances)
    const first = await Served.on(house, 'a', places, config)
    const second = await Served.on(house, 'b', places, config)
    return new History(house, [first, second], plan)
  }

  async perform(step: Step): Promise<void> {
    if (step.do === 'arrive') this.#arrive(step)
    else if (step.do === 'abort') this.#at(step.request)?.controller.abort('aborted')
    else if (step.do === 'detach') this.#detach(this.#at(step.request))
    else if (step.do === 'advance') this.#house.clock.advanceBy(step.ms)
    else if (step.do === 'claim') this.#thread(step.worker).claim()
    else if (step.do === 'finish') this.#finish(step.worker, step.fails)
    else if (step.do === 'die') this.#thread(step.worker).die('it died', step.knownFirst)
    else if (step.do === 'refuse') this.#refused[step.worker]![step.what]++
    else if (step.do === 'take back') this.#models[step.model]!.scheduler.instances.revokePrefetched()
    else if (step.do === 'scale') this.#scale(this.#models[step.model]!, step.count)
    else if (step.do === 'end left') this.#house.places[step.worker]!.threads.onDetached.shift()?.()
    else await this.#unload(this.#models[step.model]!, step.destroys)
    // A batch that was taken back by hand is offered by hand.
    if (step.do === 'take back') this.#models[step.model]!.scheduler.wake()
    await new Promise(setImmediate)
    this.#check()
  }

  /** Lets everything come to its end. */
  async end(): Promise<void> {
    const { clock, places, keepAlive } = this.#house
    for (let round = 0; this.#pending.length > 0; round++) {
      ensure(round < 400, () => `these wait for ever: ${this.#pending.map(({ id }) => id).join()}`)
      await settled()
      for (const { threads } of places) while (threads.current.finish()) this.#check()
      await settled()
      if (this.#pending.length > 0)
        clock.advanceTo(Math.max(clock.nowMs(), Math.min(clock.nextMs, clock.nowMs() + 10_000)))
    }
    await settled()
    // Parts of split requests that nobody wants any more may still run.
    for (const { threads } of places) while (threads.current.finish()) await settled()
    for (const { threads } of places) for (const end of threads.onDetached.splice(0)) end()
    this.#check()
    for (const [index, { scheduler }] of this.#models.entries()) {
      const counts = [
        scheduler.pending,
        scheduler.running,
        scheduler.levels.of(1).waiting,
        scheduler.levels.of(2).waiting,
        scheduler.levels.of(1).rows,
        scheduler.levels.of(2).rows,
      ]
      ensure(
        counts.every((count) => count === 0),
        () => `model ${index} ends with ${counts.join()}`,
      )
    }
    ensure(keepAlive.holds === 0, () => `the loop is held ${keepAlive.holds} times`)
    for (const model of this.#models) await this.#unload(model)
    ensure(this.#scalings.size === 0, () => `${this.#scalings.size} scalings never end`)
    const closed = Promise.all(places.map(({ worker }) => worker.close(1000)))
    await settled()
    await closed
    ensure(clock.timers === 0, () => `${clock.timers} timers are left`)
    for (const sent of this.#sent)
      ensure(sent.settlements === 1, () => `#${sent.id} was settled ${sent.settlements} times`)
  }

  get #pending(): Known[] {
    return this.#sent.filter(({ settlements }) => settlements === 0)
  }

  #arrive({
    model: index,
    rows,
    length,
    priority,
    timeoutMs,
    deadlineMs,
    maxRunMs,
  }: Extract<Step, { do: 'arrive' }>): void {
    const model = this.#models[index]!
    if (model.failure !== null || this.#unloaded.has(model)) return
    const id = this.#sent.length
    const controller = new AbortController()
    const limits = {
      ...(timeoutMs > 0 ? { timeoutMs } : {}),
      ...(deadlineMs > 0 ? { deadlineMs } : {}),
      ...(maxRunMs > 0 ? { maxRunMs } : {}),
    }
    const sent = model.send(id + 1, { rows, length, priority, signal: controller.signal, ...limits })
    const plain = rows <= this.#plan.maxBatchSize
    const lane = `${index} ${sent.request.level.level} ${length}`
    const entry: Known = Object.assign(sent, {
      id,
      model: index,
      lane,
      controller,
      plain,
      outcome: undefined,
    })
    this.#sent.push(entry)
    entry.answer.then(
      ({ outputs, report }) => {
        const y = outputs.y!
        const right = y.data.length === rows * length && (y.data as Float32Array).every((value) => value === 2 * (id + 1))
        entry.outcome = right ? 'answered' : `wrong: ${String(y.data)}`
        ensure(right, () => `#${id} was answered wrongly`)
        if (!plain) return
        ensure(report.batchSize <= this.#plan.maxBatchSize, () => `#${id} was in a batch of ${report.batchSize}`)
        this.#checkOrder(entry, report.attempts)
      },
      (reason: { code?: string }) => (entry.outcome = reason.code ?? reason),
    ).catch((error: unknown) => (entry.outcome = error)) // prettier-ignore
  }

  /** First come, first served, among those of a lane that ran once; of two instances one may be slower. */
  #checkOrder(entry: Known, attempts: number): void {
    const { request, id, lane } = entry
    if (attempts > 1 || request.delayed || this.#plan.instances > 1 || this.#scaled) return
    const last = this.#last.get(lane)
    ensure(last === undefined || last.id < id, () => `#${id} was answered after #${last!.id}`)
    this.#last.set(lane, entry)
  }

  #detach(sent: Known | undefined): void {
    const x = sent?.request.data[0] as Float32Array | undefined
    if (x !== undefined && x.byteLength > 0 && sent!.plain && sent!.settlements === 0)
      structuredClone(x.buffer, { transfer: [x.buffer as ArrayBuffer] })
  }

  #finish(worker: number, fails: boolean): void {
    this.#thread(worker).finish(fails ? 'it failed' : null, 2)
  }

  #scale(model: Served, count: number): void {
    if (this.#unloaded.has(model) || model.failure !== null) return
    this.#scaled = true
    const scaling = model.scale(count).then(
      () => {
        if (!model.scaling.changing && model.instances.length > count)
          this.#tooMany = `${model.instances.length} instances, not ${count}`
      },
      () => {}, // for want of a thread, or of the model
    )
    this.#scalings.add(scaling)
    void scaling.finally(() => this.#scalings.delete(scaling))
  }

  async #unload(model: Served, destroys = false): Promise<void> {
    if (this.#unloaded.has(model)) return
    this.#unloaded.add(model)
    if (destroys) model.scheduler.destroy()
    else model.scheduler.rejectWaiting()
    const { places } = this.#house
    const drained = model.scheduler.drained()
    let ended = false
    void drained.then(() => (ended = true))
    for (let round = 0; !ended; round++) {
      ensure(round < 100, () => 'what runs never comes to its end')
      for (const { threads } of places) threads.current.finish()
      await settled()
      this.#house.clock.advanceBy(1000)
    }
    let closed = false
    const closing = model.close().then(() => (closed = true))
    for (let round = 0; !closed; round++) {
      ensure(round < 100, () => 'it is never closed')
      await settled()
      for (const { threads } of places) while (threads.current.finish());
      if (round > 0) this.#house.clock.advanceBy(1000)
    }
    await closing
  }

  #check(): void {
    for (const sent of this.#sent) {
      ensure(sent.settlements <= 1, () => `#${sent.id} was settled ${sent.settlements} times`)
      const { outcome } = sent
      ensure(
        outcome === undefined || outcome === 'answered' || known.has(outcome as string),
        () => `#${sent.id}: ${String(outcome)}`,
      )
    }
    ensure(this.#tooMany === null, () => this.#tooMany!)
    for (const { scheduler } of this.#models)
      ensure(scheduler.waiting >= 0 && scheduler.running >= 0, () => 'a count fell below 0')
  }

  #thread(worker: number) {
    return this.#house.places[worker]!.threads.current
  }

  #at(index: number): Known | undefined {
    return this.#sent[index % Math.max(1, this.#sent.length)]
  }
}
