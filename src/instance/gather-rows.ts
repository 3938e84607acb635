import { copyPacked } from '../elements.ts'
import type { InferRequest } from '../request/infer-request.ts'
import type { TensorData } from '../tensor.ts'
import { lengthOf, plainView } from '../typed-array.ts'
import type { MailedValue } from '../values.ts'

/** The strings of a batch, which travel by message. */
export function gatherStrings(batch: readonly InferRequest[], index: number, dims: readonly number[]): MailedValue {
  return { type: 'string', dims, data: batch.flatMap(({ data }) => data[index] as string[]) }
}

/** Rows whose elements share bytes, with the next row's too where their number is odd. */
export function gatherPacked(batch: readonly InferRequest[], index: number, view: Uint8Array, rowElements: number): void {
  let at = 0
  for (const request of batch) {
    const data = plainView(request.data[index] as Uint8Array)
    const elements = batch.length === 1 ? view.length * 2 : request.rows * rowElements
    checkElements(data, Math.ceil(elements / 2))
    copyPacked(data, 0, view, at, elements)
    at += elements
  }
}

/** Fewer elements than were checked would leave in the slot what another caller sent, or put the next rows in the wrong place. */
export function checkElements(data: TensorData, elements: number): void {
  const received = lengthOf(data)
  if (received !== elements) throw new Error(`an input that had ${elements} elements when it was checked has ${received} now`)
}
