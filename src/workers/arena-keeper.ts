import type { Clock } from '../clock.ts'
import type { ResolvedMemory } from '../config/memory-options.ts'
import type { Executor } from '../executor/executor.ts'

/** After how long without a run an arena is idle, in milliseconds. */
const idleMs = 2000

let warned = false

/** Has the arena of a session give back what its runs have left there, as its model asks for. */
export class ArenaKeeper {
  readonly #sessionId: number
  readonly #memory: ResolvedMemory
  readonly #clock: Clock
  #timer: unknown = null
  #lastRunMs = 0
  #executor: Executor | null = null

  private constructor(sessionId: number, memory: ResolvedMemory, clock: Clock) {
    this.#sessionId = sessionId
    this.#memory = memory
    this.#clock = clock
  }

  /** `null` for a model that asks for nothing of the kind. */
  static of(sessionId: number, memory: ResolvedMemory, clock: Clock): ArenaKeeper | null {
    return memory.shrink === undefined && memory.limitBytes === Infinity ? null : new ArenaKeeper(sessionId, memory, clock)
  }

  /** A run is done on a thread. */
  ran(executor: Executor): void {
    if (executor.shrinkArena === undefined) return warnOnce()
    const { shrink, limitBytes } = this.#memory
    const isLarge = limitBytes < Infinity && (executor.arena!(this.#sessionId)?.totalBytes ?? 0) > limitBytes
    if (shrink === 'run' || isLarge) return executor.shrinkArena(this.#sessionId)
    if (shrink !== 'idle') return
    this.#executor = executor
    this.#lastRunMs = this.#clock.nowMs()
    this.#timer ??= this.#clock.setTimer(this.#look, idleMs)
  }

  close(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
  }

  readonly #look = (): void => {
    const leftMs = this.#lastRunMs + idleMs - this.#clock.nowMs()
    this.#timer = leftMs > 0 ? this.#clock.setTimer(this.#look, leftMs) : null
    if (this.#timer === null) this.#executor!.shrinkArena!(this.#sessionId)
  }
}

function warnOnce(): void {
  if (warned) return
  warned = true
  const message = "memory.shrink and memory.limitBytes take the native executor (executor: 'native'); the binding gives back nothing before the model is unloaded."
  process.emitWarning(message, { type: 'ZerohopWarning', code: 'ZEROHOP_MEMORY_IGNORED' })
}
