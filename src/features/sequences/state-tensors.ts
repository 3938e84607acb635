import { storageOf, type ElementType, type TensorData, plainView } from '../../tensor/tensor.ts'
import type { StagingBuffer } from '../../native/staging-pool.ts'

/** A tensor passed from one request to the next. */
export interface StateTensor {
  readonly data: TensorData | readonly string[]
  readonly dims: readonly number[]
}

/** A tensor with its own memory. */
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
 * The state of one sequence: the tensors for its next request, and those of the run in flight, which replace
 * them when that request is answered.
 */
export class StateTensors {
  readonly #types: readonly ElementType[]
  readonly #memory: StateMemory
  readonly #initial: readonly StateTensor[]
  #current: StateTensor[]
  /** Tensors that are not current. */
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

  /** Resets the state to its initial value. */
  reset(): void {
    for (const [index, tensor] of this.#current.entries()) {
      if (!(tensor instanceof KeptTensor)) continue
      if (this.#spare[index] === null) this.#spare[index] = tensor
      else tensor.release()
    }
    this.#current = [...this.#initial]
  }

  /** Copies a state output for the next request. */
  put(index: number, data: TensorData | readonly string[], dims: readonly number[]): void {
    const next = (this.#spare[index] ??= new KeptTensor(this.#types[index]!, this.#memory))
    next.put(data, dims)
    this.#next[index] = next
  }

  /** Makes the copied outputs the state of the next request. */
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

/** Memory for one tensor. */
interface Region {
  readonly bytes: ArrayBufferLike
  readonly offset: number
  readonly byteLength: number
  release(): void
}

/** Alignment and smallest size of regions, in bytes. */
const leastBytes = 64
/** Larger regions have memory of their own; others share a chunk of staging memory. */
const largestShared = 16_384
/** Size of a chunk. */
const chunkBytes = 65_536

interface Chunk {
  readonly buffer: StagingBuffer
  readonly free: Region[]
  used: number
}

/**
 * Staging memory for states of sequences. Regions have a power of two as size, and many share a chunk. Unused
 * chunks are freed.
 */
export class StateMemory {
  readonly #acquire: (byteLength: number) => StagingBuffer
  /** Chunks with a free region, by the regions' size. */
  readonly #open = new Map<number, Set<Chunk>>()
  /** Bytes of all regions in use. */
  usedBytes = 0

  constructor(acquire: (byteLength: number) => StagingBuffer) {
    this.#acquire = acquire
  }

  /** A region of at least so many bytes, which is not cleared. */
  take(byteLength: number): Region {
    const size = 2 ** Math.ceil(Math.log2(Math.max(leastBytes, byteLength)))
    const region = size > largestShared ? this.#own(size) : this.#shared(size)
    this.usedBytes += size // counted only once the memory is allocated
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
