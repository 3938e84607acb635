import type { Pieces } from '../../base/slices.ts'
import { copyOf, type TensorData } from '../../tensor/tensor.ts'
import type { RecordViews } from './record-views.ts'

/** What a peer has written is no record: it is another version, broken, or means harm. */
export class BadRecord extends Error {
  override readonly name = 'BadRecord'
}

/** Where texts are decoded. */
const scratch = Buffer.allocUnsafeSlow(4096)
/** Shorter ones are copied byte by byte, which takes less than a call. */
const shortText = 64

/** Texts and items of one record are no more than these. */
export const mostItems = 2 ** 24
/** Arrays, lists and objects of one record: each takes many times the memory of what the record has of it. */
const mostValues = 2 ** 17
/** Elements are copied in pieces of so many bytes. */
const copiedBytes = 2 ** 19

/**
 * Reads a record that lies in memory which its writer can still change: each number is read once and checked then, texts and elements
 * are copied. Whatever is written meanwhile, nothing outside of the record is read, and what was checked is what is used.
 */
export class RecordReader {
  readonly #views: RecordViews
  readonly #body: number
  readonly #end: number
  /** Bytes of elements that may still be copied: those of the body, once. */
  #uncopied: number
  #values = 0
  #at: number

  /** @throws BadRecord like all of its methods. */
  constructor(views: RecordViews, start: number, byteLength: number) {
    this.#views = views
    const head = views.cells[start / 8]!
    if (byteLength < 8 || !Number.isInteger(head) || head < 1 || head * 8 > byteLength)
      throw new BadRecord('a head longer than its record')
    this.#at = start / 8 + 1
    this.#body = start + head * 8
    this.#end = start + byteLength
    this.#uncopied = this.#end - this.#body
  }

  /** Any number at all. */
  number(): number {
    if (this.#at * 8 >= this.#body) throw new BadRecord('a head that ends early')
    return this.#views.cells[this.#at++]!
  }

  /** A whole number from 0 to `most`. */
  count(most = mostItems): number {
    const value = this.number()
    if (!(Number.isInteger(value) && value >= 0 && value <= most))
      throw new BadRecord(`the number ${value}, expected one from 0 to ${most}`)
    return value
  }

  /** Counts an array, a list or an object that is about to be read. */
  value(): void {
    if (++this.#values > mostValues) throw new BadRecord(`more than ${mostValues} values`)
  }

  /** @param most bytes that it may have. */
  text(most = Infinity): string {
    const length = this.count(this.#body)
    if (length > most) throw new BadRecord(`a text of ${length} bytes, expected ${most} at most`)
    const start = this.#at * 8
    if (length > this.#body - start) throw new BadRecord('a text longer than its record')
    this.#at += (length + 7) >> 3
    return textOf(this.#views.bytes, start, length)
  }

  /** The elements of a typed array, in a copy; of long ones what makes that. No byte of a record is copied more than once. */
  elements(): TensorData | Pieces<TensorData> {
    const view = this.#views.of(this.count(255))
    if (view === undefined) throw new BadRecord('elements of no known kind')
    const size = view.BYTES_PER_ELEMENT
    const offset = this.count(this.#end)
    const length = this.count(this.#end)
    const start = this.#body + offset
    if (offset % 8 !== 0 || length * size > this.#end - start)
      throw new BadRecord('elements outside of their record')
    if ((this.#uncopied -= length * size) < 0) throw new BadRecord('elements that lie where others do')
    return length * size <= copiedBytes
      ? copyOf(view, start / size, start / size + length)
      : copyPieces(view, start / size, length)
  }
}

function* copyPieces(view: TensorData, start: number, length: number): Pieces<TensorData> {
  const copy = new (view.constructor as Float32ArrayConstructor)(
    Buffer.allocUnsafeSlow(length * view.BYTES_PER_ELEMENT).buffer,
  )
  const part = copiedBytes / view.BYTES_PER_ELEMENT
  for (let at = 0; at < length; at += part) {
    if (at > 0) yield
    copy.set((view as Float32Array).subarray(start + at, start + Math.min(length, at + part)), at)
  }
  return copy
}

/** Decoded in memory of its own: the decoder goes over the bytes twice, and writes beyond its room when they have changed in between. */
function textOf(bytes: Buffer, start: number, length: number): string {
  const copy = length <= scratch.length ? scratch : Buffer.allocUnsafeSlow(length)
  if (length > shortText) bytes.copy(copy, 0, start, start + length)
  else for (let at = 0; at < length; at++) copy[at] = bytes[start + at]!
  return copy.toString('utf8', 0, length)
}
