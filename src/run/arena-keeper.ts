import type { Clock } from '../base/clock.ts'
import type { ResolvedMemory } from '../options/memory-options.ts'
import { ThreadEndedError, type Executor } from './executors/executor.ts'

/** After how long without a run an arena is idle, in milliseconds. */
const idleMs = 2000

/** The arena's first piece, which it keeps, in bytes. */
const firstPieceBytes = 2 ** 20

const warned = new Set<string>()

/** Has the arena of a session give back what its runs have left there, as its model asks for. */
export class ArenaKeeper {
  readonly #sessionId: number
  readonly #memory: ResolvedMemory
  readonly #clock: Clock
  readonly #shrink: () => Promise<void>
  #timer: unknown = null
  #lastRunMs = 0
  #asked = false
  #closed = false

  private constructor(sessionId: number, memory: ResolvedMemory, clock: Clock, shrink: () => Promise<void>) {
    this.#sessionId = sessionId
    this.#memory = memory
    this.#clock = clock
    this.#shrink = shrink
  }

  /**
   * `null` for a model that asks for nothing of the kind.
   *
   * @param shrink has the arena give back what is not in use.
   */
  static of(
    sessionId: number,
    memory: ResolvedMemory,
    clock: Clock,
    shrink: () => Promise<void>,
  ): ArenaKeeper | null {
    return memory.shrink === undefined && memory.limitBytes === Infinity
      ? null
      : new ArenaKeeper(sessionId, memory, clock, shrink)
  }

  /** A run is done on a thread. */
  ran(executor: Executor): void {
    if (this.#closed) return
    if (executor.shrinkArena === undefined) return warnOnce("take the native executor (executor: 'native')")
    const { shrink, limitBytes } = this.#memory
    if (
      shrink === 'run' ||
      (limitBytes < Infinity && this.#keptBytes(executor) > Math.max(limitBytes, firstPieceBytes))
    )
      return this.#ask()
    if (shrink !== 'idle') return
    this.#lastRunMs = this.#clock.nowMs()
    this.#timer ??= this.#clock.setTimer(this.#look, idleMs)
  }

  close(): void {
    this.#closed = true
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
  }

  /** What it has and nothing uses. */
  #keptBytes(executor: Executor): number {
    const arena = executor.arena!(this.#sessionId)
    return arena === null ? 0 : arena.totalBytes - arena.inUseBytes
  }

  #ask(): void {
    if (this.#asked) return
    this.#asked = true
    this.#shrink()
      .catch((error: Error) => {
        // What is asked of a session that is closed is stopped.
        if (!this.#closed && !(error instanceof ThreadEndedError))
          warnOnce(`could not be done for a model: ${error.message}`)
      })
      .finally(() => (this.#asked = false))
  }

  readonly #look = (): void => {
    const leftMs = this.#lastRunMs + idleMs - this.#clock.nowMs()
    this.#timer = leftMs > 0 ? this.#clock.setTimer(this.#look, leftMs) : null
    if (this.#timer === null) this.#ask()
  }
}

function warnOnce(why: string): void {
  if (warned.has(why)) return
  warned.add(why)
  const message = `memory.shrink and memory.limitBytes ${why}; nothing is given back before the model is unloaded.`
  process.emitWarning(message, { type: 'ZerohopWarning', code: 'ZEROHOP_MEMORY_IGNORED' })
}
