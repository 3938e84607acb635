import { isSharedArrayBuffer } from 'node:util/types'
import { loadBinding } from '../native/addon.ts'
import type { TensorData } from '../tensor/tensor.ts'

/** From so many rows on a call of the addon takes less than a loop over typed arrays; measured. */
const nativeFromRows = 32

/** Rows that lie one after the other in an array. All in elements. */
export interface Rows {
  readonly data: TensorData
  /** The first element. */
  readonly at: number
  /** From the beginning of one row to that of the next. */
  readonly length: number
}

/** Has the addon copy the beginnings of rows, and fill the rest where they become longer; false where it is left to JavaScript. */
export function resizeNatively(from: Rows, to: Rows, count: number, fill: number | bigint): boolean {
  if (count < nativeFromRows || isSharedArrayBuffer(from.data.buffer) || isSharedArrayBuffer(to.data.buffer))
    return false
  const { binding } = loadBinding()
  if (binding === null) return false
  const bytes = to.data.BYTES_PER_ELEMENT
  const kept = Math.min(from.length, to.length)
  binding.copyRows(
    from.data,
    from.at * bytes,
    from.length * bytes,
    to.data,
    to.at * bytes,
    to.length * bytes,
    kept * bytes,
    count,
  )
  if (to.length === kept) return true
  const element = new (to.data.constructor as new (length: number) => TensorData)(1)
  ;(element as Float32Array)[0] = fill as number
  binding.fillRows(
    to.data,
    (to.at + kept) * bytes,
    to.length * bytes,
    (to.length - kept) * bytes,
    count,
    element,
  )
  return true
}
