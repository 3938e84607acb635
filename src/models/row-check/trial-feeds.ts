import {
  cutElements,
  joinTensors,
  mailedElements,
  elementCount,
  type MailedTensor,
} from '../../tensor/tensor.ts'

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
    feeds.map((feed) => feed && cutRow(feed, row)),
  )
}

function sameValues(a: MailedTensor['data'], b: MailedTensor['data']): boolean {
  if (a instanceof ArrayBuffer) return b instanceof ArrayBuffer && Buffer.from(a).equals(Buffer.from(b))
  return !(b instanceof ArrayBuffer) && a.length === b.length && a.every((text, index) => text === b[index])
}

function cutRow(tensor: MailedTensor, row: number): MailedTensor {
  const { type, dims } = tensor
  const elements = elementCount(dims.slice(1))
  const cut = cutElements(type, mailedElements(tensor), row * elements, (row + 1) * elements)
  return {
    type,
    dims: [1, ...dims.slice(1)],
    data: ArrayBuffer.isView(cut) ? (cut.buffer as ArrayBuffer) : cut,
  }
}
