import type { ServerResponse } from 'node:http'
import type { Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/message-of.ts'
import { EventStream } from './event-stream.ts'
import type { Frame } from './frame.ts'

/** What is told. */
export interface Frames {
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
