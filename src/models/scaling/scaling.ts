import { availableCores } from '../../base/available-resources.ts'
import type { Clock } from '../../base/clock.ts'
import { invalidArgument } from '../../errors.ts'
import type { AutoTuneStatistics } from '../../observe/model-statistics.ts'
import { maxInstances } from '../../options/instance-groups.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { ThreadEndedError } from '../../run/executors/executor.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import type { WarmUp } from '../warm-up.ts'
import { Autoscaler, type Autoscaled, type InstanceUse } from './autoscaler.ts'
import type { InstanceLife, ModelInstances, More, Seat } from './model-instances.ts'
import { ThroughputTuner, type Tuned } from './throughput-tuner.ts'

/** Changes a model's number of instances while it serves: one change at a time, each completely or not at all. */
export class Scaling implements Autoscaled {
  readonly #config: ResolvedConfig
  readonly #instances: ModelInstances
  readonly #scheduler: Scheduler
  readonly #warmUp: WarmUp
  readonly #model: string
  /** Settles when no change is in progress. */
  #last: Promise<void> = Promise.resolve()
  #changes = 0
  #stopped = false
  /** Called after each change, whether or not it succeeded. */
  onChange: (changed: boolean) => void = () => {}

  constructor(config: ResolvedConfig, instances: ModelInstances, scheduler: Scheduler, warmUp: WarmUp) {
    this.#model = scheduler.metadata.name
    this.#config = config
    this.#instances = instances
    this.#scheduler = scheduler
    this.#warmUp = warmUp
  }

