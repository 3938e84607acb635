import { stretchMs, type Clock } from '../base/clock.ts'
import type { Place } from '../schedule/load-division.ts'
import { IndexedHeap, type HeapItem } from '../base/indexed-heap.ts'
import type { InlineOptions } from '../options/engine-options.ts'
import type { SecondFor } from '../options/session-options.ts'
import type { ModelInstance } from './model-instance.ts'
import type { StagingSlot } from './staging-slot.ts'

/** The least estimate of what a run still takes, in milliseconds: a busy worker is not an idle one. */
const leastLeftMs = 1
/** After so long a busy time counts for a third of what it did. */
const busyMemoryMs = 5000

/**
 * Estimates what a run still takes that was to be done in `leftMs`, which is negative when it is late: it will be late by as
 * much again. Taking it for done would admit requests behind it that cannot be in time.
 */
export function leftOfRunMs(leftMs: number): number {
  return Math.max(leastLeftMs, Math.abs(leftMs))
}

/** A batch that was dispatched to a worker. */
interface DispatchedBatch {
  readonly slotId: number
  readonly source: ModelInstance
  readonly charge: Charge<ModelInstance>
  /** Whether nothing else may be on the worker meanwhile. */
  readonly isExclusive: boolean
}

/** The time of one worker: who has been given what of it, and when it will be free. */
export class WorkerTime {
  readonly shares = new FairShare<ModelInstance>()
  readonly #clock: Clock
  readonly #dispatched: DispatchedBatch[] = [] // the first of them runs
  #runBeganAtMs = 0
  #runEndsAtMs = 0
  #behindMs = -0 // of what waits behind the run. -0 is a double from the start: when 0 becomes one, V8 throws away what it has compiled for it
  #busyMs = 0
  #busyAtMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** What was dispatched and is not done, in its order. */
  get dispatched(): readonly DispatchedBatch[] {
    return this.#dispatched
  }

  /** The estimated time until the worker is done with what it was given, in milliseconds. */
  get freeInMs(): number {
    return this.#dispatched.length === 0
      ? 0
      : leftOfRunMs(this.#runEndsAtMs - this.#clock.nowMs()) + this.#behindMs
  }

  /** For how long the first of what it has runs, in milliseconds; 0 for nothing. */
  runningMs(nowMs = this.#clock.nowMs()): number {
    return this.#dispatched.length === 0 ? 0 : nowMs - this.#runBeganAtMs
  }

  /** The part of the last seconds in which it ran something, what runs included. */
  get busyShare(): number {
    const nowMs = this.#clock.nowMs()
    const before = this.#busyMs * Math.exp((this.#busyAtMs - nowMs) / busyMemoryMs)
    return Math.min(1, (before + remembered(this.runningMs(nowMs))) / busyMemoryMs)
  }

  /**
   * Notes a batch that is dispatched.
   *
   * @param runMs the estimate of its run; 0 when unknown.
   */
  given(source: ModelInstance, slotId: number, runMs: number, isExclusive: boolean, nowMs: number): void {
    const charge = this.shares.charge(source, runMs)
    if (this.#dispatched.length === 0) this.#starts(charge, nowMs)
    else this.#behindMs += charge.estimateMs
    this.#dispatched.push({ slotId, source, charge, isExclusive })
  }

  /** Notes that a batch is done; returns it, or `null` when it is none of those dispatched. */
  done(slotId: number, tookMs: number, nowMs: number): DispatchedBatch | null {
    const done = this.#remove(slotId)
    if (done === null) return null
    this.shares.settle(done.charge, tookMs)
    this.#worked(tookMs, nowMs)
    // What is still out, one batch at most, starts now, however good the estimate of the last one was.
    if (this.#dispatched.length > 0) this.#starts(this.#dispatched[0]!.charge, nowMs)
    return done
  }

  /** Notes that a batch was revoked: it did not start and is not on the worker any more. */
  revoked(slotId: number): DispatchedBatch | null {
    const back = this.#remove(slotId)
    if (back === null) return null
    this.shares.refund(back.charge)
    this.#behindMs = Math.max(0, this.#behindMs - back.charge.estimateMs)
    return back
  }

  /** Takes the account of a thread that is gone: nothing is on it any more. */
  clear(): DispatchedBatch[] {
    const nowMs = this.#clock.nowMs()
    this.#worked(this.runningMs(nowMs), nowMs)
    this.#behindMs = 0
    return this.#dispatched.splice(0)
  }

  #remove(slotId: number): DispatchedBatch | null {
    const index = this.#dispatched.findIndex((batch) => batch.slotId === slotId)
    return index === -1 ? null : this.#dispatched.splice(index, 1)[0]!
  }

  #starts({ estimateMs }: Charge<ModelInstance>, nowMs: number): void {
    this.#runBeganAtMs = nowMs
    this.#runEndsAtMs = nowMs + estimateMs
    this.#behindMs = 0
  }

  #worked(ms: number, nowMs: number): void {
    this.#busyMs = this.#busyMs * Math.exp((this.#busyAtMs - nowMs) / busyMemoryMs) + remembered(ms)
    this.#busyAtMs = nowMs
  }
}

