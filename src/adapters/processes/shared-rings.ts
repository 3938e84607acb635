import type { NativeBell, NativeProcesses } from '../../native/native-binding.ts'
import { BadRecord, RecordViews, type RecordWriter } from './records.ts'

/** Descriptors that one side creates for the other. The side that holds them closes them after use. */
export interface Descriptors {
  readonly area: number
  readonly bell: number
}

/** Two rings in shared memory of two processes, and a bell to wake either side. */
export class SharedRings {
  readonly reader: RingReader
  readonly writer: RingWriter
  readonly views: RecordViews
  readonly bell: NativeBell
  readonly #processes: NativeProcesses
  readonly #bytes: ArrayBuffer

  /** @param onRing called when the other side has written something. */
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

  /** Creates the rings of a serving process, and the descriptors to pass. Throws if the system refuses. */
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

  /** Opens the rings of passed descriptors, and owns those. Throws if they are invalid. */
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

  /** Frees the memory. Do not use the rings afterwards. */
  release(): void {
    this.bell.close()
    this.#processes.releaseArea(this.#bytes)
  }
}

/** Positions of a ring's words, in units of 4 bytes. They are far enough apart not to share a cache line. */
const words = { written: 0, read: 16, readerSleeps: 32 } as const
/** Bytes for the words of one ring. */
const wordsBytes = 256
/** Memory before the rings, which begin at a page boundary. */
const headBytes = 4096
/** Stands in place of a length: the next record is at the beginning of the ring. */
const wrapped = -1
/**
 * Once filled so far, an empty ring starts over at its beginning. Memory that is never touched takes no
 * space.
 */
const rewindBytes = 2 ** 18

/** Size of the memory for two rings of that size. */
export function areaBytes(ringBytes: number): number {
  return headBytes + 2 * ringBytes
}

/**
 * A ring of records in memory shared by two processes, with one writer and one reader. Neither trusts the
 * other: words that the other side writes are checked before use. Each record begins with its length.
 */
class RecordRing {
  protected readonly views: RecordViews
  protected readonly words: Int32Array
  protected readonly start: number
  protected readonly size: number
  /** Total bytes written, or read, modulo 2^32. */
  protected at = 0

  /** @param index 0 or 1: which of the two rings. */
  constructor(views: RecordViews, ringBytes: number, index: number) {
    this.views = views
    this.words = views.words.subarray((index * wordsBytes) / 4, ((index + 1) * wordsBytes) / 4)
    this.start = headBytes + index * ringBytes
    this.size = ringBytes
  }
}

/** The writing end. */
export class RingWriter extends RecordRing {
  /** The longest record that can ever fit, in bytes. */
  get longest(): number {
    return this.size / 2
  }

  /** Writes a record; false if there is no room now. Afterwards check {@link wakes} and wake the reader. */
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

  /** Whether the reader sleeps and has to be woken. Returns true once per sleep. */
  wakes(): boolean {
    return (
      Atomics.load(this.words, words.readerSleeps) === 1 &&
      Atomics.exchange(this.words, words.readerSleeps, 0) === 1
    )
  }

  /** Offset at which so many bytes can be written; -1 if there is no room. */
  #room(bytes: number): number {
    const used = (this.at - Atomics.load(this.words, words.read)) >>> 0
    if (used > this.size) throw new BadRecord('more data was read than written')
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

/** The reading end. */
export class RingReader extends RecordRing {
  place = 0
  #bytes = 0

  /**
   * The bytes of the next record, at {@link place}; -1 if there is none now. The record stays there until
   * {@link done}.
   *
   * @throws BadRecord if it is invalid.
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

  /** Frees the record. */
  done(): void {
    this.#advance(this.#bytes)
  }

  /** Asks to be woken at the next write. Check for a record once more afterwards. */
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
