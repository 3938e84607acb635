import { lengthOf, plainView, type TensorData } from '../../tensor/tensor.ts'
import { aligned, arrayNumber, storedView, type RecordViews } from './record-views.ts'

/** Records are shorter than this, in bytes. */
export const longestRecord = 2 ** 30
const firstBytes = 4096
/** More for heads is given back once they are much shorter again. */
const keptBytes = 2 ** 20

/**
 * Makes up a record: a head of numbers (8 bytes each) and texts, and behind it the elements of tensors, which are copied once, to where
 * the record goes. One is made up after the other, in the same memory.
 */
export class RecordWriter {
  #bytes = Buffer.allocUnsafeSlow(firstBytes)
  #cells = new Float64Array(this.#bytes.buffer)
  #head = 0 // cells of it
  #bodyBytes = 0
  readonly #arrays: TensorData[] = []
  readonly #places: number[] = []
  readonly #lengths: number[] = []

  /** Begins with the length of the head, which is put in at the end. */
  begin(): void {
    if (this.#bytes.length > keptBytes && this.#head * 32 < this.#bytes.length) this.#shrink()
    this.#head = 1
    this.#bodyBytes = 0
    this.#arrays.length = 0
    this.#places.length = 0
    this.#lengths.length = 0
  }

  number(value: number): void {
    if (this.#head === this.#cells.length) this.#grow(1)
    this.#cells[this.#head++] = value
  }

  text(text: string): void {
    const cells = (text.length * 3 + 7) >> 3
    if (this.#head + 1 + cells > this.#cells.length) this.#grow(1 + cells)
    const at = (this.#head + 1) * 8
    const length = this.#bytes.write(text, at)
    clearPadding(this.#bytes, at + length)
    this.#cells[this.#head] = length
    this.#head += 1 + ((length + 7) >> 3)
  }

  /** The elements of a typed array of that kind: they are read when the record is put where it goes. */
  elements(given: ArrayBufferView, kind: string): void {
    const data = storedView(given, kind)
    const length = lengthOf(data)
    this.number(arrayNumber(kind)!)
    this.number(this.#bodyBytes)
    this.number(length)
    this.#lengths.push(length)
    this.#arrays.push(data)
    this.#places.push(this.#bodyBytes)
    this.#bodyBytes += aligned(length * data.BYTES_PER_ELEMENT)
  }

  /** Of the whole record: a multiple of 8. */
  get byteLength(): number {
    return this.#head * 8 + this.#bodyBytes
  }

  /** Puts the record into memory, from that byte on. */
  copyTo(target: RecordViews, at: number): void {
    this.#cells[0] = this.#head
    target.cells.set(this.#cells.subarray(0, this.#head), at / 8)
    const body = at + this.#head * 8
    for (let index = 0; index < this.#arrays.length; index++) {
      const data = this.#arrays[index]!
      const place = body + this.#places[index]!
      if (lengthOf(data) !== this.#lengths[index]) throw new Error('data that was changed while it was read') // another thread has it, too
      if (data instanceof Float32Array) (target.of(1) as Float32Array).set(data, place / 4)
      else copyBytes(data, target.bytes, place)
      clearPadding(target.bytes, place + this.#lengths[index]! * data.BYTES_PER_ELEMENT)
    }
    this.#arrays.length = 0 // they are nobody's business any more
  }

  #shrink(): void {
    this.#bytes = Buffer.allocUnsafeSlow(firstBytes)
    this.#cells = new Float64Array(this.#bytes.buffer)
  }

  #grow(cells: number): void {
    const grown = Buffer.allocUnsafeSlow(Math.max(this.#bytes.length * 2, (this.#head + cells) * 8))
    grown.set(this.#bytes)
    this.#bytes = grown
    this.#cells = new Float64Array(grown.buffer)
  }
}

/** Up to the next multiple of 8: what lay in that memory before is nobody's to see. */
function clearPadding(target: Uint8Array, at: number): void {
  for (let end = at; (end & 7) !== 0; end++) target[end] = 0
}

function copyBytes(data: TensorData, target: Uint8Array, at: number): void {
  const { buffer, byteOffset, byteLength } = plainView(data)
  target.set(new Uint8Array(buffer, byteOffset, byteLength), at)
}
