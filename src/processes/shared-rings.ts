import type { NativeBell, NativeProcesses } from '../memory/native-processes.ts'
import { areaBytes, RingReader, RingWriter } from './record-ring.ts'
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
  private constructor(processes: NativeProcesses, bytes: ArrayBuffer, bell: number, ringBytes: number, serves: boolean, onRing: () => void) {
    this.#processes = processes
    this.#bytes = bytes
    this.views = new RecordViews(bytes)
    this.reader = new RingReader(this.views, ringBytes, serves ? 0 : 1)
    this.writer = new RingWriter(this.views, ringBytes, serves ? 1 : 0)
    this.bell = new processes.Bell(bell, onRing)
  }

  /** Those of a serving process, with what it has to hand over. Throws where the system refuses. */
  static make(processes: NativeProcesses, ringBytes: number, onRing: () => void): { rings: SharedRings; others: Descriptors } {
    const { descriptor: area, bytes } = processes.createArea(areaBytes(ringBytes))
    const [own, bell] = processes.socketPair()
    return { rings: new SharedRings(processes, bytes, own, ringBytes, true, onRing), others: { area, bell } }
  }

  /** Those that were handed over. Throws when they are not what they should be. */
  static take(processes: NativeProcesses, { area, bell }: Descriptors, ringBytes: number, onRing: () => void): SharedRings {
    const bytes = processes.openArea(area, areaBytes(ringBytes))
    processes.close(area)
    return new SharedRings(processes, bytes, bell, ringBytes, false, onRing)
  }

  /** Gives the memory back; nothing of it may be used any more. */
  release(): void {
    this.bell.close()
    this.#processes.releaseArea(this.#bytes)
  }
}
