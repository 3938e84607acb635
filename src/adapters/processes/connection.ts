import type { Socket } from 'node:net'
import { messageOf } from '../../base/message-of.ts'
import { slices, type Pieces } from '../../base/slices.ts'
import { FrameReader, frameKinds, frameOf, greetingBytes, textFrame } from './messages.ts'
import { BadRecord, longestRecord, RecordReader, RecordViews, type RecordWriter } from './records.ts'
import type { SharedRings } from './shared-rings.ts'

/** The owner of one end of a connection. */
export interface ConnectionOwner {
  /** Called for a frame that is no record. */
  onFrame(kind: number, body: Buffer): void
  /** Whether frames are accepted now. If not, call {@link Connection.read} once they are. */
  takesFrames(): boolean
  /** Whether a record is accepted now. If not, call {@link Connection.read} once it is. */
  accepts(): boolean
  /** Returns the work that remains for the record. The next record is read after that work. */
  onRecord(record: RecordReader, byteLength: number): Pieces<void> | undefined
  /** The connection has closed, for this reason. Called once. */
  onClose(reason: string, isViolation: boolean): void
}

/**
 * Calls back in the next turn of the event loop. This is the original function, as an application's tests may replace
 * the global one. (That of `base/clock.ts` would load `worker_threads`, which a client does without.)
 */
export const nextTurn = setImmediate

/** How long records are read in one turn of the event loop, in milliseconds, to leave time for other work. */
const turnMs = 1
const shortBytes = 2048
/** Room in a frame beside `maxBytes` of payload. */
export const frameHeadBytes = 65_536
/**
 * Most records that wait to be accepted; then reading from the socket pauses. The limit is lower if their
 * bytes exceed those of the longest frame.
 */
const mostLate = 64

/**
 * One end of a connection between two processes: a socket and, where possible, rings in shared memory.
 * Records go through the rings, and through the socket if there are no rings or no room.
 */
export class Connection {
  readonly #socket: Socket
  readonly #owner: ConnectionOwner
  readonly #frames: FrameReader
  #rings: SharedRings | null = null
  #onRings: (() => void) | null = null
  /** Records from the socket that are not accepted yet. They are later than everything in the ring. */
  readonly #late: Buffer[] = []
  #lateBytes = 0
  #reading = false
  /** Set while a record is read in pieces; aborts that. */
  #piecewise: AbortController | null = null
  /** Reading pauses until the next turn. */
  #turnIsOver = false
  /** Time spent reading since {@link #sinceMs}. */
  #usedMs = 0
  #sinceMs = 0
  #short = 0
  #ringIsDue = false
  #isOpen = false
  #closed = false

  constructor(socket: Socket, owner: ConnectionOwner) {
    this.#socket = socket
    this.#owner = owner
    this.#frames = new FrameReader(greetingBytes, (kind, body) => this.#onFrame(kind, body))
    socket.on('data', (chunk: Buffer) => this.push(chunk))
    socket.on('error', (error) => this.close(error.message))
    socket.on('drain', this.read)
    socket.on('close', () => {
      this.#usedMs = -Infinity
      this.#turnIsOver = false
      this.read() // what the peer wrote before
      this.close('the other side has closed the connection')
    })
  }

  get closed(): boolean {
    return this.#closed
  }

  /** Whether records go through shared memory. */
  get sharesMemory(): boolean {
    return this.#rings !== null
  }

  /** Called when the peer has introduced itself: sets the longest frame, and the rings if there are any. */
  open(mostFrameBytes: number, rings: SharedRings | null): void {
    this.#isOpen = true
    this.#frames.mostBytes = mostFrameBytes
    this.#rings = rings
    if (rings !== null) rings.reader.sleep()
  }

  /** Takes a chunk that came over the socket. */
  push(chunk: Uint8Array): void {
    if (this.#closed) return
    this.#guarded(() => {
      this.#readAll() // what the peer wrote before
      if (!this.#closed) this.#frames.push(chunk)
    })
  }

  /** @param onSent called when the peer has received the text, or never will. */
  sendText(kind: number, text: string, onSent?: () => void): void {
    this.sendFrame(textFrame(kind, text), onSent)
  }