/** What is remembered of a run at its end: its first part is half forgotten by then, if it was long. */
function remembered(ms: number): number {
  return -busyMemoryMs * Math.expm1(-ms / busyMemoryMs)
}

/** One source's account. */
interface Share<T> extends HeapItem {
  readonly source: T
  readonly weight: number
  /** Virtual time at which what it was given so far is used up, in milliseconds divided by its weight. */
  finishMs: number
  /** What its last batch took, in milliseconds. */
  lastMs: number
  /** Whether it may have work. */
  active: boolean
}

/** A batch that was charged to a share before its time was known. */
export interface Charge<T> {
  readonly share: Share<T>
  readonly estimateMs: number
}

/**
 * Divides a worker among its sources by measured milliseconds and weight: start-time fair queueing (Goyal et al. 1996),
 * where a batch is charged by its estimate and corrected when it is done. What a source used beyond its
 * share it pays back at once and exactly, where deficit round robin would do so over many rounds; a source that was idle
 * gets no credit for it. Only sources that may have work are looked at, so a hundred idle ones cost nothing.
 */
export class FairShare<T> {
  readonly #shares = new Map<T, Share<T>>()
  readonly #active = new IndexedHeap<Share<T>>((a, b) => a.finishMs < b.finishMs)
  #virtualMs = 0
  #activeWeight = 0

  /** Weights of the sources that may have work, summed. */
  get activeWeight(): number {
    return this.#activeWeight
  }

  join(source: T, weight = 1): void {
    this.#shares.set(source, {
      source,
      weight,
      finishMs: this.#virtualMs,
      lastMs: 0,
      active: false,
      heapIndex: -1,
    })
  }

  part(source: T): void {
    this.deactivate(source)
    this.#shares.delete(source)
  }

  /** Says that a source may have work; true when that is new. */
  activate(source: T): boolean {
    const share = this.#shares.get(source)
    if (share === undefined || share.active) return false
    share.active = true
    this.#activeWeight += share.weight
    this.#active.push(share)
    return true
  }

  /** Says that a source has no work. */
  deactivate(source: T): void {
    const share = this.#shares.get(source)
    if (share === undefined || !share.active) return
    share.active = false
    this.#activeWeight -= share.weight
    this.#active.remove(share)
  }

  /** The share whose turn it is, or `null` when none has work. */
  next(): Share<T> | null {
    return this.#active.peek()
  }

  /**
   * Charges a batch about to be dispatched.
   *
   * @param estimateMs the estimate of its run; 0 when unknown, for what the last one took.
   */
  charge(source: T, estimateMs = 0): Charge<T> {
    const share = this.#shares.get(source)!
    const chargedMs = estimateMs > 0 ? estimateMs : share.lastMs
    this.#virtualMs = Math.max(this.#virtualMs, share.finishMs)
    this.#finish(share, this.#virtualMs + chargedMs / share.weight)
    return { share, estimateMs: chargedMs }
  }

  /** Corrects a charge by what the batch really took. */
  settle({ share, estimateMs }: Charge<T>, tookMs: number): void {
    share.lastMs = tookMs
    this.#finish(share, share.finishMs + (tookMs - estimateMs) / share.weight)
  }

  /** Cancels a charge: its batch was not run. */
  refund({ share, estimateMs }: Charge<T>): void {
    this.#finish(share, share.finishMs - estimateMs / share.weight)
  }

  #finish(share: Share<T>, finishMs: number): void {
    share.finishMs = finishMs
    if (share.active) this.#active.update(share)
  }
}

