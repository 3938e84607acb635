import type { StagingOptions } from '../../../options/engine-options.ts'
import { InferenceError } from '../../../errors.ts'
import {
  defaultLimitBytes,
  largeFrom,
  type StagingBuffer,
  type StagingMemory,
} from '../../../native/staging-pool.ts'

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
    else this.reason = `asked for with staging.kind '${asked}'`
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
  return new InferenceError('ERR_NATIVE_LOAD', `staging.kind '${kind}' cannot be had: ${reason}`)
}
