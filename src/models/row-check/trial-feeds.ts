import { elementCount, storageOf, type MailedTensor } from '../../tensor/tensor.ts'
import { copyBlocks, joinElements, joinTensors, mailed, mailedElements } from '../../tensor/elements.ts'
import type { SampleRun } from '../../run/executors/executor.ts'
import type { WorkerSession } from '../../run/worker-session.ts'
import { batchAxisOf, type ModelMetadata, type ValueMetadata } from '../../tensor/metadata.ts'
import { cutRows, isMailedTensor, type MailedValue } from '../../tensor/values.ts'

/** One request as a trial run takes it, in the order of the model's inputs; `null` for an optional input left out. */
export type TrialFeeds = readonly (MailedTensor | null)[]

/** Rows of a request. */
export function rowsIn(feeds: TrialFeeds): number {
  return feeds.find((feed) => feed !== null)?.dims[0] ?? 0
}

/** Whether two requests give the same inputs, and rows of the same shapes. */
export function alike(a: TrialFeeds, b: TrialFeeds): boolean {
  return a.every(
    (own, index) =>
      own?.dims.slice(1).join() === b[index]?.dims.slice(1).join() && (own === null) === (b[index] === null),
  )
}

/** The first input of those that count that has the same values in all requests, so that its part in them stays in the dark; -1 without such. */
export function sameInput(
  [first, ...others]: readonly TrialFeeds[],
  counts: (index: number) => boolean,
): number {
  return first!.findIndex(
    (own, index) =>
      own !== null && counts(index) && others.every((feeds) => sameValues(own.data, feeds[index]!.data)),
  )
}

/** Requests of equal row shapes one behind the other, as a batch holds them. */
export function joinFeeds(requests: readonly TrialFeeds[]): TrialFeeds {
  return requests[0]!.map((first, index) => first && joinTensors(requests.map((feeds) => feeds[index]!)))
}

/** The first rows of a request, each as a request of its own; none when its inputs differ in their first dimension. */
export function singleRows(feeds: TrialFeeds, most: number): TrialFeeds[] {
  const rows = rowsIn(feeds)
  if (feeds.some((feed) => feed !== null && feed.dims[0] !== rows)) return []
  return Array.from({ length: Math.min(rows, most) }, (_, row) =>
    feeds.map((feed) => feed && (cutRows(feed, row, row + 1) as MailedTensor)),
  )
}

function sameValues(a: MailedTensor['data'], b: MailedTensor['data']): boolean {
  if (a instanceof ArrayBuffer) return b instanceof ArrayBuffer && Buffer.from(a).equals(Buffer.from(b))
  return !(b instanceof ArrayBuffer) && a.length === b.length && a.every((text, index) => text === b[index])
}

type Values = readonly (MailedValue | null)[]

/**
 * A model as if the first dimension of every tensor counted its rows: for trials, which know nothing else. What rows share is
 * then in each of them.
 */
export class RowForm {
  /** Of the model in this form. */
  readonly metadata: ModelMetadata
  readonly #model: ModelMetadata
  /** Whether it is that of the model anyway. */
  readonly #isPlain: boolean
  readonly #shared: Values | null

  /** @param sample feeds in this form: what rows share is what it is there. Default: what it is in the first row. */
  constructor(model: ModelMetadata, sample: Values | null = null) {
    this.#model = model
    this.#shared = sample
    this.#isPlain =
      model.maxBatchSize === 0 ||
      [...model.inputs, ...model.outputs].every((value) => batchAxisOf(value) === 0)
    this.metadata = this.#isPlain
      ? model
      : { ...model, inputs: model.inputs.map(inRows), outputs: model.outputs.map(inRows) }
  }

  /** Where rows are in the inputs and outputs; nothing where that is their first dimension. */
  get axes(): number[] {
    return this.#isPlain ? [] : [...this.#model.inputs, ...this.#model.outputs].map(batchAxisOf)
  }

  /** The feeds of a request in this form; they have rows. */
  rowsOf(feeds: Values): Values {
    if (this.#isPlain) return feeds
    const rows = feeds.map((feed, index) => this.#rowsIn(feed, index)).find((count) => count > 0) ?? 1
    return feeds.map((feed, index) => {
      if (feed === null || !isMailedTensor(feed)) return feed
      const axis = batchAxisOf(this.#model.inputs[index]!)
      return axis === -1 ? repeated(feed, rows) : moved(feed, axis, 0)
    })
  }

  /** Runs feeds in this form, and answers so. */
  async run(
    session: Pick<WorkerSession, 'runSample'>,
    feeds: Values,
    wantsOutputs = false,
  ): Promise<SampleRun> {
    if (this.#isPlain) return session.runSample(feeds, wantsOutputs)
    const result = await session.runSample(this.#asModel(feeds as TrialFeeds), wantsOutputs)
    return { ...result, outputs: result.outputs.map((value, index) => this.#outputRows(value, index)) }
  }

  #rowsIn(feed: MailedValue | null, index: number): number {
    const axis = batchAxisOf(this.#model.inputs[index]!)
    return feed === null || axis === -1 || !isMailedTensor(feed) ? 0 : (feed.dims[axis] ?? 0)
  }

  #asModel(feeds: TrialFeeds): TrialFeeds {
    return feeds.map((feed, index) => {
      const axis = batchAxisOf(this.#model.inputs[index]!)
      return feed === null
        ? null
        : axis === -1
          ? firstRow((this.#shared?.[index] as MailedTensor | undefined) ?? feed)
          : moved(feed, 0, axis)
    })
  }

  #outputRows(value: MailedValue, index: number): MailedValue {
    const axis = batchAxisOf(this.#model.outputs[index]!)
    return isMailedTensor(value) && axis < value.dims.length ? moved(value, axis, 0) : value
  }
}

function inRows(value: ValueMetadata): ValueMetadata {
  const { shape } = value
  const axis = batchAxisOf(value)
  if (axis === 0) return value
  if (axis === -1) return { ...value, shape: ['', ...shape] } // and is still what all rows share
  const { batchAxis: _, ...plain } = value
  return { ...plain, shape: [shape[axis]!, ...shape.toSpliced(axis, 1)] }
}

/** A tensor of numbers whose rows lie along another dimension than before: one of both is the first. */
function moved(tensor: MailedTensor, from: number, to: number): MailedTensor {
  if (from === to) return tensor
  const { type, dims } = tensor
  const rows = dims[from]!
  const others = dims.toSpliced(from, 1)
  const source = mailedElements(tensor) as Float32Array // or another array of numbers
  const target = new (storageOf(type))(source.length)
  const blocks = elementCount(others.slice(0, Math.max(from, to)))
  const inner = elementCount(others.slice(Math.max(from, to)))
  for (let row = 0; row < rows; row++) {
    if (to === 0) copyBlocks(source, rows, row, target, 1, row * blocks, 1, blocks, inner)
    else copyBlocks(source, 1, row * blocks, target, rows, row, 1, blocks, inner)
  }
  return mailed(type, others.toSpliced(to, 0, rows), target)
}

function repeated(tensor: MailedTensor, rows: number): MailedTensor {
  const part = { data: mailedElements(tensor), count: elementCount(tensor.dims) }
  const joined = joinElements(tensor.type, Array<typeof part>(rows).fill(part))
  return mailed(tensor.type, [rows, ...tensor.dims], joined)
}

function firstRow(tensor: MailedTensor): MailedTensor {
  const dims = tensor.dims.slice(1)
  return mailed(tensor.type, dims, mailedElements(tensor).slice(0, elementCount(dims)))
}
