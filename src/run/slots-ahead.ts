import { cudaDevice, type Placement } from '../options/session-options.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import type { StagingBuffer, StagingPool } from '../native/staging-pool.ts'
import { layOut } from './layout.ts'
import { roomFor } from './staging-slot.ts'

/** Slots for batches that run, and one that is gathered meanwhile. */
export const slotsFor = (concurrency: number): number => concurrency + 1

/** What a slot needs for the largest batch, in bytes; the least a slot has where shapes vary from request to request. */
export function largestSlotBytes(metadata: ModelMetadata): number {
  const batched = metadata.maxBatchSize > 0
  const varies = metadata.inputs.some(({ shape }) =>
    shape.some((dim, axis) => typeof dim !== 'number' && !(batched && axis === 0)),
  )
  if (varies) return roomFor(0)
  const given = metadata.inputs.map(() => true)
  return roomFor(layOut(metadata, metadata.maxBatchSize, given, null, -1, new Set()).byteLength)
}

/**
 * Memory for the slots of instances on CUDA devices, page-locked while the model is being loaded: at the first batch it
 * would keep the application's thread for up to hundreds of milliseconds, the making of the device's context included.
 */
export class SlotsAhead {
  /** By instance, then by slot; empty for an instance that runs elsewhere. */
  readonly byInstance: readonly (readonly StagingBuffer[])[]

  private constructor(byInstance: readonly (readonly StagingBuffer[])[]) {
    this.byInstance = byInstance
  }

  /**
   * Rejects as soon as memory cannot be had, with none kept.
   *
   * @param instances where each of them runs.
   */
  static async acquire(
    pool: Pick<StagingPool, 'acquireAhead'>,
    metadata: ModelMetadata,
    instances: readonly { readonly placement: Placement }[],
    slotsPerInstance: number,
  ): Promise<SlotsAhead> {
    const byInstance: StagingBuffer[][] = instances.map(() => [])
    const ahead = new SlotsAhead(byInstance)
    try {
      for (const [index, { placement }] of instances.entries()) {
        const device = cudaDevice(placement)
        for (let slot = 0; slot < slotsPerInstance && device !== null; slot++) {
          const buffer = await pool.acquireAhead(largestSlotBytes(metadata), device)
          if (buffer !== null) byInstance[index]!.push(buffer)
        }
      }
    } catch (error) {
      ahead.release()
      throw error
    }
    return ahead
  }

  /** Gives everything back: the model will not be served. */
  release(): void {
    for (const buffer of this.byInstance.flat()) buffer.release()
  }
}