/** While two ways are compared, batches run in one for so many milliseconds, then in the next. In this order, what changes slowly meets both alike. */
const phaseMs = 15
const phases = ['alone', 'helped', 'helped', 'alone', 'alone', 'helped', 'helped', 'alone'] as const
/** Half a comparison is enough where the other way gives less than so much of what it would have to. */
const clearShare = 0.9
/** Where a batch is under way for less of the time there is little load, and the way does not matter. */
const leastBusyShare = 0.2
/** Rows that take less are not run in halves: this thread needs longer to answer them, so the worker helps more by running all of them. */
const leastHalvedRowMs = 0.003
/**
 * What help has to gain, as two threads take more processor time for a request: a fifth more, and in halves, where they wait for each
 * other, a third.
 */
const leastGains = { all: 1.15, halves: 1.3 } as const
/**
 * How long a verdict holds. The first three times that it is confirmed it holds no longer, as code is still being compiled; then twice
 * as long each time. Another one counts when it comes twice in a row.
 */
const firstHeldMs = 300
const firstConfirmations = 3
const mostHeldMs = 8000

/** After the first comparison the worker is tried only where others leave so many cores to this process: this thread's, and half of another ... */
const leastFreeCores = 1.5
/** ... and, as others may make way for it nevertheless, after so long. */
const mostUntriedMs = 60_000

/**
 * Finds out how the short runs of a loaded model are better off: on the application's thread alone, or with the worker's help. Where all
 * that waits fits one short run, the worker runs half of each batch while the application's thread runs the other half. Otherwise it runs all
 * batches, beside what that thread does. A machine with a free core does more with both threads. On a busy one they wait for each
 * other's core, and one thread alone does up to twice as much. So both are tried, for a tenth of a second, and the rows of each are
 * counted.
 */
export class RunPlace {
  /** `null` for either, as there is little load or nothing to choose. */
  present: Place | null = null
  /** Until when no batch is run here: a run took surprisingly long. */
  elsewhereUntilMs = -Infinity
  #verdict: (typeof phases)[number] = 'alone'
  /** Whether the help that is compared, or was found to be better, is to run halves. */
  #helpsHalves = false
  /** How many more batches of the last phase could be halved than could not. */
  #halvable = 0
  /** Whether batches are halved now. */
  #inHalves = false
  #heldMs = firstHeldMs
  #heldUntilMs = -Infinity
  /** When that began, and the time of free cores then. NaN: the first comparison is made anyway, so that V8 compiles code for both places once. */
  #heldSinceMs = -0
  #freeMs = NaN
  /** The end of the last comparison. */
  #comparedAtMs = -0
  #isDoubted = false
  #confirmed = 0
  /** The phase of a comparison; -1 outside. */
  #phase = -1
  /** Rows per millisecond in the phases of it that are over, summed. -0: doubles from the start. */
  readonly #sums = { alone: -0, helped: -0 }
  #sinceMs = -0
  #sinceRows = 0
  #busyMs = -0
  /** By how many there are more of them than of long ones. */
  #shortRuns = 0

