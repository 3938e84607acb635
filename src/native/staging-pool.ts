import { warn } from '../base/warnings.ts'

/**
 * How a batch's bytes reach ONNX Runtime. With the native executor `pinned` (page-locked by the CUDA driver) or `native` (the
 * addon's aligned memory); through onnxruntime-node `shared` (a SharedArrayBuffer), or `copied` (a SharedArrayBuffer that the
 * worker copies from, because ONNX Runtime refuses shared memory on this Node).
 */
export type StagingKind = 'pinned' | 'native' | 'shared' | 'copied'

/** Where the bytes of a staging slot are, for the executor whose memory it is. */
export type SlotMemory =
  /** Memory of the native addon, by the number of its lease. */
  | { readonly kind: 'native'; readonly leaseId: number }
  /** Shared memory; `copied` when ONNX Runtime refuses views of it, so that the worker feeds it from private memory. */
  | { readonly kind: 'shared'; readonly buffer: SharedArrayBuffer; readonly copied: boolean }

/** Bytes of a staging buffer that are lent. */
export interface LentBytes {
  readonly bytes: ArrayBuffer
  /** Takes them back: `bytes` is empty afterwards, and so are all views of it. May be called twice. */
  takeBack(): void
}

/** Memory of one slot. */
export interface StagingBuffer {
  readonly kind: StagingKind
  readonly bytes: ArrayBufferLike
  readonly byteLength: number
  /** Memory of this size or more is to be given back when no batch has needed so much for a while. */
  readonly largeFromBytes: number
  readonly memory: SlotMemory
  /**
   * A buffer over some of its bytes that can be taken back from its borrower; left out where memory cannot be taken back. They
   * stay as long as the buffer does, whatever becomes of the rest.
   */
  lend?(offset: number, byteLength: number): LentBytes
  /** Gives the memory back; views of `bytes` are empty afterwards, or must not be used. May be called twice. */
  release(): void
}

/** Memory that an executor reads slots from. */
export interface StagingMemory {
  readonly kind: StagingKind
  /** Why this kind. */
  readonly reason: string
  /** As in {@link StagingStats}. */
  readonly reservedBytes: number
  readonly limitBytes: number
  /**
   * Memory for one slot, zero-filled or not.
   *
   * @param device the CUDA device for which page-locked memory is tried; `null` for none.
   * @param fellBack called with the reason when it is of a lesser kind, or past the limit.
   * @throws Error when the system has none.
   */
  acquire(byteLength: number, device: number | null, fellBack: (reason: string) => void): StagingBuffer
  /** As `acquire`, of what can be done without; `null` where less than half of the limit would be left, and where rows cannot be run in place. */
  acquireSpare(
    byteLength: number,
    device: number | null,
    fellBack: (reason: string) => void,
  ): StagingBuffer | null
  /** As `acquire`, off this thread; `null` where there is none within the limit. */
  acquireAhead(
    byteLength: number,
    device: number,
    fellBack: (reason: string) => void,
  ): Promise<StagingBuffer | null>
  /** Gives what is unused back to the system. */
  trim(): void
  /** The same, once and for all. */
  close(): void
}

/** Counters of staging memory; all sizes in bytes. */
export interface StagingStats {
  /** Memory of the addon, page-locked or plain, or shared memory of JavaScript. */
  readonly kind: StagingKind
  /** Why this kind. */
  readonly reason: string
  /** What this engine's slots hold. */
  readonly usedBytes: number
  /** The most that they ever held. */
  readonly highWaterBytes: number
  /**
   * What is taken from the system: native memory of the whole process, or this engine's shared memory, which counts
   * until the garbage collector has found that its slot is gone.
   */
  readonly reservedBytes: number
  /** The limit of native memory in force, one for the process: the largest that an open engine asks for. */
  readonly limitBytes: number
  /** Slots that got a lesser kind than the pool's own, or memory past the limit. */
  readonly fallbacks: number
  /** Why the last of them did; `null` without any. */
  readonly lastFallback: string | null
}

export const defaultLimitBytes = 256 * 2 ** 20
/** Larger slots are kept only while they are needed. */
const largeShareOfLimit = 1 / 8
const largeAtMostBytes = 32 * 2 ** 20

/** See {@link StagingBuffer.largeFromBytes}. */
export function largeFrom(limitBytes: number): number {
  return Math.min(largeAtMostBytes, limitBytes * largeShareOfLimit)
}

/** Hands out the staging memory of one engine, and counts it. */
export class StagingPool {
  readonly #memory: StagingMemory
  #usedBytes = 0
  #highWaterBytes = 0
  #fallbacks = 0
  #lastFallback: string | null = null
  #warned = false

  constructor(memory: StagingMemory) {
    this.#memory = memory
  }

  /** See {@link StagingMemory.acquire}. */
  acquire(byteLength: number, device: number | null): StagingBuffer {
    return this.#counted(this.#memory.acquire(byteLength, device, this.#fellBack))
  }

  /**
   * As {@link acquire}, for a model that is being loaded: page-locking is done off this thread, and the memory is there to
   * be kept. `null` where there is none within the limit.
   */
  async acquireAhead(byteLength: number, device: number): Promise<StagingBuffer | null> {
    const buffer = await this.#memory.acquireAhead(byteLength, device, this.#fellBack)
    return buffer === null ? null : this.#counted({ ...buffer, largeFromBytes: Infinity })
  }

  /** See {@link StagingMemory.acquireSpare}. */
  acquireSpare(byteLength: number, device: number | null): StagingBuffer | null {
    const buffer = this.#memory.acquireSpare(byteLength, device, this.#fellBack)
    return buffer === null ? null : this.#counted(buffer)
  }

  stats(): StagingStats {
    const { kind, reason, reservedBytes, limitBytes } = this.#memory
    return {
      kind,
      reason,
      usedBytes: this.#usedBytes,
      highWaterBytes: this.#highWaterBytes,
      reservedBytes,
      limitBytes,
      fallbacks: this.#fallbacks,
      lastFallback: this.#lastFallback,
    }
  }

  /** Gives unused memory back to the system. */
  trim(): void {
    this.#memory.trim()
  }

  /** Gives back what is unused, and the say in the process's limit. */
  close(): void {
    this.#memory.close()
  }

  #counted(buffer: StagingBuffer): StagingBuffer {
    const { byteLength } = buffer
    this.#usedBytes += byteLength
    this.#highWaterBytes = Math.max(this.#highWaterBytes, this.#usedBytes)
    let held = true
    const release = () => {
      if (!held) return
      held = false
      this.#usedBytes -= byteLength
      buffer.release()
    }
    return { ...buffer, release }
  }

  /** Said once: a fallback costs speed, never correctness. */
  readonly #fellBack = (reason: string): void => {
    this.#fallbacks++
    this.#lastFallback = reason
    if (this.#warned) return
    this.#warned = true
    warn('ZEROHOP_STAGING_FALLBACK', `Slower staging memory is in use: ${reason}`)
  }
}