  sendFrame(frame: Buffer, onSent?: () => void): void {
    if (!this.#closed) this.#socket.write(frame, onSent)
    else onSent?.()
  }

  /** Bytes sent over the socket. */
  get sentBytes(): number {
    return this.#socket.bytesWritten - this.#socket.writableLength
  }

  /** Bytes that wait in the socket for the peer. */
  get unsentBytes(): number {
    return this.#socket.writableLength
  }

  /**
   * Sends a record; false if it goes through the socket. Records on the two ways may arrive in another order.
   */
  send(record: RecordWriter, throughSocket = false): boolean {
    if (!throughSocket && this.#put(record)) return true
    const frame = frameOf(frameKinds.record, record.byteLength)
    record.copyTo(new RecordViews(frame.buffer as ArrayBuffer), 8)
    this.sendFrame(frame)
    return false
  }

  /** Puts a record into the ring; false if there is no room. */
  #put(record: RecordWriter): boolean {
    const { writer } = this.#rings ?? {}
    if (writer === undefined || record.byteLength > writer.longest) return false
    try {
      if (!writer.write(record)) return false
    } catch (error) {
      if (!(error instanceof BadRecord)) throw error
      this.violated(error)
      return true
    }
    this.#ringSoon()
    return true
  }

  /** Reads what has arrived and is accepted. */
  readonly read = (): void => {
    if (!this.#closed) this.#guarded(() => this.#readAll())
  }

  /** Whether the connection keeps the process alive. */
  hold(holds: boolean): void {
    if (this.#closed) return
    if (holds) this.#socket.ref()
    else this.#socket.unref()
  }

  /** Flushes what was sent, and closes. */
  end(): void {
    this.#socket.end()
  }

  /** Closes because the peer has sent something invalid. */
  violated(error: unknown): void {
    this.close(`the other side has sent ${messageOf(error)}`, true)
  }

  /** Closes at once and notifies the owner of the reason. May be called more than once. */
  close(reason: string, isViolation = false): void {
    if (this.#closed) return
    this.#closed = true
    this.#piecewise?.abort()
    this.#socket.destroy()
    if (!this.#reading) this.#release()
    this.#owner.onClose(reason, isViolation)
  }

  #release(): void {
    this.#rings?.release()
    this.#rings = null
    this.#late.length = 0
  }

  /** Wakes the peer once for everything written in this turn. */
  #ringSoon(): void {
    if (this.#ringIsDue) return
    this.#ringIsDue = true
    process.nextTick((this.#onRings ??= () => this.#ring()))
  }

  #ring(): void {
    this.#ringIsDue = false
    if (this.#rings?.writer.wakes()) this.#rings.bell.ring()
  }

  #onFrame(kind: number, body: Buffer): void {
    if (this.#closed) return
    if (kind !== frameKinds.record) {
      this.#owner.onFrame(kind, body)
      if (!this.#closed && !this.#owner.takesFrames()) this.#socket.pause()
    } else if (!this.#isOpen) throw new BadRecord('a record before its greeting')
    else this.#takeLater(body)
  }

  #takeLater(body: Buffer): void {
    this.#late.push(body)
    this.#lateBytes += body.length
    this.#readAll()
    if (!this.#closed && (this.#late.length > mostLate || this.#lateBytes > this.#frames.mostBytes))
      this.#socket.pause()
  }

  /** Reads in the order of writing, as far as records are accepted and this turn's time allows. */
  #readAll(): void {
    if (this.#piecewise !== null || this.#turnIsOver) return
    const beginMs = performance.now()
    if (beginMs - this.#sinceMs > 2 * turnMs && this.#usedMs > 0) this.#begin(beginMs)
    if (this.#rings === null || this.#readRing(this.#rings, beginMs)) this.#readLate(beginMs)
    this.#usedMs += performance.now() - beginMs
    if (
      !this.#closed &&
      this.#socket.isPaused() &&
      this.#late.length <= mostLate / 2 &&
      this.#lateBytes <= this.#frames.mostBytes &&
      this.#owner.takesFrames()
    )
      this.#socket.resume()
  }

  #readLate(beginMs: number): void {
    while (!this.#closed && this.#late.length > 0 && this.#owner.accepts()) {
      const body = this.#late.shift()!
      this.#lateBytes -= body.length
      const bytes = Math.min(body.length, longestRecord) & ~7
      if (
        !this.#take(new RecordReader(new RecordViews(body.buffer as ArrayBuffer), 0, bytes), bytes, noMore) ||
        this.#isOver(beginMs, bytes)
      )
        return
    }
  }

  /** Returns whether the ring is empty. */
  #readRing({ reader, views }: SharedRings, beginMs: number): boolean {
    reader.wake()
    const done = () => reader.done()
    while (this.#owner.accepts()) {
      let bytes = reader.next()
      if (bytes === -1) {
        reader.sleep()
        bytes = reader.next() // written before the reader slept
        if (bytes === -1) return true
        reader.wake()
      }
      if (
        !this.#take(new RecordReader(views, reader.place, bytes), bytes, done) ||
        this.#closed ||
        this.#isOver(beginMs, bytes)
      )
        return false
    }
    return false
  }

  /**
   * Returns whether the record is finished. The rest of a long record is read in pieces, and reading
   * continues after that.
   */
  #take(record: RecordReader, bytes: number, done: () => void): boolean {
    const left = this.#owner.onRecord(record, bytes)
    if (left === undefined) {
      if (!this.#closed) done()
      return true
    }
    if (this.#closed) return false
    this.#piecewise = new AbortController()
    const goOn = () => {
      this.#piecewise = null
      if (this.#closed) return
      done()
      this.read()
    }
    slices.run(left, bytes, this.#piecewise.signal).then(goOn, (error: unknown) => this.violated(error))
    return false
  }

  /** Whether this turn's time is used up; reading then continues in the next turn. */
  #isOver(beginMs: number, bytes: number): boolean {
    // Short records are often read in much less than a millisecond, so the clock is read only after every
    // eighth.
    if (bytes <= shortBytes && ++this.#short % 8 !== 0) return false
    if (this.#usedMs + performance.now() - beginMs < turnMs) return false
    this.#turnIsOver = true
    nextTurn(() => {
      this.#begin(performance.now())
      this.read()
    })
    return true
  }

  #begin(nowMs: number): void {
    this.#turnIsOver = false
    this.#sinceMs = nowMs
    this.#usedMs = 0
  }

  /** Closes the connection if the peer sends something invalid, with no other effect. */
  #guarded(read: () => void): void {
    if (this.#reading) return read()
    this.#reading = true
    try {
      read()
    } catch (error) {
      this.violated(error)
    } finally {
      this.#reading = false
      if (this.#closed) this.#release()
    }
  }
}

const noMore = (): void => {}
