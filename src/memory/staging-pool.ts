import type { StagingOptions } from '../config/engine-options.ts'
import { InferenceError } from '../errors.ts'
import { loadBinding, type NativeBinding } from './addon.ts'

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
  readonly memory: SlotMemory
  release(): void
}

/** Counters of staging memory; all sizes in bytes. */
export interface StagingStats {
  readonly kind: StagingKind
  /** Why not a better kind. */
  readonly reason: string
  readonly usedBytes: number
  readonly highWaterBytes: number
  readonly reservedBytes: number
  /** Slots that got a lesser kind than the pool's own. */
  readonly fallbacks: number
}

const defaultLimitBytes = 256 * 2 ** 20

/** Hands out staging memory. The native part is one per process; what is counted here is this engine's. */
export class StagingPool {
  readonly kind: StagingKind
  readonly reason: string
  readonly #native: NativeBinding | null
  readonly #sharedKind: 'shared' | 'copied'
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
    this.#sharedKind = acceptsSharedMemory && asked !== 'copied' ? 'shared' : 'copied'
    this.kind = useNative ? 'native' : this.#sharedKind
    this.reason = asked !== 'auto' ? `asked for with staging.kind '${asked}'` : (missing ?? 'the native addon is loaded')
    this.#native?.configure({ limitBytes: options.limitBytes ?? defaultLimitBytes })
    if (asked === 'auto' && missing !== null) this.#warn(`${this.#sharedKind} staging memory is in use. ${missing}`)
  }

  /** Memory for one slot, zero-filled or not. Page-locked memory is tried for models on CUDA devices. */
  acquire(byteLength: number, pageLocked: boolean): StagingBuffer {
    const buffer = this.#acquireNative(byteLength, pageLocked) ?? this.#acquireShared(byteLength)
    this.#usedBytes += byteLength
    this.#highWaterBytes = Math.max(this.#highWaterBytes, this.#usedBytes)
    return buffer
  }

  stats(): StagingStats {
    return {
      kind: this.kind,
      reason: this.reason,
      usedBytes: this.#usedBytes,
      highWaterBytes: this.#highWaterBytes,
      reservedBytes: this.#native?.stats().reservedBytes ?? this.#usedBytes,
      fallbacks: this.#fallbacks,
    }
  }

  /** Gives unused native slabs back to the system. */
  trim(): void {
    this.#native?.trim()
  }

  #acquireNative(byteLength: number, pageLocked: boolean): StagingBuffer | null {
    const native = this.#native
    if (native === null) return null
    const lease = native.acquire(byteLength, pageLocked)
    if (lease === null) {
      this.#fellBack(`${byteLength} bytes of native staging memory exceed the limit; raise staging.limitBytes`)
      return null
    }
    if (pageLocked && lease.kind !== 'pinned') this.#fellBack(`page-locked memory cannot be had: ${lease.reason ?? 'unknown'}`)
    let bytes: ArrayBufferLike
    try {
      bytes = native.view(lease.id)
    } catch (error) {
      native.release(lease.id)
      this.#fellBack(`the runtime refuses native memory: ${(error as Error).message}`)
      return null
    }
    const release = this.#releaseOnce(byteLength, () => native.release(lease.id))
    return {
      kind: lease.kind === 'pinned' ? 'pinned' : 'native',
      bytes,
      byteLength,
      memory: { kind: 'native', leaseId: lease.id, byteLength },
      release,
    }
  }

  #acquireShared(byteLength: number): StagingBuffer {
    const buffer = new SharedArrayBuffer(byteLength)
    const copy = this.#sharedKind === 'copied'
    return {
      kind: this.#sharedKind,
      bytes: buffer,
      byteLength,
      memory: { kind: 'shared', buffer, copy, byteLength },
      release: this.#releaseOnce(byteLength, () => {}),
    }
  }

  #releaseOnce(byteLength: number, release: () => void): () => void {
    let held = true
    return () => {
      if (!held) return
      held = false
      this.#usedBytes -= byteLength
      release()
    }
  }

  #fellBack(reason: string): void {
    this.#fallbacks++
    this.#warn(reason)
  }

  /** Said once: a fallback costs speed, never correctness. */
  #warn(reason: string): void {
    if (this.#warned) return
    this.#warned = true
    process.emitWarning(`Slower staging memory: ${reason}`, { type: 'ZerohopWarning', code: 'ZEROHOP_STAGING_FALLBACK' })
  }
}
