import type { StagingOptions } from '../config/engine-options.ts'
import { InferenceError } from '../errors.ts'
import { loadBinding, plainMemory, type NativeBinding, type NativeLease } from './addon.ts'
import { SharedMemory } from './shared-memory.ts'

/**
 * How a batch's bytes reach ONNX Runtime, best first: `pinned` (page-locked by the CUDA driver), `native` (the addon's
 * aligned memory), `shared` (a SharedArrayBuffer), `copied` (a SharedArrayBuffer that the worker copies to and fro,
 * because ONNX Runtime refuses shared memory on this Node).
 */
export type StagingKind = 'pinned' | 'native' | 'shared' | 'copied'

/** Where the bytes of a staging slot are, in a form that can be posted to a worker. */
export type SlotMemory =
  /** Memory of the native addon; each isolate makes its own view of the lease. */
  | { readonly kind: 'native'; readonly leaseId: number; readonly byteLength: number }
  /** Shared memory; `copy` when ONNX Runtime refuses views of it, so that the worker stages through private memory. */
  | { readonly kind: 'shared'; readonly buffer: SharedArrayBuffer; readonly copy: boolean; readonly byteLength: number }

/** Memory of one slot. */
export interface StagingBuffer {
  readonly kind: StagingKind
  readonly bytes: ArrayBufferLike
  readonly byteLength: number
  /** Memory of this size or more is to be given back when no batch has needed so much for a while. */
  readonly largeFromBytes: number
  readonly memory: SlotMemory
  /** Gives the memory back; views of `bytes` are empty afterwards, or must not be used. May be called twice. */
  release(): void
}

/** Counters of staging memory; all sizes in bytes. */
export interface StagingStats {
  readonly kind: StagingKind
  /** Why not a better kind. */
  readonly reason: string
  /** What this engine's slots hold. */
  readonly usedBytes: number
  readonly highWaterBytes: number
  /**
   * What is taken from the system: native memory of the whole process, and this engine's shared memory, which counts
   * until the garbage collector has found that its slot is gone.
   */
  readonly reservedBytes: number
  /** The limit of native memory in force, one for the process: the largest that an open engine asks for. */
  readonly limitBytes: number
  /** Slots that got a lesser kind than the pool's own, or memory past the limit. */
  readonly fallbacks: number
}

const defaultLimitBytes = 256 * 2 ** 20
/** Larger slots are kept only while they are needed. */
const largeShareOfLimit = 1 / 8
const largeAtMostBytes = 32 * 2 ** 20

/** Hands out staging memory. The native part is one per process; what is counted here is this engine's. */
export class StagingPool {
  readonly kind: StagingKind
  readonly reason: string
  readonly #native: NativeBinding | null
  readonly #shared: SharedMemory
  readonly #limitBytes: number
  #limitClaim: number | null = null
  #usedBytes = 0
  #highWaterBytes = 0
  #fallbacks = 0
  #warned = false

  /**
   * @param acceptsSharedMemory whether ONNX Runtime reads SharedArrayBuffers in the workers.
   * @param noNativeMemory why the workers cannot see the native addon's memory; `null` where they can.
   * @throws InferenceError `ERR_NATIVE_LOAD` when a kind is asked for that cannot be had.
   */
  constructor(options: StagingOptions, acceptsSharedMemory: boolean, noNativeMemory: string | null = null) {
    const asked = options.kind ?? 'auto'
    const loaded = loadBinding()
    const missing = loaded.binding === null ? loaded.reason : noNativeMemory && `In the workers: ${noNativeMemory}`
    const useNative = missing === null && (asked === 'auto' || asked === 'native')
    if (asked === 'native' && missing !== null) {
      throw new InferenceError('ERR_NATIVE_LOAD', `staging.kind 'native' needs the native addon. ${missing}`)
    }
    if (asked === 'shared' && !acceptsSharedMemory) {
      const reason = `ONNX Runtime refuses SharedArrayBuffers on Node ${process.versions.node}; use 'copied' or build the addon`
      throw new InferenceError('ERR_NATIVE_LOAD', `staging.kind 'shared' cannot be had: ${reason}`)
    }
    this.#native = useNative ? loaded.binding : null
    this.#shared = new SharedMemory(!acceptsSharedMemory || asked === 'copied')
    this.kind = useNative ? 'native' : this.#shared.kind
    this.reason = asked !== 'auto' ? `asked for with staging.kind '${asked}'` : (missing ?? 'the native addon is loaded')
    this.#limitBytes = options.limitBytes ?? defaultLimitBytes
    if (options.limitBytes !== undefined) this.#claimLimit(options.limitBytes)
    if (asked === 'auto' && missing !== null) this.#warnSlower(`${this.#shared.kind} staging memory is in use. ${missing}`)
  }

