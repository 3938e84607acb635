import type { ServerResponse } from 'node:http'
import { followConnection } from '../http/connection-end.ts'

/** So many frames in a row that a client did not take, and it is given up: its place is for others. */
const mostSkipped = 30

/** A page that is told of an engine by server-sent events. It never has more than one frame waiting: while that is so it misses the others. */
export class EventStream {
  readonly #response: ServerResponse
  readonly #closed: () => void
  #takes = true
  #skipped = 0

  /** @param closed called once, when nobody is there any more. */
  constructor(response: ServerResponse, closed: () => void) {
    this.#response = response
    let isOpen = true
    this.#closed = () => {
      if (!isOpen) return
      isOpen = false
      leave()
      closed()
    }
    const leave = followConnection(response, this.#closed)
    response.on('drain', () => {
      this.#takes = true
      this.#skipped = 0
    })
    response.on('error', () => {}) // it is closed, too
    response.flushHeaders()
  }

  send(frame: string): void {
    if (this.#takes) this.#takes = this.#response.write(frame)
    else if (++this.#skipped >= mostSkipped) this.#destroy()
  }

  end(): void {
    // What waits would hold the connection for as long as its client likes.
    if (this.#takes) this.#response.end()
    else this.#destroy()
  }

  /** One that waits behind another response of its connection is not told of its end. */
  #destroy(): void {
    this.#response.destroy()
    this.#closed()
  }
}