  /**
   * See {@link InlineBudget.ran}.
   *
   * @param isShort whether it may be here.
   * @param freeCoresMs see the function of that name; NaN when unknown.
   */
  ran(rows: number, isShort: boolean, occupiedMs: number, nowMs: number, freeCoresMs: () => number): void {
    this.#busyMs += occupiedMs
    this.#shortRuns += isShort ? 1 : -1
    const elapsedMs = nowMs - this.#sinceMs
    if (elapsedMs < phaseMs) return
    const rate = (rows - this.#sinceRows) / elapsedMs
    // Some runs are long because their thread has to wait for a core.
    const matters = this.#busyMs >= leastBusyShare * elapsedMs && this.#shortRuns > 0
    this.#sinceMs = nowMs
    this.#sinceRows = rows
    this.#busyMs = this.#shortRuns = 0
    if (!matters) return this.leave()
    if (this.#phase >= 0) this.#compare(rate, nowMs, freeCoresMs)
    else if (nowMs >= this.#heldUntilMs) this.#begin(nowMs, freeCoresMs())
    this.#halvable = 0
    const isHelped = (this.#phase < 0 ? this.#verdict : phases[this.#phase]!) === 'helped'
    this.#inHalves = isHelped && this.#helpsHalves
    this.present = isHelped && !this.#inHalves ? 'elsewhere' : 'here'
  }

  /**
   * Whether to have the worker run half of a batch.
   *
   * @param isPossible whether it can be halved.
   * @param fitsOneRun whether all that waits and runs would fit one short run.
   * @param rowMs what a row takes at present, in milliseconds.
   */
  choosesHalves(isPossible: boolean, fitsOneRun: boolean, rowMs: number): boolean {
    const isWorthIt = rowMs * (this.#inHalves ? 2 : 1) >= leastHalvedRowMs
    this.#halvable += isPossible && fitsOneRun && isWorthIt ? 1 : -1
    return isPossible && this.#inHalves
  }

  /** Nothing is to be chosen for now. */
  leave(): void {
    this.present = null
    this.#inHalves = false
    this.#halvable = 0
    this.#phase = -1
    this.#isDoubted = false
  }

  /** Begins a comparison, if it may come out otherwise. */
  #begin(nowMs: number, freeMs: number): void {
    const freeCores = (freeMs - this.#freeMs) / (nowMs - this.#heldSinceMs)
    const isVain = this.#verdict === 'alone' && freeCores < leastFreeCores
    if (isVain && nowMs < this.#comparedAtMs + mostUntriedMs) return this.#hold(firstHeldMs, nowMs, freeMs)
    this.#phase = this.#sums.alone = this.#sums.helped = 0
    if (this.#helpsHalves === this.#halvable > 0) return
    this.#helpsHalves = !this.#helpsHalves
    this.#verdict = 'alone' // what was found of one kind of help says nothing of the other
    this.#confirmed = 0
  }

  #hold(ms: number, nowMs: number, freeMs: number): void {
    this.#heldSinceMs = nowMs
    this.#heldUntilMs = nowMs + ms
    this.#freeMs = freeMs
  }

  #compare(rate: number, nowMs: number, freeCoresMs: () => number): void {
    const sums = this.#sums
    sums[phases[this.#phase]!] += rate
    const gain = sums.helped / sums.alone
    const leastGain = leastGains[this.#helpsHalves ? 'halves' : 'all']
    const isClear = this.#verdict === 'alone' ? gain < clearShare * leastGain : gain > leastGain / clearShare
    const isOver = ++this.#phase === phases.length || (this.#phase === phases.length / 2 && isClear)
    if (!isOver) return
    const found = gain >= leastGain ? 'helped' : 'alone'
    const isOther = found !== this.#verdict
    this.#isDoubted = isOther && !this.#isDoubted
    this.#phase = this.#isDoubted ? 0 : -1 // once more, or over
    if (!this.#isDoubted) this.#verdict = found
    const isFirst = isOther || ++this.#confirmed <= firstConfirmations
    this.#heldMs = isFirst ? firstHeldMs : Math.min(mostHeldMs, 2 * this.#heldMs)
    this.#hold(this.#heldMs, nowMs, freeCoresMs())
    this.#comparedAtMs = nowMs
    sums.alone = sums.helped = 0
  }
}

/** What runs batches here or elsewhere. */
type PlacedSource = Pick<ModelInstance, 'runPlace'>

/** With its answers and the requests that follow a run is expected to take so many times what the last one of its model took. */
const timesLastRun = 3

/**
 * A run that computes for longer, though it was estimated to be short, says that its model's runs may take any time: none is run here
 * for a hundred times as long as it took. A second one settles it: none for a minute, or a thousand times as long. One that
 * only took longer, as the system gave the thread's core to others meanwhile, says nothing: on a busy machine that is every day.
 */
const surprisingMs = 10
const firstHeldTimes = 100
const leastHeldMs = 60_000
const heldTimes = 1000
/** Of the longest run, what is run here while others wait: the thread could prepare those meanwhile. */
const shareWithOthers = 0.5
/** How old the reading may be from which CPU time is counted; a reading takes a call of the system. */
const readingMs = 5

/**
 * Decides which batches the application's thread runs itself, because a run there takes less than a dispatch. An account
 * that fills with time, by the share of it that is allowed, and that runs are charged to.
 */
export class InlineBudget {
  readonly #clock: Clock
  readonly #maxMs: number
  readonly #loopShare: number
  readonly #cpuMs: () => number
  #creditMs = stretchMs
  #atMs: number
  readonly #onNextTurn: (then: () => void) => void
  readonly #freeCoresMs: () => number
  /** When the first run since the event loop had its turn began, or answers of the worker; `Infinity` where nothing did. */
  #beganAtMs = Infinity
  /** The end of the last of these runs, or when the worker's last answers came. */
  #endedAtMs = -0
  #awaitsTurn = false
  #readAtMs = 0
  #readCpuMs = 0
  /** Called when the event loop has had its turn. */
  readonly #resumed = new Set<() => void>()

  /**
   * @param cpuMs what this thread has computed so far; left out where it does nothing else.
   * @param onNextTurn calls back when the event loop has its turn; left out where nothing holds that up.
   * @param freeCoresMs see the function of that name; NaN when unknown.
   */
  constructor(
    clock: Clock,
    { maxUs, loopShare }: Required<InlineOptions>,
    cpuMs = () => clock.nowMs(),
    onNextTurn = (then: () => void) => then(),
    freeCoresMs = () => NaN,
  ) {
    this.#clock = clock
    this.#maxMs = maxUs / 1000
    this.#loopShare = loopShare
    this.#cpuMs = cpuMs
    this.#onNextTurn = onNextTurn
    this.#freeCoresMs = freeCoresMs
    this.#atMs = clock.nowMs()
    this.#read(this.#atMs)
  }

  /**
   * @param runMs the estimate of the run; 0 when unknown.
   * @param moreWaits whether this thread has others to see to meanwhile, were the run dispatched.
   */
  allows(runMs: number, { runPlace }: PlacedSource, moreWaits = false, nowMs = this.#clock.nowMs()): boolean {
    if (runMs <= 0 || runPlace.present === 'elsewhere' || nowMs < runPlace.elsewhereUntilMs) return false
    if (!this.#hasCredit(nowMs) || this.#endedAtMs - this.#beganAtMs >= stretchMs) return false
    if (nowMs - this.#readAtMs > readingMs) this.#read(nowMs)
    return runMs <= (moreWaits ? this.#mostMs(runPlace) : this.#maxMs)
  }

  /**
   * Up to which length runs of a source count as short while more waits, in milliseconds. 0 where its place is not to be chosen, or one
   * took surprisingly long.
   */
  shortMs({ runPlace, mayBePlaced }: PlacedSource & Pick<ModelInstance, 'mayBePlaced'>): number {
    if (!mayBePlaced || runPlace.elsewhereUntilMs > -Infinity) return 0
    return this.#mostMs(runPlace)
  }

  /**
   * Charges a run that was allowed.
   *
   * Answers bring new requests. If their batches ran at once, timers and connections would never get their turn. So the event loop has a
   * turn every {@link stretchMs}, even if there is credit left. A stretch begins with a run or with
   * answers of the worker, which ask for the next turn. It ends when that turn comes.
   */
  spent(tookMs: number, { runPlace }: PlacedSource, nowMs = this.#clock.nowMs()): void {
    this.#creditMs -= tookMs
    this.occupies(nowMs, nowMs - tookMs)
    if (tookMs <= surprisingMs || this.#computedMs(tookMs, nowMs) <= surprisingMs) return
    const isFirst = runPlace.elsewhereUntilMs === -Infinity
    const heldMs = isFirst ? firstHeldTimes * tookMs : Math.max(leastHeldMs, heldTimes * tookMs)
    runPlace.elsewhereUntilMs = nowMs + heldMs
  }

  /** A run that began at `fromMs` has occupied this thread until now; or answers of the worker do from now on, where nothing is given. */
  occupies(nowMs: number, fromMs = nowMs): void {
    if (this.#beganAtMs === Infinity) this.#beganAtMs = fromMs
    this.#endedAtMs = nowMs
    this.#askForTurn()
  }

  /**
   * Any batch of a source has been run, here or elsewhere.
   *
   * @param occupiedMs from the moment at which the batch was the first on its thread until its end was known.
   */
  ran(
    { mayBePlaced, use, runPlace }: PlacedSource & Pick<ModelInstance, 'mayBePlaced' | 'use'>,
    tookMs: number,
    occupiedMs: number,
    nowMs = this.#clock.nowMs(),
  ): void {
    if (mayBePlaced && nowMs >= runPlace.elsewhereUntilMs)
      runPlace.ran(use.rows, tookMs <= this.#maxMs, occupiedMs, nowMs, this.#freeCoresMs)
    else runPlace.leave()
  }

  /**
   * Whether the event loop is to have its turn before the next run of a source, as that might exceed {@link stretchMs}: not where nothing ran
   * and no worker answered since the last turn, nor for runs that the worker has anyway, nor where the allowed share of the time is used
   * up. After the turn `then` is called.
   *
   * @param lastMs what the last run of that source took; 0 when unknown.
   */
  awaitsTurn({ runPlace }: PlacedSource, lastMs: number, then: () => void): boolean {
    if (this.#beganAtMs === Infinity || lastMs > this.#mostMs(runPlace)) return false
    const nowMs = this.#clock.nowMs()
    if (nowMs < runPlace.elsewhereUntilMs) return false
    const passedMs = nowMs - this.#endedAtMs // answers and requests; what follows the run is expected to take as long
    const stepMs = Math.max(timesLastRun * lastMs, 2 * passedMs + lastMs)
    if (this.#endedAtMs - this.#beganAtMs + stepMs < stretchMs || !this.#hasCredit(nowMs)) return false
    this.#resumed.add(then)
    return true
  }

  /** The longest run of a source on this thread while more waits. */
  #mostMs({ present }: RunPlace): number {
    return present === null ? this.#maxMs * shareWithOthers : this.#maxMs
  }

  #hasCredit(nowMs = this.#clock.nowMs()): boolean {
    this.#creditMs = Math.min(stretchMs, this.#creditMs + (nowMs - this.#atMs) * this.#loopShare)
    this.#atMs = nowMs
    return this.#creditMs > 0
  }

  readonly #turned = (): void => {
    this.#awaitsTurn = false
    this.#beganAtMs = Infinity
    const [next] = this.#resumed
    if (next === undefined) return
    this.#resumed.delete(next)
    if (this.#resumed.size > 0) this.#askForTurn() // one for each
    next()
  }

  #askForTurn(): void {
    if (this.#awaitsTurn) return
    this.#awaitsTurn = true
    this.#onNextTurn(this.#turned)
  }

  /** What a run that is just over has computed, at least: all but what was computed between the reading and its start. */
  #computedMs(tookMs: number, nowMs: number): number {
    const [beganAtMs, beganCpuMs] = [this.#readAtMs, this.#readCpuMs]
    this.#read(nowMs)
    return this.#readCpuMs - beganCpuMs - (nowMs - tookMs - beganAtMs)
  }

  #read(nowMs: number): void {
    this.#readAtMs = nowMs
    this.#readCpuMs = this.#cpuMs()
  }
}

/** Kinds of runs whose times are kept; the oldest kind is dropped first. */
const mostKinds = 256
/** The session that is not used is tried again after so many runs at the latest. */
const mostRunsUntried = 512
/** One that takes more than so many times as long is tried no earlier. */
const farSlower = 2
/** A longer run counts as so many times the usual: something held it up. */
const mostTimes = 1.5
/** One thread is used where all cores are less than so many times as fast: there is something else for them to do. */
const allCoresGain = 1.5
/** No run that takes longer on all cores is tried on one thread, in milliseconds: it would need memory there as well. */
const mostShortMs = 2
/** A lone one that takes longer is tried late with the cores of its instance, unless other processes use cores: mostly all cores are faster. */
const mostTriedMs = 10

/** What is known of runs of one kind. */
export interface RunKind {
  readonly bucketKey: string
  readonly rows: number
  readonly isLone: boolean
  /** Whether the second session is used. */
  onSecond: boolean
  /** Runs since it is or is not, and after how many of them the other one is tried. */
  runs: number
  triedAfterRuns: number
  /** Of the session that is used the mean, of the other one the last run; 0 before the first. */
  firstMs: number
  secondMs: number
}

/**
 * Finds out by which of a model's two sessions runs of a kind are better off. The second has all cores for lone requests, which is mostly
 * faster, but not on a busy machine, nor for a graph without parallel parts; or one thread for short runs. Both are tried,
 * at growing intervals.
 */
export class ThreadChoice {
  readonly secondFor: SecondFor
  readonly #isCrowded: () => boolean
  readonly #kinds = new Map<string, RunKind>()
  /** Of the last run: mostly the next one is like it. */
  #last: RunKind | null = null

  /** @param isCrowded whether other processes use cores of this machine. */
  constructor(secondFor: SecondFor, isCrowded: () => boolean) {
    this.secondFor = secondFor
    this.#isCrowded = isCrowded
  }

  /**
   * Chooses the session of the batch in a slot.
   *
   * @param isLone whether it is the only request of its model.
   */
  choose(slot: StagingSlot, isLone: boolean): void {
    const kind = (slot.runKind = this.#kindOf(slot, isLone))
    const { onSecond, runs, triedAfterRuns, firstMs, secondMs } = kind
    const tries =
      (onSecond
        ? secondMs > 0
        : firstMs > 0 && (this.secondFor === 'lone requests' || firstMs <= mostShortMs)) &&
      runs >= triedAfterRuns &&
      slot.requests.every(({ deadlineAtMs }) => deadlineAtMs === null) &&
      (!onSecond || secondMs <= mostTriedMs || runs >= triedAfterRuns + mostRunsUntried || this.#isCrowded())
    slot.onSecond = onSecond !== tries
    slot.sessionMs = slot.onSecond ? secondMs : firstMs
    slot.isUnusual = this.secondFor === 'short runs' ? tries : slot.onSecond
  }

  /** Notes the run of a batch that {@link choose} has seen. */
  ran({ runKind, onSecond }: StagingSlot, tookMs: number): void {
    const kind = runKind!
    const usedMs = kind.onSecond ? kind.secondMs : kind.firstMs
    const lastMs = onSecond ? kind.secondMs : kind.firstMs
    const isTry = onSecond !== kind.onSecond
    const ms = isTry || lastMs === 0 ? tookMs : lastMs + (Math.min(tookMs, mostTimes * lastMs) - lastMs) / 4
    if (onSecond) kind.secondMs = ms
    else kind.firstMs = ms
    kind.runs++
    if (isTry) {
      const isFarSlower = Math.min(ms, lastMs) > farSlower * usedMs // twice: once, something may have held it up
      kind.triedAfterRuns = kind.runs + Math.min(isFarSlower ? Infinity : kind.runs, mostRunsUntried)
    }
    const gain = this.secondFor === 'short runs' && !kind.isLone ? allCoresGain : 1
    const isKnown = kind.firstMs > 0 && kind.secondMs > 0
    if (!isKnown || kind.secondMs < gain * kind.firstMs === kind.onSecond) return
    kind.onSecond = !kind.onSecond
    kind.runs = kind.triedAfterRuns = 1
  }

  #kindOf({ requests, rows }: StagingSlot, isLone: boolean): RunKind {
    const { bucketKey } = requests[0]!
    const last = this.#last
    if (last?.rows === rows && last.bucketKey === bucketKey && last.isLone === isLone) return last
    const name = `${isLone ? 'lone ' : ''}${rows} ${bucketKey}`
    let kind = this.#kinds.get(name)
    if (kind === undefined) {
      if (this.#kinds.size === mostKinds) this.#kinds.delete(this.#kinds.keys().next().value!)
      const onSecond = this.secondFor === 'lone requests'
      kind = { bucketKey, rows, isLone, onSecond, runs: 0, triedAfterRuns: 1, firstMs: 0, secondMs: 0 }
      this.#kinds.set(name, kind)
    }
    return (this.#last = kind)
  }
}
