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

/** Levels kept although nobody waits there; their numbers may be huge, and callers may use any. */
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

type Kind = 'priority' | 'timeout' | 'longer timeout'

/**
 * Warns of options that are right and change nothing, as the model's configuration stands above them: as in Triton such a
 * request is served all the same. Each kind is told once per model.
 */
export class IgnoredOptions {
  readonly #model: string
  readonly #told = new Set<Kind>()

  constructor(model: string) {
    this.#model = model
  }

  /** Looks at the options of a request that goes to `level`. */
  look(
    levels: PriorityLevels,
    level: PriorityLevel,
    priority: number | undefined,
    timeoutMs: number | undefined,
  ): void {
    if (priority !== undefined && priority > levels.count) {
      const expected =
        levels.count === 0
          ? 'none, as the model has no priorityLevels'
          : `0 to ${levels.count} (priorityLevels)`
      const used = levels.count === 0 ? '' : `; the request has the default level ${level.level}`
      this.#tell(
        'priority',
        'ZEROHOP_PRIORITY_IGNORED',
        'priority',
        expected,
        priority,
        `${used}. Load the model with more priorityLevels`,
      )
    }
    if (timeoutMs === undefined) return
    const { defaultTimeoutMs, allowTimeoutOverride } = level.policy
    if (defaultTimeoutMs === 0 || timeoutMs === defaultTimeoutMs) return
    const used = `; the request has the model's ${defaultTimeoutMs} ms`
    if (!allowTimeoutOverride) {
      const hint = `${used}. Load the model with allowTimeoutOverride: true`
      this.#tell(
        'timeout',
        'ZEROHOP_TIMEOUT_IGNORED',
        'timeoutMs',
        'none, as the queue policy has a defaultTimeoutMs',
        timeoutMs,
        hint,
      )
    } else if (timeoutMs > defaultTimeoutMs) {
      const hint = `${used}. Load the model with a longer defaultTimeoutMs`
      this.#tell(
        'longer timeout',
        'ZEROHOP_TIMEOUT_IGNORED',
        'timeoutMs',
        `at most ${defaultTimeoutMs} (defaultTimeoutMs)`,
        timeoutMs,
        hint,
      )
    }
  }

  #tell(
    kind: Kind,
    code: string,
    option: string,
    expected: string,
    received: number,
    consequence: string,
  ): void {
    if (this.#told.has(kind)) return
    this.#told.add(kind)
    const what = `options.${option} of a request to model '${this.#model}' does not count: expected ${expected}, received ${received}`
    process.emitWarning(`${what}${consequence}, or leave the option out.`, { type: 'ZerohopWarning', code })
  }
}
