import type { StagingOptions } from '../../../options/engine-options.ts'
import { plainMemory, type NativeBinding, type NativeLease } from '../../../native/native-binding.ts'
import {
  largeFrom,
  type LentBytes,
  type StagingBuffer,
  type StagingMemory,
} from '../../../native/staging-pool.ts'
import { warn } from '../../../base/warnings.ts'

/** The addon's memory, whose one pool all engines of the process share; page-locked for instances on CUDA devices. */
export class NativeMemory implements StagingMemory {
  readonly kind = 'native'
  readonly reason: string
  readonly #binding: NativeBinding
  #limitClaim: number | null = null

  constructor(binding: NativeBinding, { kind, limitBytes }: StagingOptions) {
    this.#binding = binding
    this.reason = kind === 'native' ? "asked for with staging.kind 'native'" : 'the native executor is in use'
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
    if (lease === null) throw new Error(`The system has no ${byteLength} bytes of memory for a staging slot.`)
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
      fellBack(`page-locked memory cannot be had: ${reason ?? 'unknown'}`)
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
