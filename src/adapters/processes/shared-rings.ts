import type { NativeBell, NativeProcesses } from '../../native/native-processes.ts'
import { areaBytes, RingReader, RingWriter } from './record-ring.ts'
import { BadRecord } from './record-reader.ts'
import { RecordViews } from './record-views.ts'

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
