import type { Random } from 'zerohop/internals'
import { rowsDrawer, type RowShare } from './row-mix.ts'
import type { Coming, Traffic } from './traffic.ts'
import { Fifo } from './fifo.ts'

/** Callers of whom each sends a request, waits for what becomes of it, and sends the next. */
export class ClosedTraffic implements Traffic {
  readonly count: number
  readonly #thinkMs: number
  readonly #drawRows: () => number
  /** When callers send again: in order, as each thinks for the same time. */
  readonly #sendsAtMs = new Fifo<number>()
  #left: number

  /** @param thinkMs what a caller takes from an answer to its next request. */
  constructor(callers: number, requests: number, thinkMs: number, mix: readonly RowShare[], random: Random) {
    this.count = this.#left = requests
    this.#thinkMs = thinkMs
    this.#drawRows = rowsDrawer(mix, random)
    for (let caller = 0; caller < callers; caller++) this.#sendsAtMs.push(0)
  }

  get nextMs(): number {
    return this.#left === 0 ? Infinity : (this.#sendsAtMs.at(0) ?? Infinity)
  }

  take(): Coming {
    this.#left--
    this.#sendsAtMs.shift()
    return { model: 0, rows: this.#drawRows() }
  }

  ended(nowMs: number): void {
    this.#sendsAtMs.push(nowMs + this.#thinkMs)
  }
}
