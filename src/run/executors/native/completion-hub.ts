import type {
  NativeBinding,
  NativeCompletionDetails,
  NativeCompletionHub,
  NativeRunLoop,
} from '../../../native/native-binding.ts'
import type { RunTimestamps } from '../executor.ts'
import { isMainThread } from 'node:worker_threads'

/** The owner of a loop, which is notified of what that has done. */
export interface LoopOwner {
  /** A batch is done. `times` is reused. */
  batchDone(slotId: number, times: Readonly<RunTimestamps>, details: NativeCompletionDetails | null): void
  answered(questionId: number, runMs: number, details: NativeCompletionDetails | null): void
  /** The loop's thread has ended. */
  loopEnded(): void
}

/** Numbers of one completion, as `take` writes them. */
const numbers = 7
const taken = 64
const kinds = { batch: 0, answer: 1, ended: 2, batchHere: 3 } as const

/** Looks at both clocks; a thread may be held up between two of them. */
const clockLooks = 16

/** Brings what loops have done to their owners: one for the isolate, woken once for all that is done. */
export class CompletionHub {
  readonly native: NativeCompletionHub
  readonly #owners = new Map<number, LoopOwner>()
  readonly #numbers = new Float64Array(numbers * taken)
  /** The addon's clock minus `performance.now`. */
  readonly #offsetMs: number
  readonly #times: RunTimestamps = { startMs: 0, inferStartMs: 0, inferEndMs: 0, endMs: 0, inline: false }
  #draining = false
  #again = false

  constructor(binding: NativeBinding) {
    this.native = new binding.CompletionHub(() => this.#onWake())
    this.#offsetMs = clockOffsetMs(binding)
  }

  add(loopId: number, owner: LoopOwner): void {
    this.#owners.set(loopId, owner)
  }

  remove(loopId: number): void {
    this.#owners.delete(loopId)
  }

  /** Reports all that is done; called by what is told of that, it does nothing: the rest comes in turn. */
  drain(): void {
    this.#again = true
    if (this.#draining) return
    this.#draining = true
    const failures: unknown[] = []
    try {
      this.#takeAll(failures)
    } finally {
      this.#draining = false
    }
    if (failures.length > 0) throw failures[0]
  }

  #takeAll(failures: unknown[]): void {
    while (this.#again) {
      const count = this.native.take(this.#numbers)
      this.#again = count === taken
      for (let index = 0; index < count; index++) {
        try {
          this.#report(index * numbers)
        } catch (error) {
          failures.push(error) // the others must not go unheard for it
        }
      }
    }
  }

  #onWake(): void {
    try {
      this.drain()
    } catch (error) {
      // Out of a call from native code it would be lost.
      queueMicrotask(() => {
        throw error
      })
    }
  }

  /** Outputs that JavaScript cannot hold, such as a string of more than it allows, make a failure of what gave them. */
  #takeDetails(): NativeCompletionDetails {
    try {
      return this.native.takeDetails()
    } catch (error) {
      return { error: `its outputs cannot be held: ${(error as Error).message}`, outputs: [] }
    }
  }

  #report(at: number): void {
    const all = this.#numbers
    const kind = all[at + 1]!
    const id = all[at + 2]!
    const times = this.#times
    times.startMs = all[at + 3]! - this.#offsetMs
    times.inferStartMs = all[at + 4]! - this.#offsetMs
    times.inferEndMs = times.endMs = all[at + 5]! - this.#offsetMs
    const details = all[at + 6] === 1 ? this.#takeDetails() : null
    const owner = this.#owners.get(all[at]!)
    if (owner === undefined) return
    times.inline = kind === kinds.batchHere
    if (kind === kinds.batch || kind === kinds.batchHere) owner.batchDone(id, times, details)
    else if (kind === kinds.answer) owner.answered(id, times.endMs - times.startMs, details)
    else owner.loopEnded()
  }
}

/** What the addon's clock is ahead of `performance.now`: by the closest of some looks at both. */
function clockOffsetMs(binding: NativeBinding): number {
  let [offsetMs, closestMs] = [0, Infinity]
  for (let look = 0; look < clockLooks; look++) {
    const beforeMs = performance.now()
    const addonMs = binding.nowMs()
    const afterMs = performance.now()
    if (afterMs - beforeMs < closestMs)
      [offsetMs, closestMs] = [addonMs - (beforeMs + afterMs) / 2, afterMs - beforeMs]
  }
  return offsetMs
}

const hubs = new WeakMap<NativeBinding, CompletionHub>()

/** The hub of this isolate. */
export function completionHub(binding: NativeBinding): CompletionHub {
  let hub = hubs.get(binding)
  if (hub === undefined) hubs.set(binding, (hub = new CompletionHub(binding)))
  return hub
}

const loops = new Set<NativeRunLoop>()
let addon: NativeBinding | null = null

/**
 * At exit no run is begun any more, and those under way are told to stop. The addon waits for them for a moment, and lets the
 * process go with whatever is left.
 */
function stopLoops(): void {
  for (const loop of loops) loop.stop()
  if (isMainThread) addon?.noteExit()
}

/** Has the exit of this process (or worker thread) stop `loop`. */
export function guardLoop(binding: NativeBinding, loop: NativeRunLoop): void {
  addon = binding
  if (loops.size === 0) process.on('exit', stopLoops)
  loops.add(loop)
}

/** Ends {@link guardLoop}. */
export function unguardLoop(loop: NativeRunLoop): void {
  if (loops.delete(loop) && loops.size === 0) process.off('exit', stopLoops)
}