  /**
   * Sets the number of instances of a kind. Changes run one after the other.
   *
   * @param kind may be left out if there is only one.
   * @throws InferenceError `ERR_INVALID_ARG`; otherwise rejects with the error that kept instances from opening.
   */
  scale(kind: string | undefined, count: number): Promise<void> {
    const groups = this.#groupsOf(kind)
    this.#checkCount(groups, count)
    return this.#inTurn(() => {
      const counts = divide(
        groups.map((group) => ({ ...this.#config.instanceGroup[group]!, count: this.#countOf(group) })),
        count,
      )
      return this.#set(groups.map((group, index) => [group, counts[index]!]))
    })
  }

  /**
   * Sets the number of instances of a CPU group that divide the cores among them. Instances whose number of threads
   * changes are replaced.
   */
  divide(group: number, count: number, cores: number): Promise<void> {
    const given = this.#config.sessionOptions.intraOpNumThreads !== undefined
    const intraOpNumThreads = Math.max(1, Math.floor(cores / count))
    return this.#inTurn(() => {
      const [seat] = this.#seatsOf(group)
      const isSame =
        given || seat!.placement.kind !== 'cpu' || seat!.placement.intraOpNumThreads === intraOpNumThreads
      return isSame
        ? this.#set([[group, count]])
        : this.#replace({ ...seat!, placement: { ...seat!.placement, intraOpNumThreads } }, count)
    })
  }

  resize(group: number, count: number): Promise<void> {
    return this.#inTurn(() => this.#set([[group, count]]))
  }

  get changing(): boolean {
    return this.#changes > 0
  }

  get anyIdle(): boolean {
    return this.#scheduler.instances.anyIdle
  }

  get oldestAtMs(): number {
    return this.#scheduler.oldestAtMs
  }

  usesOf(group: number): readonly InstanceUse[] {
    const byDevice = this.#seatsOf(group).map(({ placement }) => this.#on(group, placement.gpu))
    return byDevice.reduce((a, b) => (b.length > a.length ? b : a))
  }

  /** Starts no further change, and cancels one that adds instances. Resolves when none is in progress. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#instances.stopOpening()
    await this.#last
  }

  async #inTurn(change: () => Promise<boolean>): Promise<void> {
    this.#changes++
    const changing = this.#last.then(change)
    this.#last = changing.then(
      () => {},
      () => {},
    )
    let changed = false
    try {
      changed = await changing
    } finally {
      this.#changes--
      this.onChange(changed)
    }
  }

  /** Sets the number of instances of groups on each of their devices; false if nothing changes. */
  async #set(wanted: readonly (readonly [group: number, count: number])[]): Promise<boolean> {
    this.#checkServes()
    const more: More[] = []
    const leaving: InstanceLife[] = []
    for (const [group, count] of wanted) {
      for (const seat of this.#seatsOf(group)) {
        const present = this.#on(group, seat.placement.gpu)
        if (present.length < count) more.push({ beside: seat, count: count - present.length })
        else leaving.push(...this.#leastMissed(present).slice(0, present.length - count))
      }
    }
    if (more.length > 0) await this.#grow(more)
    await this.#takeOut(leaving)
    return more.length + leaving.length > 0
  }

  /** Replaces the instances that serve there. */
  async #replace(beside: Seat, count: number): Promise<boolean> {
    this.#checkServes()
    const insteadOf = this.#on(beside.group, beside.placement.gpu)
    await this.#grow([{ beside, count, insteadOf }])
    await this.#takeOut(insteadOf)
    return true
  }

  async #takeOut(lives: readonly InstanceLife[]): Promise<void> {
    await Promise.all(lives.map((life) => this.#instances.takeOut(life, this.#scheduler)))
  }

  #checkServes(): void {
    if (this.#stopped) throw new ThreadEndedError()
    this.#instances.checkWanted()
  }

  async #grow(more: readonly More[]): Promise<void> {
    const instances = this.#instances
    try {
      await instances.open(more)
      await instances.warm(this.#warmUp)
      await instances.reserve(this.#scheduler.metadata)
    } catch (error) {
      await instances.closeOpening()
      throw error
    }
    instances.serve(this.#scheduler)
  }

  /**
   * Instances in the order of removal: first those that do not serve at present, then idle ones before busy ones, with
   * those that share a worker first; among equals the newest first.
   */
  #leastMissed(lives: readonly InstanceLife[]): InstanceLife[] {
    const cost = ({ session, seat, idleSinceMs }: InstanceLife) => {
      if (!session.ready) return 0
      const alone = lives.filter((other) => other.seat.worker === seat.worker).length === 1
      return (alone ? 2 : 1) + (idleSinceMs === null ? 2 : 0)
    }
    return lives.toReversed().sort((a, b) => cost(a) - cost(b))
  }

  #groupsOf(kind: string | undefined): number[] {
    const kinds = this.#config.instanceGroup.map((group, index) => [
      group.kind,
      this.#seatsOf(index)[0]!.placement.kind,
    ])
    const names = [...new Set(kinds.flat())].map((name) => `'${name}'`).join(', ')
    const different = new Set(kinds.map(([, resolved]) => resolved))
    const wrong = (expected: string) =>
      invalidArgument('options.kind', expected, kind, { model: this.#model })
    if (kind === undefined && different.size > 1)
      throw wrong(`one of ${names}, as the model has instances of several kinds`)
    const groups = [...kinds.keys()].filter((group) => kind === undefined || kinds[group]!.includes(kind))
    if (groups.length === 0) throw wrong(`a kind of which the model has a group (${names})`)
    return groups
  }

  #checkCount(groups: readonly number[], count: number): void {
    const of = groups.map((group) => this.#config.instanceGroup[group]!)
    const wrong = (expected: string) =>
      invalidArgument('options.count', expected, count, { model: this.#model })
    if (of.some(({ minInstances, maxInstances: most }) => minInstances < most)) {
      const least = of.reduce((sum, { minInstances }) => sum + minInstances, 0)
      const most = of.reduce((sum, group) => sum + group.maxInstances, 0)
      if (count < least || count > most)
        throw wrong(`from ${least} to ${most}, as minInstances and maxInstances say`)
    }
    const devices = Math.max(...groups.map((group) => this.#seatsOf(group).length))
    const others = this.#instances.serving.filter(({ seat }) => !groups.includes(seat.group)).length
    const room = Math.floor((maxInstances - others) / devices)
    if (count > room) throw wrong(`at most ${room}, as a model has at most ${maxInstances} instances in all`)
  }

  #seatsOf(group: number): readonly Seat[] {
    return this.#instances.seats.filter((seat) => seat.group === group)
  }

  #on(group: number, gpu: number): InstanceLife[] {
    return this.#instances.serving.filter(({ seat }) => seat.group === group && seat.placement.gpu === gpu)
  }

  #countOf(group: number): number {
    return Math.max(...this.#seatsOf(group).map(({ placement }) => this.#on(group, placement.gpu).length))
  }
}

/** The number of instances of a group, with its limits. */
interface Divided {
  readonly count: number
  readonly minInstances: number
  readonly maxInstances: number
}

/**
 * Divides `total` instances among similar groups. Starts from the present numbers; adds to the first group that is
 * below its maximum, or removes from the last one that is above its minimum. If no group may change, adds to the last
 * or removes from the first.
 */
export function divide(groups: readonly Divided[], total: number): number[] {
  const counts = groups.map(({ count }) => count)
  const sum = () => counts.reduce((all, count) => all + count, 0)
  while (sum() < total) {
    const first = groups.findIndex(({ maxInstances }, index) => counts[index]! < maxInstances)
    counts[first === -1 ? counts.length - 1 : first]!++
  }
  while (sum() > total) {
    const last = groups.findLastIndex(({ minInstances }, index) => counts[index]! > minInstances)
    const most = counts.findIndex((count) => count > 0)
    counts[last === -1 ? most : last]!--
  }
  return counts
}

/** Autoscales a model's instances, or tunes their number, as its configuration says. */
export class ScaleWatch {
  readonly #autoscaler: Autoscaler | null
  readonly #newTuner: (() => ThroughputTuner) | null
  readonly #scheduler: Scheduler
  #tuner: ThroughputTuner | null
  #isClosed = false

  /** @param failed called with the reason when a change failed. */
  constructor(
    { instanceGroup, autoTune, joinRequests }: ResolvedConfig,
    scaling: Scaling,
    scheduler: Scheduler,
    clock: Clock,
    failed: (reason: Error) => void,
  ) {
    this.#scheduler = scheduler
    const groups = instanceGroup.flatMap((limits, number) =>
      limits.minInstances < limits.maxInstances ? [{ number, limits }] : [],
    )
    this.#autoscaler = groups.length === 0 ? null : new Autoscaler(groups, scaling, clock, failed)
    const cores = availableCores().usable
    this.#newTuner =
      autoTune &&
      (() => new ThroughputTuner(tunedOf(scaling, scheduler, cores, joinRequests), autoTune, cores, clock))
    this.#tuner = this.#newTuner?.() ?? null
    const tunerLook = scheduler.rowCheck === null ? this.#tuner?.look : undefined // else joiningKnown() starts it
    scheduler.onUpdate = this.#autoscaler?.look ?? tunerLook ?? null
  }

  get autoTune(): AutoTuneStatistics | null {
    return this.#tuner?.stats ?? null
  }

  /**
   * Called when it is known whether requests are joined, and when that changes. Starts tuning, or starts it again: results
   * from other batches no longer hold.
   */
  async joiningKnown(): Promise<void> {
    if (this.#newTuner === null || this.#isClosed) return
    this.#scheduler.onUpdate = null
    await this.#tuner!.giveUp()
    this.#tuner!.close()
    if (this.#isClosed) return
    const { cap } = this.#scheduler.times
    if (cap !== null) {
      cap.rows = Infinity
      this.#scheduler.resized()
    }
    this.#tuner = this.#newTuner()
    this.#scheduler.onUpdate = this.#tuner.look
  }

  /** Called when instances were added or removed. */
  changed(): void {
    this.#countInstances()
    this.#autoscaler?.changed()
    this.#tuner?.changed()
  }

  /** Called when an instance was lost for good. */
  lost(): void {
    this.#countInstances()
    this.#autoscaler?.changed()
    this.#tuner?.lost()
  }

  #countInstances(): void {
    const { times, instances } = this.#scheduler
    times.instances = Math.max(1, instances.size)
  }

  close(): void {
    this.#isClosed = true
    this.#autoscaler?.close()
    this.#tuner?.close()
  }
}

/** A model with one group, in the form that its tuner uses. */
function tunedOf(scaling: Scaling, scheduler: Scheduler, cores: number, joinRequests: boolean): Tuned {
  return {
    get changing() {
      return scaling.changing
    },
    get done() {
      return scheduler.counts.done
    },
    get oldestAtMs() {
      return scheduler.oldestAtMs
    },
    get overloadCount() {
      return scheduler.counts.overloadCount
    },
    get uses() {
      return scaling.usesOf(0)
    },
    get haveOwnWorkers() {
      const workers = [...scheduler.instances].map(({ worker }) => worker)
      return new Set(workers).size === workers.length
    },
    // Without batching a limit makes no difference, and only instances are tuned.
    maxBatchSize: joinRequests ? Math.max(1, scheduler.joining.metadata.maxBatchSize) : 1,
    capBatches(rows) {
      if (scheduler.times.cap === null) return
      scheduler.times.cap.rows = rows
      scheduler.resized()
    },
    divideCores: (instances) => scaling.divide(0, instances, cores),
    memoryBytes: () => process.memoryUsage.rss(),
  }
}
