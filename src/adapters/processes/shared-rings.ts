import type { NativeBell, NativeProcesses } from '../../native/native-binding.ts'
import { BadRecord, RecordViews, type RecordWriter } from './records.ts'

/** Descriptors of what one side has made for the other: closed by whoever has them once they are used. */
export interface Descriptors {
  readonly area: number
  readonly bell: number
}

/** Two rings in memory that two processes share, and a bell between them. */
export class SharedRings {
  readonly reader: RingReader
  readonly writer: RingWriter
  readonly views: RecordViews
  readonly bell: NativeBell
  readonly #processes: NativeProcesses
  readonly #bytes: ArrayBuffer

  /** @param onRing is called when the other side has written something. */
  private constructor(
    processes: NativeProcesses,
    bytes: ArrayBuffer,
    bell: number,
    ringBytes: number,
    serves: boolean,
    onRing: () => void,
  ) {
    this.#processes = processes
    this.#bytes = bytes
    this.views = new RecordViews(bytes)
    this.reader = new RingReader(this.views, ringBytes, serves ? 0 : 1)
    this.writer = new RingWriter(this.views, ringBytes, serves ? 1 : 0)
    this.bell = new processes.Bell(bell, onRing)
  }

  /** Those of a serving process, with what it has to hand over. Throws where the system refuses. */
  static make(
    processes: NativeProcesses,
    ringBytes: number,
    onRing: () => void,
  ): { rings: SharedRings; others: Descriptors } {
    const { descriptor: area, bytes } = processes.createArea(areaBytes(ringBytes))
    const made = [area]
    try {
      const [own, bell] = processes.socketPair()
      made.push(own, bell)
      return {
        rings: new SharedRings(processes, bytes, own, ringBytes, true, onRing),
        others: { area, bell },
      }
    } catch (error) {
      processes.releaseArea(bytes)
      for (const each of made) processes.close(each)
      throw error
    }
  }

  /** Those that were handed over, whose descriptors are its own from now on. Throws when they are not what they should be. */
  static take(
    processes: NativeProcesses,
    { area, bell }: Descriptors,
    ringBytes: number,
    onRing: () => void,
  ): SharedRings {
    let bytes: ArrayBuffer | undefined
    try {
      if (ringBytes < 4096 || !Number.isInteger(Math.log2(ringBytes)))
        throw new BadRecord(`rings of ${ringBytes} bytes, expected a power of two`)
      bytes = processes.openArea(area, areaBytes(ringBytes))
      return new SharedRings(processes, bytes, bell, ringBytes, false, onRing)
    } catch (error) {
      if (bytes !== undefined) processes.releaseArea(bytes)
      processes.close(bell)
      throw error
    } finally {
      processes.close(area)
    }
  }

  /** Gives the memory back; nothing of it may be used any more. */
  release(): void {
    this.bell.close()
    this.#processes.releaseArea(this.#bytes)
  }
}

/** Where the words of a ring are, in 4 bytes each: far enough from each other not to share a cache line. */
const words = { written: 0, read: 16, readerSleeps: 32 } as const
/** Bytes of the words of one ring. */
const wordsBytes = 256
/** Memory before the rings, which begin at a page. */
const headBytes = 4096
/** In place of a length: the next record is at the ring's beginning. */
const wrapped = -1
/** A ring that is empty is filled from its beginning again, once it has been filled so far: what was never touched takes no memory. */
const rewindBytes = 2 ** 18

/** The memory that two rings of that size take. */
export function areaBytes(ringBytes: number): number {
  return headBytes + 2 * ringBytes
}

/**
 * A ring of records in memory that two processes share; one of them writes and one reads. Either may be anything: what the other has
 * put into the words is checked before it is believed. Each record begins with its length.
 */
class RecordRing {
  protected readonly views: RecordViews
  protected readonly words: Int32Array
  protected readonly start: number
  protected readonly size: number
  /** Of the bytes that were ever written, or read, modulo 2^32. */
  protected at = 0

  /** @param index 0 or 1: which of the two. */
  constructor(views: RecordViews, ringBytes: number, index: number) {
    this.views = views
    this.words = views.words.subarray((index * wordsBytes) / 4, ((index + 1) * wordsBytes) / 4)
    this.start = headBytes + index * ringBytes
    this.size = ringBytes
  }
}

/** The end that writes. */
export class RingWriter extends RecordRing {
  /** The longest record that there can be room for, in bytes. */
  get longest(): number {
    return this.size / 2
  }

  /** Puts a record in; false when there is no room for it now. The reader is to be woken by {@link wakes}. */
  write(record: RecordWriter): boolean {
    const bytes = record.byteLength + 8
    const at = this.#room(bytes)
    if (at === -1) return false
    const place = this.start + at
    this.views.words[place >> 2] = bytes
    record.copyTo(this.views, place + 8)
    this.at = (this.at + bytes) >>> 0
    Atomics.store(this.words, words.written, this.at | 0)
    return true
  }

  /** Whether the reader sleeps and has to be woken; asked once. */
  wakes(): boolean {
    return (
      Atomics.load(this.words, words.readerSleeps) === 1 &&
      Atomics.exchange(this.words, words.readerSleeps, 0) === 1
    )
  }

  /** Where in the ring so many bytes can be written; -1 for nowhere. */
  #room(bytes: number): number {
    const used = (this.at - Atomics.load(this.words, words.read)) >>> 0
    if (used > this.size) throw new BadRecord('more was read than written')
    const offset = this.at % this.size
    const ahead = this.size - offset
    const fitsAhead = bytes <= Math.min(ahead, this.size - used)
    const fitsAtStart = ahead + bytes <= this.size - used
    const rewinds = used === 0 && offset >= rewindBytes
    if (fitsAhead && !(rewinds && fitsAtStart)) return offset
    if (!fitsAtStart) return -1
    this.views.words[(this.start + offset) >> 2] = wrapped
    this.at = (this.at + ahead) >>> 0
    return 0
  }
}

/** The end that reads. */
export class RingReader extends RecordRing {
  place = 0
  #bytes = 0

  /**
   * The bytes of the next record, whose place is {@link place}; -1 when there is none now. It stays there until {@link done}.
   *
   * @throws BadRecord when it is none.
   */
  next(): number {
    for (;;) {
      const used = (Atomics.load(this.words, words.written) - this.at) >>> 0
      if (used === 0) return -1
      if (used > this.size) throw new BadRecord('more than a ring holds')
      const offset = this.at % this.size
      const ahead = this.size - offset
      const bytes = this.views.words[(this.start + offset) >> 2]!
      if (bytes === wrapped) {
        if (ahead > used || offset === 0) throw new BadRecord('a ring that begins nowhere')
        this.#advance(ahead)
        continue
      }
      if (bytes < 16 || bytes % 8 !== 0 || bytes > used || bytes > ahead)
        throw new BadRecord('a record of an impossible length')
      this.place = this.start + offset + 8
      this.#bytes = bytes
      return bytes - 8
    }
  }

  /** The record is not needed any more. */
  done(): void {
    this.#advance(this.#bytes)
  }

  /** Asks to be woken when something is written. A second look has to follow. */
  sleep(): void {
    Atomics.store(this.words, words.readerSleeps, 1)
  }

  wake(): void {
    Atomics.store(this.words, words.readerSleeps, 0)
  }

  #advance(bytes: number): void {
    this.at = (this.at + bytes) >>> 0
    Atomics.store(this.words, words.read, this.at | 0)
  }
}
