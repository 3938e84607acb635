import type { StagingBuffer } from '../../native/staging-pool.ts'

/** Bytes for one tensor. */
export interface Region {
  readonly bytes: ArrayBufferLike
  readonly offset: number
  readonly byteLength: number
  release(): void
}

/** Regions are aligned to these many bytes, and are so large at least. */
const leastBytes = 64
/** Smaller ones are cut out of one piece of staging memory ... */
const largestShared = 16_384
/** ... of this size. */
const chunkBytes = 65_536

interface Chunk {
  readonly buffer: StagingBuffer
  readonly free: Region[]
  used: number
}

/** Staging memory for the states of sequences: pieces of a power of two, many of which share a chunk. What nothing holds is given back. */
export class StateMemory {
  readonly #acquire: (byteLength: number) => StagingBuffer
  /** Those with a free region, by its size. */
  readonly #open = new Map<number, Set<Chunk>>()
  /** What regions take. */
  usedBytes = 0

  constructor(acquire: (byteLength: number) => StagingBuffer) {
    this.#acquire = acquire
  }

  /** At least so many bytes, with whatever was in them. */
  take(byteLength: number): Region {
    const size = 2 ** Math.ceil(Math.log2(Math.max(leastBytes, byteLength)))
    const region = size > largestShared ? this.#own(size) : this.#shared(size)
    this.usedBytes += size // where there is memory
    return region
  }

  #shared(size: number): Region {
    let open = this.#open.get(size)
    if (open === undefined) this.#open.set(size, (open = new Set()))
    const [chunk] = open.size > 0 ? open : [this.#chunk(size, open)]
    const region = chunk!.free.pop()!
    chunk!.used++
    if (chunk!.free.length === 0) open.delete(chunk!)
    return region
  }

  #own(size: number): Region {
    const buffer = this.#acquire(size)
    const release = () => {
      this.usedBytes -= size
      buffer.release()
    }
    return { bytes: buffer.bytes, offset: 0, byteLength: size, release }
  }

  #chunk(size: number, open: Set<Chunk>): Chunk {
    const buffer = this.#acquire(chunkBytes)
    const chunk: Chunk = { buffer, free: [], used: 0 }
    for (let offset = chunkBytes - size; offset >= 0; offset -= size) {
      const region: Region = {
        bytes: buffer.bytes,
        offset,
        byteLength: size,
        release: () => this.#release(chunk, region, open),
      }
      chunk.free.push(region)
    }
    open.add(chunk)
    return chunk
  }

  #release(chunk: Chunk, region: Region, open: Set<Chunk>): void {
    this.usedBytes -= region.byteLength
    chunk.free.push(region)
    open.add(chunk)
    if (--chunk.used > 0) return
    open.delete(chunk)
    chunk.buffer.release()
  }
}
