import type { Socket } from 'node:net'
import { slices, type Pieces } from '../../base/slices.ts'
import { FrameReader, frameKinds, frameOf, textFrame } from './messages.ts'
import { BadRecord, longestRecord, RecordReader, RecordViews, type RecordWriter } from './records.ts'
import type { SharedRings } from './shared-rings.ts'

/** Who has an end of a connection. */
export interface ConnectionOwner {
  /** A frame that is no record. */
  onFrame(kind: number, body: Buffer): void
  /** Whether frames may come; where not, {@link Connection.read} is to be called once they may. */
  takesFrames(): boolean
  /** Whether a record may come now; where not, {@link Connection.read} is to be called once it may. */
  accepts(): boolean
  /** Returns what is left to be done with it; the next record is read when that is done. */
  onRecord(record: RecordReader, byteLength: number): Pieces<void> | undefined
  /** It is over, for this reason; told once. */
  onClose(reason: string): void
}

/** How long records are read in one turn of the event loop, in milliseconds: others are to have it as well. */
const turnMs = 4
const shortBytes = 2048
/** Frames before the peer has said who it is are short. */
const greetingBytes = 65_536
/** Records that wait to be accepted before no more is read from the socket; fewer where they have more bytes than the longest frame may have. */
const mostLate = 64

/**
 * One end of a connection of two processes: a socket, and rings in shared memory where there are any. Records go through the rings, and
 * through the socket where there are none, or no room.
 */
export class Connection {
  readonly #socket: Socket
  readonly #owner: ConnectionOwner
  readonly #frames: FrameReader
  #rings: SharedRings | null = null
  #onRings: (() => void) | null = null
  /** Records that came through the socket and were not accepted yet: later ones than all that is in the ring. */
  readonly #late: Buffer[] = []
  #lateBytes = 0
  #reading = false
  /** A record is being read in pieces, until this ends it. */
  #piecewise: AbortController | null = null
  /** No more is read before the next turn. */
  #turnIsOver = false
  /** Of reading, since {@link #sinceMs}. */
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
      this.read() // what was written before it
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

  /** The peer is known now: frames may be that long, and records go through the rings, if any. */
  open(mostFrameBytes: number, rings: SharedRings | null): void {
    this.#isOpen = true
    this.#frames.mostBytes = mostFrameBytes
    this.#rings = rings
    if (rings !== null) rings.reader.sleep()
  }

  /** What has come over the socket. */
  push(chunk: Uint8Array): void {
    if (this.#closed) return
    this.#guarded(() => {
      this.#readAll() // what was written before it
      if (!this.#closed) this.#frames.push(chunk)
    })
  }

  /** @param onSent is called when the other side has taken it, or never will. */
  sendText(kind: number, text: string, onSent?: () => void): void {
    this.sendFrame(textFrame(kind, text), onSent)
  }

  sendFrame(frame: Buffer, onSent?: () => void): void {
    if (!this.#closed) this.#socket.write(frame, onSent)
    else onSent?.()
  }

  /** Bytes that have gone out over the socket. */
  get sentBytes(): number {
    return this.#socket.bytesWritten - this.#socket.writableLength
  }

  /** Bytes that the other side has not taken from the socket. */
  get unsentBytes(): number {
    return this.#socket.writableLength
  }

  /** Sends a record; false when it takes the way through the socket. What the peer reads first is up to the way. */
  send(record: RecordWriter, throughSocket = false): boolean {
    if (!throughSocket && this.#put(record)) return true
    const frame = frameOf(frameKinds.record, record.byteLength)
    record.copyTo(new RecordViews(frame.buffer as ArrayBuffer), 8)
    this.sendFrame(frame)
    return false
  }

  /** Puts a record into the ring; false when there is no room. */
  #put(record: RecordWriter): boolean {
    const { writer } = this.#rings ?? {}
    if (writer === undefined || record.byteLength > writer.longest) return false
    try {
      if (!writer.write(record)) return false
    } catch (error) {
      if (!(error instanceof BadRecord)) throw error
      this.close(senselessly(error))
      return true
    }
    this.#ringSoon()
    return true
  }

  /** Reads what has come and is accepted. */
  readonly read = (): void => {
    if (!this.#closed) this.#guarded(() => this.#readAll())
  }

  /** It holds the process no longer just by being there, only while {@link hold} says so. */
  release(): void {
    this.#socket.unref()
  }

  /** Whether it holds the process. */
  hold(holds: boolean): void {
    if (this.#closed) return
    if (holds) this.#socket.ref()
    else this.#socket.unref()
  }

  /** Lets what was sent go out, and closes. */
  end(): void {
    this.#socket.end()
  }

  /** Closes at once; the owner is told why. May be called more than once. */
  close(reason: string): void {
    if (this.#closed) return
    this.#closed = true
    this.#piecewise?.abort()
    this.#socket.destroy()
    if (!this.#reading) this.#release()
    this.#owner.onClose(reason)
  }

  #release(): void {
    this.#rings?.release()
    this.#rings = null
    this.#late.length = 0
  }

  /** Once for all that is written in this turn. */
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

  /** In the order in which it was written, as far as it is accepted, and as long as this turn allows. */
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

  /** Whether nothing is left in it. */
  #readRing({ reader, views }: SharedRings, beginMs: number): boolean {
    reader.wake()
    const done = () => reader.done()
    while (this.#owner.accepts()) {
      let bytes = reader.next()
      if (bytes === -1) {
        reader.sleep()
        bytes = reader.next() // written before it slept
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

  /** Whether the record is done with: what is left of a long one is done in pieces, and reading goes on when it is. */
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
    slices
      .run(left, bytes, this.#piecewise.signal)
      .then(goOn, (error: unknown) => this.close(senselessly(error as Error)))
    return false
  }

  /** Whether this turn has had its time; then it goes on in the next one. */
  #isOver(beginMs: number, bytes: number): boolean {
    // The time is not looked at behind each of the short ones, of which some are read in much less than a millisecond.
    if (bytes <= shortBytes && ++this.#short % 8 !== 0) return false
    if (this.#usedMs + performance.now() - beginMs < turnMs) return false
    this.#turnIsOver = true
    setImmediate(() => {
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

  /** What a peer sends that makes no sense ends the connection, and nothing else. */
  #guarded(read: () => void): void {
    if (this.#reading) return read()
    this.#reading = true
    try {
      read()
    } catch (error) {
      this.close(senselessly(error as Error))
    } finally {
      this.#reading = false
      if (this.#closed) this.#release()
    }
  }
}

const noMore = (): void => {}

function senselessly(error: Error): string {
  return `the other side has sent ${error.message}`
}
