import type { Clock } from '../base/clock.ts'
import type { StagingSlot } from './staging-slot.ts'

/** How long memory is kept that no batch needs, in milliseconds. Taking it again costs tens of them at most. */
const keptMs = 2000

/**
 * The slots of an instance that have grown large. What one big request needed goes back when no other has needed it for
 * a while, whether small ones keep coming or not; a slot in steady use is left alone. Without large slots there is no timer.
 */
export class LargeSlots {
  readonly #clock: Clock
  readonly #giveBack: (slot: StagingSlot) => void
  readonly #neededAtMs = new Map<StagingSlot, number>()
  #timer: unknown = null

  constructor(clock: Clock, giveBack: (slot: StagingSlot) => void) {
    this.#clock = clock
    this.#giveBack = giveBack
  }

  /** A batch, still in `slot`, is done with it. */
  returned(slot: StagingSlot): void {
    if (!slot.large) return
    if (slot.neededLarge || !this.#neededAtMs.has(slot)) this.#neededAtMs.set(slot, this.#clock.nowMs())
    this.#timer ??= this.#clock.setTimer(this.#look, keptMs)
  }

  /** A slot is of no use any more. */
  forget(slot: StagingSlot): void {
    this.#neededAtMs.delete(slot)
  }

  /** Looks no more. */
  close(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
    this.#neededAtMs.clear()
  }

  readonly #look = (): void => {
    this.#timer = null
    const nowMs = this.#clock.nowMs()
    let nextMs = Infinity
    for (const [slot, neededAtMs] of this.#neededAtMs) {
      const leftMs = neededAtMs + keptMs - nowMs
      if (slot.batch === null && leftMs <= 0) this.#giveBack(slot)
      if (!slot.large) this.#neededAtMs.delete(slot)
      // A slot in use is looked at again after a whole while: it has been needed, or small batches come and go.
      else nextMs = Math.min(nextMs, leftMs > 0 ? leftMs : keptMs)
    }
    if (nextMs !== Infinity) this.#timer = this.#clock.setTimer(this.#look, nextMs)
  }
}
