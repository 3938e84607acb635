import { PriorityLevel, PriorityLevels } from './infer-request.ts'
import { warn, type WarningCode } from '../base/warnings.ts'

type Kind = 'priority' | 'timeout' | 'longer timeout'

/**
 * Warns of options of a request that are valid and change nothing, because the model's configuration overrides them. As in
 * Triton the request is served all the same. Each kind of warning is given once per version of a model,
 * however often that is loaded.
 */
export class IgnoredOptions {
  readonly #model: string
  readonly #warned = new Set<Kind>()

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
          ? 'none, because the model has no priorityLevels'
          : `0 to ${levels.count} (priorityLevels)`
      const used = levels.count === 0 ? '' : `; the request has the default level ${level.level}`
      this.#warn(
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
      this.#warn(
        'timeout',
        'ZEROHOP_TIMEOUT_IGNORED',
        'timeoutMs',
        'none, because the queue policy has a defaultTimeoutMs',
        timeoutMs,
        hint,
      )
    } else if (timeoutMs > defaultTimeoutMs) {
      const hint = `${used}. Load the model with a longer defaultTimeoutMs`
      this.#warn(
        'longer timeout',
        'ZEROHOP_TIMEOUT_IGNORED',
        'timeoutMs',
        `at most ${defaultTimeoutMs} (defaultTimeoutMs)`,
        timeoutMs,
        hint,
      )
    }
  }

  #warn(
    kind: Kind,
    code: WarningCode,
    option: string,
    expected: string,
    received: number,
    consequence: string,
  ): void {
    if (this.#warned.has(kind)) return
    this.#warned.add(kind)
    const what = `options.${option} of a request to model '${this.#model}' is ignored: expected ${expected}, received ${received}`
    warn(code, `${what}${consequence}, or omit the option.`)
  }
}