  /**
   * Memory for one slot, zero-filled or not.
   *
   * @param device the CUDA device for which page-locked memory is tried; `null` for none.
   */
  acquire(byteLength: number, device: number | null): StagingBuffer {
    const native = this.#native
    const lease = native?.acquire(byteLength, device ?? plainMemory, true) ?? null
    return this.#counted(byteLength, this.#nativeBuffer(lease, byteLength, device) ?? this.#sharedBuffer(byteLength))
  }

  /**
   * As {@link acquire}, for a model that is being loaded: page-locking is done off this thread, and the memory is there to
   * be kept. `null` where there is none within the limit.
   */
  async acquireAhead(byteLength: number, device: number): Promise<StagingBuffer | null> {
    const lease = (await this.#native?.acquireAsync(byteLength, device)) ?? null
    const buffer = lease === null ? null : this.#nativeBuffer(lease, byteLength, device)
    return buffer === null ? null : this.#counted(byteLength, { ...buffer, largeFromBytes: Infinity })
  }

  stats(): StagingStats {
    const native = this.#native?.stats()
    return {
      kind: this.kind,
      reason: this.reason,
      usedBytes: this.#usedBytes,
      highWaterBytes: this.#highWaterBytes,
      reservedBytes: (native?.reservedBytes ?? 0) + this.#shared.bytes,
      limitBytes: native?.limitBytes ?? this.#limitBytes,
      fallbacks: this.#fallbacks,
    }
  }

  /** Gives unused native slabs back to the system. */
  trim(): void {
    this.#native?.trim()
  }

  /** Gives back what is unused, and the say in the process's limit. */
  close(): void {
    if (this.#limitClaim !== null) this.#native?.dropLimit(this.#limitClaim)
    this.#limitClaim = null
    this.trim()
  }

  #claimLimit(limitBytes: number): void {
    const native = this.#native
    if (native === null) return
    this.#limitClaim = native.claimLimit(limitBytes)
    const inForce = native.stats().limitBytes
    if (inForce === limitBytes) return
    const message = `staging.limitBytes is ${limitBytes} here, but another engine of this process asks for ${inForce}; the largest counts`
    process.emitWarning(message, { type: 'ZerohopWarning', code: 'ZEROHOP_STAGING_LIMIT' })
  }

  /** The memory of a lease; `null` where there is none, or this runtime makes no views of it. */
  #nativeBuffer(lease: NativeLease | null, byteLength: number, device: number | null): StagingBuffer | null {
    const native = this.#native
    if (native === null) return null
    if (lease === null || lease.pastLimit) {
      this.#fellBack(`${byteLength} bytes of native staging memory exceed the limit; raise staging.limitBytes`)
    } else if (device !== null && lease.kind !== 'pinned') {
      this.#fellBack(`page-locked memory cannot be had: ${lease.reason ?? 'unknown'}`)
    }
    if (lease === null) return null
    let bytes: ArrayBuffer
    try {
      bytes = native.view(lease.id)
    } catch (error) {
      native.release(lease.id)
      this.#fellBack(`the runtime refuses native memory: ${(error as Error).message}`)
      return null
    }
    const limitBytes = native.stats().limitBytes
    return {
      kind: lease.kind === 'pinned' ? 'pinned' : 'native',
      bytes,
      byteLength,
      largeFromBytes: lease.pastLimit ? 0 : largeFrom(limitBytes),
      memory: { kind: 'native', leaseId: lease.id, byteLength },
      release: () => {
        native.detach(bytes)
        native.release(lease.id)
      },
    }
  }

  #sharedBuffer(byteLength: number): StagingBuffer {
    const { kind } = this.#shared
    const buffer = this.#shared.allocate(byteLength)
    return {
      kind,
      bytes: buffer,
      byteLength,
      largeFromBytes: largeFrom(this.#limitBytes),
      memory: { kind: 'shared', buffer, copy: kind === 'copied', byteLength },
      release: () => {},
    }
  }

  #counted(byteLength: number, buffer: StagingBuffer): StagingBuffer {
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

  #fellBack(reason: string): void {
    this.#fallbacks++
    this.#warnSlower(reason)
  }

  /** Said once: a fallback costs speed, never correctness. */
  #warnSlower(reason: string): void {
    if (this.#warned) return
    this.#warned = true
    process.emitWarning(`Slower staging memory: ${reason}`, { type: 'ZerohopWarning', code: 'ZEROHOP_STAGING_FALLBACK' })
  }
}

function largeFrom(limitBytes: number): number {
  return Math.min(largeAtMostBytes, limitBytes * largeShareOfLimit)
}
