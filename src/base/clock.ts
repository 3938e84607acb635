/** Time and timers as the library sees them; tests inject a fake one. */
export interface Clock {
  /** Monotonic time in milliseconds, with a fraction. */
  nowMs(): number
  /** Runs `callback` once, no earlier than `delayMs` from now. The timer does not keep the process alive. */
  setTimer(callback: () => void, delayMs: number): unknown
  clearTimer(timer: unknown): void
}

const ownPerformance = performance // the global is looked up, and made by a getter, each time

/** The real clock: `performance.now`, and timers that do not keep the event loop alive. */
export const systemClock: Clock = {
  nowMs: () => ownPerformance.now(),
  // Node drops the fraction: the timer would fire early and have to be set again.
  setTimer: (callback, delayMs) => setTimeout(callback, Math.ceil(delayMs)).unref(),
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout),
}

/**
 * Calls back in the next turn of the event loop. This is the original function: an application's tests may replace the global one
 * with a fake and later discard what was passed to the fake.
 */
export const nextTurn = setImmediate

/**
 * For how long each of three things may keep the application's thread at a stretch, in milliseconds, before the event loop has its turn: calls
 * that follow from answers, answers of workers, and runs.
 */
export const stretchMs = 0.25

/**
 * Makes a function that calls back in the next turn of the event loop, or in the one after it if the next comes after more than
 * {@link stretchMs}. What held it up, such as answers or a collection of garbage, held up timers too, which run only after the callbacks of
 * the first turn. Where one late turn follows another, the application is what takes so long: no second turn is waited for then.
 */
export function freeTurns(clock: Pick<Clock, 'nowMs'> = systemClock): (then: () => void) => void {
  let wasLate = false
  return (then) => {
    const askedAtMs = clock.nowMs()
    nextTurn(() => {
      const isLate = clock.nowMs() - askedAtMs > stretchMs
      const again = isLate && !wasLate
      wasLate = isLate
      if (again) nextTurn(then)
      else then()
    })
  }
}

/** One timer for many times: it rings at the earliest requested time. */
export class Alarm {
  readonly #clock: Clock
  readonly #ring: () => void
  #timer: unknown = null
  #atMs = Infinity

  constructor(clock: Clock, ring: () => void) {
    this.#clock = clock
    this.#ring = ring
  }

  /** Requests a time; `Infinity` for none. */
  set(atMs: number): void {
    if (atMs >= this.#atMs) return
    this.clear()
    this.#atMs = atMs
    this.#timer = this.#clock.setTimer(this.#onTimer, Math.max(0, atMs - this.#clock.nowMs()))
  }

  clear(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
    this.#atMs = Infinity
  }

  readonly #onTimer = (): void => {
    this.#timer = null
    this.#atMs = Infinity
    this.#ring()
  }
}

const resolved = Promise.resolve()

/**
 * Keeps the event loop alive while something is awaited. `Atomics.waitAsync` does not, and a worker thread
 * must not stay alive while idle. A message port that receives nothing has exactly this effect. It is made by
 * the global class: clients of other processes do not load node:worker_threads.
 */
export class KeepAlive {
  readonly #port = new MessageChannel().port1
  #holds = 0
  #isRef = false
  /** Called when waiting begins. */
  onHeld: () => void = () => {}

  constructor() {
    this.#port.unref()
  }

  /** Whether something is awaited. */
  get held(): boolean {
    return this.#holds > 0
  }

  enter(): void {
    if (this.#holds++ > 0) return
    if (!this.#isRef) this.#port.ref()
    this.#isRef = true
    this.onHeld()
  }

  leave(): void {
    // A caller that has its answer may ask again at once.
    if (--this.#holds === 0) void resolved.then(this.#letGo)
  }

  readonly #letGo = (): void => {
    if (this.#holds > 0 || !this.#isRef) return
    this.#isRef = false
    this.#port.unref()
  }

  /** Closes the port, which otherwise lives on. Nothing may be awaited any more. */
  close(): void {
    this.#port.close()
  }

  /** Keeps the loop alive until `promise` settles. */
  async during<T>(promise: Promise<T>): Promise<T> {
    this.enter()
    try {
      return await promise
    } finally {
      this.leave()
    }
  }
}

/**
 * Tracks whether a model has requests in flight: keeps the process alive meanwhile, and notifies when all
 * have ended.
 */
export class InFlight {
  readonly #keepAlive: KeepAlive
  readonly #onDrained: (() => void)[] = []
  #busy = false
  /** Running batches. */
  running = 0

  constructor(keepAlive: KeepAlive) {
    this.#keepAlive = keepAlive
  }

  /**
   * Call this after requests or batches were added or removed; `waiting` is the number of requests left in
   * the queue.
   */
  update(waiting: number): void {
    const busy = waiting + this.running > 0
    if (busy === this.#busy) return
    this.#busy = busy
    if (busy) return this.#keepAlive.enter()
    this.#keepAlive.leave()
    if (this.#onDrained.length > 0) for (const resolve of this.#onDrained.splice(0)) resolve()
  }

  /** Resolves when no request waits and no batch runs. */
  drained(): Promise<void> {
    if (!this.#busy) return Promise.resolve()
    return new Promise((resolve) => this.#onDrained.push(resolve))
  }
}
