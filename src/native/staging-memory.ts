import { warn } from '../base/warnings.ts'
import { InferenceError } from '../errors.ts'
import type { StagingOptions } from '../options/engine-options.ts'
import { plainMemory, type NativeBinding, type NativeLease } from './native-binding.ts'
import {
  defaultLimitBytes,
  largeFrom,
  type LentBytes,
  type StagingBuffer,
  type StagingMemory,
} from './staging-pool.ts'

/** The addon's memory, whose one pool all engines of the process share; page-locked for instances on CUDA devices. */
export class NativeMemory implements StagingMemory {
  readonly kind = 'native'
  readonly reason: string
  readonly #binding: NativeBinding
  #limitClaim: number | null = null

  constructor(binding: NativeBinding, { kind, limitBytes }: StagingOptions) {
    this.#binding = binding
    this.reason = kind === 'native' ? "requested by staging.kind 'native'" : 'the native executor is in use'
    if (limitBytes !== undefined) this.#claimLimit(limitBytes)
  }

  get reservedBytes(): number {
    return this.#binding.stats().reservedBytes
  }

  get limitBytes(): number {
    return this.#binding.stats().limitBytes
  }

  acquire(byteLength: number, device: number | null, fellBack: (reason: string) => void): StagingBuffer {
    const lease = this.#binding.acquire(byteLength, device ?? plainMemory, true)
    if (lease === null)
      throw new Error(`The system has no ${byteLength} bytes of memory left for a staging slot.`)
    return this.#buffer(lease, device, fellBack)
  }

  acquireSpare(
    byteLength: number,
    device: number | null,
    fellBack: (reason: string) => void,
  ): StagingBuffer | null {
    const { usedBytes, pinnedBytes, limitBytes } = this.#binding.stats()
    const half = limitBytes / 2
    if (usedBytes + byteLength > half) return null
    // What others are done with is kept, and would have it refused for good; but to free page-locked memory stops the GPU.
    if (this.#reservedWith(byteLength) > half && pinnedBytes === 0) this.trim()
    if (this.#reservedWith(byteLength) > half) return null
    const lease = this.#binding.acquire(byteLength, device ?? plainMemory)
    return lease === null ? null : this.#buffer(lease, device, fellBack)
  }

  async acquireAhead(
    byteLength: number,
    device: number,
    fellBack: (reason: string) => void,
  ): Promise<StagingBuffer | null> {
    const lease = await this.#binding.acquireAsync(byteLength, device)
    return lease === null ? null : this.#buffer(lease, device, fellBack)
  }

  trim(): void {
    this.#binding.trim()
  }

  close(): void {
    if (this.#limitClaim !== null) this.#binding.dropLimit(this.#limitClaim)
    this.#limitClaim = null
    this.trim()
  }

  /** What is reserved once so much is used besides, unless what is free of it lies in pieces. */
  #reservedWith(byteLength: number): number {
    const { reservedBytes, usedBytes } = this.#binding.stats()
    return reservedBytes - usedBytes >= byteLength ? reservedBytes : reservedBytes + byteLength
  }

  #lend(leaseId: number, offset: number, byteLength: number): LentBytes {
    const bytes = this.#binding.lend(leaseId, offset, byteLength)
    return { bytes, takeBack: () => this.#binding.release(bytes) }
  }

  #claimLimit(limitBytes: number): void {
    this.#limitClaim = this.#binding.claimLimit(limitBytes)
    const inForce = this.limitBytes
    if (inForce === limitBytes) return
    const message = `staging.limitBytes is ${limitBytes} here, but another engine of this process asks for ${inForce}; the largest counts`
    warn('ZEROHOP_STAGING_LIMIT', message)
  }

  #buffer(
    { id, bytes, kind, pastLimit, reason }: NativeLease,
    device: number | null,
    fellBack: (reason: string) => void,
  ): StagingBuffer {
    const byteLength = bytes.byteLength
    if (pastLimit)
      fellBack(`${byteLength} bytes of native staging memory exceed the limit; raise staging.limitBytes`)
    else if (device !== null && kind !== 'pinned')
      fellBack(`page-locked memory is not available: ${reason ?? 'unknown'}`)
    return {
      kind: kind === 'pinned' ? 'pinned' : 'native',
      bytes,
      byteLength,
      largeFromBytes: pastLimit ? 0 : largeFrom(this.limitBytes),
      memory: { kind: 'native', leaseId: id },
      lend: (offset, length) => this.#lend(id, offset, length),
      release: () => this.#binding.release(bytes),
    }
  }
}

/** How a {@link SharedMemory} is chosen. */
interface SharedMemoryOptions {
  readonly staging: StagingOptions
  /** Whether onnxruntime-node reads views of it in the workers, which copy otherwise. */
  readonly accepted: boolean
  /** Why runs go through onnxruntime-node. */
  readonly reason: string
  /** Why it is this memory, where nothing else was asked for. Default: that the executor 'binding' is in use. */
  readonly inUse?: string
}

/** SharedArrayBuffers of one engine, counted until they are collected: nothing else can free them. */
export class SharedMemory implements StagingMemory {
  readonly kind: 'shared' | 'copied'
  readonly reason: string
  readonly limitBytes: number
  #reservedBytes = 0
  readonly #collected = new FinalizationRegistry<number>((byteLength) => (this.#reservedBytes -= byteLength))

  /** @throws InferenceError `ERR_NATIVE_LOAD` when a kind is asked for that cannot be had. */
  constructor({
    staging: { kind: asked = 'auto', limitBytes = defaultLimitBytes },
    accepted,
    reason,
    inUse = `the executor 'binding' is in use: ${reason}`,
  }: SharedMemoryOptions) {
    const refused = `ONNX Runtime refuses SharedArrayBuffers on Node ${process.versions.node}`
    if (asked === 'native')
      throw cannotBeHad(asked, `it takes the native executor, and 'binding' is in use: ${reason}`)
    if (asked === 'shared' && !accepted)
      throw cannotBeHad(asked, `${refused}; use 'copied' or the native executor`)
    this.kind = accepted && asked !== 'copied' ? 'shared' : 'copied'
    if (asked === 'auto') this.reason = `${inUse}${accepted ? '' : `; ${refused}`}`
    else this.reason = `requested by staging.kind '${asked}'`
    this.limitBytes = limitBytes
  }

  get reservedBytes(): number {
    return this.#reservedBytes
  }

  acquire(byteLength: number): StagingBuffer {
    const buffer = new SharedArrayBuffer(byteLength)
    this.#reservedBytes += byteLength
    this.#collected.register(buffer, byteLength)
    return {
      kind: this.kind,
      bytes: buffer,
      byteLength,
      largeFromBytes: largeFrom(this.limitBytes),
      memory: { kind: 'shared', buffer, copied: this.kind === 'copied' },
      release: () => {},
    }
  }

  acquireSpare(): null {
    return null
  }

  /** Nothing takes long here: slots get theirs with their first batch. */
  async acquireAhead(): Promise<null> {
    return null
  }

  trim(): void {}

  close(): void {}
}

function cannotBeHad(kind: string, reason: string): InferenceError {
  return new InferenceError('ERR_NATIVE_LOAD', `staging.kind '${kind}' is not available: ${reason}`)
}
