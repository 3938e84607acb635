import { Tensor, type Model } from 'zerohop'
import type { SequenceModel } from '../models.ts'

interface Waiting {
  readonly data: Float32Array
  readonly length: number
  readonly resolve: (output: Float32Array) => void
  readonly reject: (reason: unknown) => void
}

/**
 * What a server does whose batches hold one shape: requests stay in their order, consecutive ones of the same length
 * share a run, and one of another length ends the batch. Two batches are on their way at once, one behind the other.
 */
export class FlushOnMismatch {
  readonly #loaded: Model
  readonly #model: SequenceModel
  readonly #maxBatchSize: number
  readonly #mostInFlight: number
  #queue: Waiting[] = []
  #next = 0
  #inFlight = 0
  #scheduled = false

  /** @param loaded takes every request as a batch of its own. */
  constructor(loaded: Model, model: SequenceModel, maxBatchSize: number) {
    this.#loaded = loaded
    this.#model = model
    this.#maxBatchSize = maxBatchSize
    this.#mostInFlight = 2 * loaded.capacity().instances
  }

  /** Runs one row; its length is that of `data` by the model's width. */
  infer(data: Float32Array): Promise<Float32Array> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ data, length: data.length / this.#model.width, resolve, reject })
      // Whoever calls in the same turn may still join, as with ours.
      if (!this.#scheduled) process.nextTick(this.#pump)
      this.#scheduled = true
    })
  }

  readonly #pump = (): void => {
    this.#scheduled = false
    while (this.#inFlight < this.#mostInFlight && this.#next < this.#queue.length)
      void this.#run(this.#take())
  }

  #take(): Waiting[] {
    const queue = this.#queue
    const start = this.#next
    let end = start + 1
    while (
      end < queue.length &&
      end - start < this.#maxBatchSize &&
      queue[end]!.length === queue[start]!.length
    )
      end++
    this.#next = end
    const group = queue.slice(start, end)
    if (end > queue.length / 2) {
      this.#queue = queue.slice(end)
      this.#next = 0
    }
    return group
  }

  async #run(group: readonly Waiting[]): Promise<void> {
    const { input, output, width } = this.#model
    const [{ data: first, length }] = group as [Waiting]
    this.#inFlight++
    try {
      const outputs = await this.#loaded.infer({
        [input]: new Tensor('float32', joined(group), [group.length, length, width]),
      })
      const data = outputs[output]!.data as Float32Array
      for (const [row, { resolve }] of group.entries())
        resolve(data.subarray(row * first.length, (row + 1) * first.length))
    } catch (error) {
      for (const { reject } of group) reject(error)
    } finally {
      this.#inFlight--
      this.#pump()
    }
  }
}

function joined(group: readonly Waiting[]): Float32Array {
  const [{ data: first }] = group as [Waiting]
  if (group.length === 1) return first
  const all = new Float32Array(group.length * first.length)
  for (const [row, { data }] of group.entries()) all.set(data, row * first.length)
  return all
}
