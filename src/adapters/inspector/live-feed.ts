import type { ServerResponse } from 'node:http'
import type { Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/message-of.ts'
import { followConnection } from '../http/http-requests.ts'
import type { Frame } from './frame.ts'
import { warn } from '../../base/warnings.ts'

/** The source of frames. */
interface Frames {
  begin(): void
  end(): void
  next(): Frame
}

/**
 * Sends frames to all open pages at the chosen interval. Without an open page there is no timer, and the
 * engine is not read.
 */
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

  /** Sends frames on a response whose head is written, until it closes. It sends the latest frame at once. */
  add(response: ServerResponse): void {
    const stream = new EventStream(response, () => this.#remove(stream))
    this.#streams.add(stream)
    if (this.#timer !== null) return stream.send(this.#last)
    this.#frames.begin()
    this.#tell()
  }

  /** Ends all streams. */
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
      // A failing inspector must not harm the application, which cannot do anything about it here.
      warn('ZEROHOP_INSPECTOR', `The inspector cannot read its engine: ${messageOf(error)}`)
      return this.close()
    }
    for (const stream of this.#streams) stream.send(this.#last)
  }
}

/** A client that skips so many frames in a row is disconnected, to free its place. */
const mostSkipped = 30

/**
 * A page that receives frames by server-sent events. At most one frame waits; while it does, the page misses
 * the others.
 */
class EventStream {
  readonly #response: ServerResponse
  readonly #closed: () => void
  #takes = true
  #skipped = 0

  /** @param closed called once, when the client has gone. */
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
    response.on('error', () => {}) // 'close' follows
    response.flushHeaders()
  }

  send(frame: string): void {
    if (this.#takes) this.#takes = this.#response.write(frame)
    else if (++this.#skipped >= mostSkipped) this.#destroy()
  }

  end(): void {
    // A waiting frame would keep the connection open for as long as the client likes.
    if (this.#takes) this.#response.end()
    else this.#destroy()
  }

  /** A response queued behind another one of its connection is not notified of its end. */
  #destroy(): void {
    this.#response.destroy()
    this.#closed()
  }
}
