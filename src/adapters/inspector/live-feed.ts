import type { ServerResponse } from 'node:http'
import type { Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/message-of.ts'
import { followConnection } from '../http/connection-end.ts'
import type { Frame } from './frame.ts'

/** What is told. */
interface Frames {
  begin(): void
  end(): void
  next(): Frame
}

/** Tells all who look on, as often as was asked for. While nobody does there is no timer, and the engine is not looked at. */
export class LiveFeed {
  readonly #frames: Frames
  readonly #clock: Clock
  readonly #intervalMs: number
  readonly #maxClients: number
  readonly #streams = new Set<EventStream>()
  #timer: unknown = null
  #last = ''

  constructor(frames: Frames, clock: Clock, intervalMs: number, maxClients: number) {
    this.#frames = frames
    this.#clock = clock
    this.#intervalMs = intervalMs
    this.#maxClients = maxClients
  }

  get isFull(): boolean {
    return this.#streams.size >= this.#maxClients
  }

  /** Tells of the engine on a response whose head is written, until it is closed. What others were told last it is told at once. */
  add(response: ServerResponse): void {
    const stream = new EventStream(response, () => this.#remove(stream))
    this.#streams.add(stream)
    if (this.#timer !== null) return stream.send(this.#last)
    this.#frames.begin()
    this.#tell()
  }

  /** Ends all that are told. */
  close(): void {
    for (const stream of this.#streams) stream.end()
  }

  #remove(stream: EventStream): void {
    this.#streams.delete(stream)
    if (this.#streams.size > 0) return
    this.#clock.clearTimer(this.#timer)
    this.#timer = null
    this.#last = ''
    this.#frames.end()
  }

  readonly #tell = (): void => {
    this.#timer = this.#clock.setTimer(this.#tell, this.#intervalMs)
    try {
      this.#last = `data: ${JSON.stringify(this.#frames.next())}\n\n`
    } catch (error) {
      // Looking on must not cost an application anything, and is of no use to it here.
      process.emitWarning(`The inspector cannot look at its engine: ${messageOf(error)}`, {
        type: 'ZerohopWarning',
        code: 'ZEROHOP_INSPECTOR',
      })
      return this.close()
    }
    for (const stream of this.#streams) stream.send(this.#last)
  }
}

/** So many frames in a row that a client did not take, and it is given up: its place is for others. */
const mostSkipped = 30

/** A page that is told of an engine by server-sent events. It never has more than one frame waiting: while that is so it misses the others. */
class EventStream {
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
