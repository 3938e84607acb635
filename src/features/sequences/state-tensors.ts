import { storageOf, type ElementType, type TensorData, plainView } from '../../tensor/tensor.ts'
import type { StagingBuffer } from '../../native/staging-pool.ts'

/** A tensor that is handed on. */
export interface StateTensor {
  readonly data: TensorData | readonly string[]
  readonly dims: readonly number[]
}

/** A tensor of its own memory. */
class KeptTensor implements StateTensor {
  data: TensorData | readonly string[] = []
  dims: readonly number[] = []
  readonly #type: ElementType
  readonly #memory: StateMemory
  #region: Region | null = null

  constructor(type: ElementType, memory: StateMemory) {
    this.#type = type
    this.#memory = memory
  }

  put(given: TensorData | readonly string[], dims: readonly number[]): void {
    this.dims = dims
    if (!ArrayBuffer.isView(given)) return void (this.data = [...given])
    const { length, byteLength } = plainView(given)
    if (!ArrayBuffer.isView(this.data) || this.data.length !== length) {
      if (this.#region === null || this.#region.byteLength < byteLength) this.#grow(byteLength)
      this.data = new (storageOf(this.#type))(this.#region!.bytes, this.#region!.offset, length)
    }
    ;(this.data as Float32Array).set(given as Float32Array)
  }

  release(): void {
    this.#region?.release()
    this.#region = null
    this.data = []
  }

  #grow(byteLength: number): void {
    this.release()
    this.#region = this.#memory.take(byteLength)
  }
}

/**
 * The state of one sequence: what its next request is given, and beside it what the run of that gives, which takes its place
 * when the request has been answered.
 */
export class StateTensors {
  readonly #types: readonly ElementType[]
  readonly #memory: StateMemory
  readonly #initial: readonly StateTensor[]
  #current: StateTensor[]
  /** Those that are not current. */
  readonly #spare: (KeptTensor | null)[]
  readonly #next: (KeptTensor | null)[]

  constructor(types: readonly ElementType[], initial: readonly StateTensor[], memory: StateMemory) {
    this.#types = types
    this.#initial = initial
    this.#memory = memory
    this.#current = [...initial]
    this.#spare = types.map(() => null)
    this.#next = types.map(() => null)
  }

  get current(): readonly StateTensor[] {
    return this.#current
  }

  /** Begins anew. */
  reset(): void {
    for (const [index, tensor] of this.#current.entries()) {
      if (!(tensor instanceof KeptTensor)) continue
      if (this.#spare[index] === null) this.#spare[index] = tensor
      else tensor.release()
    }
    this.#current = [...this.#initial]
  }

  /** Takes a copy of what is to be handed on. */
  put(index: number, data: TensorData | readonly string[], dims: readonly number[]): void {
    const next = (this.#spare[index] ??= new KeptTensor(this.#types[index]!, this.#memory))
    next.put(data, dims)
    this.#next[index] = next
  }

  /** What was handed on is what the next request is given. */
  commit(): void {
    for (const [index, next] of this.#next.entries()) {
      if (next === null) continue
      const before = this.#current[index]!
      this.#current[index] = next
      this.#spare[index] = before instanceof KeptTensor ? before : null
      this.#next[index] = null
    }
  }

  release(): void {
    for (const tensor of [...this.#current, ...this.#spare])
      if (tensor instanceof KeptTensor) tensor.release()
    this.#current = [...this.#initial]
    this.#spare.fill(null)
    this.#next.fill(null)
  }
}

/** Bytes for one tensor. */
interface Region {
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
