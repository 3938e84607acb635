import { loadBinding, type NativeBinding } from '../memory/addon.ts'
import type { SlotMemory } from '../memory/staging-pool.ts'
import { collectGarbage } from './collect-garbage.ts'
import { free } from './discard.ts'

/** From here on shared memory that was given back is worth a collection. */
const collectedFromBytes = 4 * 2 ** 20

/** The bytes of a staging slot in this thread. */
export class SlotBytes {
  /** What the application's thread sees. */
  readonly shared: ArrayBufferLike
  /** What ONNX Runtime sees: the shared bytes, or private ones that are copied to and fro. */
  readonly visible: ArrayBufferLike
  readonly #native: boolean

  constructor(memory: SlotMemory) {
    this.#native = memory.kind === 'native'
    this.shared = memory.kind === 'native' ? addon().view(memory.leaseId) : memory.buffer
    this.visible = memory.kind === 'shared' && memory.copy ? new ArrayBuffer(memory.byteLength) : this.shared
  }

  /** Lets go of the bytes, which must not be used any more. */
  release(): void {
    if (this.#native) return addon().detach(this.shared as ArrayBuffer)
    if (this.visible !== this.shared) free(this.visible as ArrayBuffer)
  }
}

/**
 * Frees the memory of slots that were released and forgotten here. Done on this thread: to unmap a gigabyte takes a
 * tenth of a second. Shared memory, which only a collector can free, waits for the application's too.
 */
export function freeReleased(slots: readonly SlotBytes[]): void {
  const { binding } = loadBinding()
  binding?.trim()
  const sharedBytes = slots.reduce((sum, { shared }) => sum + (shared instanceof SharedArrayBuffer ? shared.byteLength : 0), 0)
  // Later, when nothing on the stack holds it.
  if (sharedBytes >= collectedFromBytes) setImmediate(collectGarbage)
}

function addon(): NativeBinding {
  const loaded = loadBinding()
  if (loaded.binding === null) throw new Error(loaded.reason)
  return loaded.binding
}
