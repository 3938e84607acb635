import type { LevelOptions, LevelPolicy } from '../options/batching.ts'

/** One priority level of a queue. */
export class PriorityLevel {
  /** 1 is served first. */
  readonly level: number
  readonly policy: LevelPolicy
  /** Requests waiting at this level, whatever their shape. */
  waiting = 0
  /** Rows of those that are in no batch, and could be. */
  rows = 0
  /** Rows of those whose inputs are still being made. */
  unreadyRows = 0

  constructor(level: number, policy: LevelPolicy) {
    this.level = level
    this.policy = policy
  }

  /** Requests that would be accepted now; `Infinity` without a `maxQueueSize`. */
  get room(): number {
    const { maxQueueSize } = this.policy
    return maxQueueSize === 0 ? Infinity : Math.max(0, maxQueueSize - this.waiting)
  }

  /** True when one more request would exceed `maxQueueSize`. */
  get full(): boolean {
    return this.room === 0
  }

  /**
   * How long a request may wait that asks for `timeoutMs`, in milliseconds; 0 for as long as it takes. As in Triton a
   * request can only shorten a default, and only where the policy allows it; unlike Triton its own timeout also counts
   * where there is no default.
   */
  timeoutFor(timeoutMs: number | undefined): number {
    const { defaultTimeoutMs, allowTimeoutOverride } = this.policy
    if (timeoutMs === undefined) return defaultTimeoutMs
    if (defaultTimeoutMs === 0) return timeoutMs
    return allowTimeoutOverride ? Math.min(timeoutMs, defaultTimeoutMs) : defaultTimeoutMs
  }
}

/** Levels that are kept although no request waits there. Callers may use any number, and huge ones. */
const maxKeptLevels = 1024

/** The levels of one queue. */
export class PriorityLevels {
  readonly #options: LevelOptions
  readonly #levels = new Map<number, PriorityLevel>()
  readonly #default: PriorityLevel

  constructor(options: LevelOptions) {
    this.#options = options
    this.#default = this.#make(options.priorityLevels === 0 ? 0 : options.defaultPriorityLevel)
    this.#levels.set(this.#default.level, this.#default)
  }

  /** How many there are; 0 when all requests are equal. */
  get count(): number {
    return this.#options.priorityLevels
  }

  /** The level of a request; as in Triton 0 and what is above the number of levels mean the default one. */
  of(priority: number | undefined): PriorityLevel {
    if (priority === undefined || priority === 0 || priority > this.#options.priorityLevels)
      return this.#default
    let level = this.#levels.get(priority)
    if (level !== undefined) return level
    if (this.#levels.size >= maxKeptLevels) this.#forgetUnused()
    this.#levels.set(priority, (level = this.#make(priority)))
    return level
  }

  /**
   * Rows that are served before those that come now to `level`.
   *
   * @param unready whether what comes has to be made ready as well, behind those that are not yet; what is ready waits for none of them.
   */
  rowsAhead(level: PriorityLevel, unready = false): number {
    let rows = 0
    for (const other of this.#levels.values())
      if (other.level <= level.level) rows += unready ? other.rows + other.unreadyRows : other.rows
    return rows
  }

  #forgetUnused(): void {
    for (const [number, level] of this.#levels) {
      if (level.waiting === 0 && level !== this.#default) this.#levels.delete(number)
    }
  }

  #make(level: number): PriorityLevel {
    return new PriorityLevel(level, this.#options.policies.get(level) ?? this.#options.defaultPolicy)
  }
}
