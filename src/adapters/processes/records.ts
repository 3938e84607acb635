import type { Pieces } from '../../base/slices.ts'
import {
  copyOf,
  lengthOf,
  type ElementType,
  storageOf,
  type TensorData,
  plainView,
  viewAs,
} from '../../tensor/tensor.ts'

/** Upper limit of a record's length, in bytes. */
export const longestRecord = 2 ** 30
const firstBytes = 4096
/** A larger buffer for heads is freed once heads are much shorter again. */
const keptBytes = 2 ** 20

/**
 * Writes records. A record has a head of numbers (8 bytes each) and texts, followed by the elements of
 * tensors, which are copied once, to their destination. Each record reuses the memory of the one before.
 */
export class RecordWriter {
  #bytes = Buffer.allocUnsafeSlow(firstBytes)
  #cells = new Float64Array(this.#bytes.buffer)
  #head = 0 // cells in use
  #bodyBytes = 0
  readonly #arrays: TensorData[] = []
  readonly #places: number[] = []
  readonly #lengths: number[] = []

  /** Begins a record. The length of its head is filled in at the end. */
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

  /**
   * Adds the elements of a typed array of that kind. They are read when the record is copied to its
   * destination.
   */
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

  /** Length of the whole record, a multiple of 8. */
  get byteLength(): number {
    return this.#head * 8 + this.#bodyBytes
  }

  /** Copies the record into memory, from byte `at`. */
  copyTo(target: RecordViews, at: number): void {
    this.#cells[0] = this.#head
    target.cells.set(this.#cells.subarray(0, this.#head), at / 8)
    const body = at + this.#head * 8
    for (let index = 0; index < this.#arrays.length; index++) {
      const data = this.#arrays[index]!
      const place = body + this.#places[index]!
      if (lengthOf(data) !== this.#lengths[index]) throw new Error('data that was changed while it was read') // resized by another thread
      if (data instanceof Float32Array) (target.of(1) as Float32Array).set(data, place / 4)
      else copyBytes(data, target.bytes, place)
      clearPadding(target.bytes, place + this.#lengths[index]! * data.BYTES_PER_ELEMENT)
    }
    this.#arrays.length = 0 // let them be garbage-collected
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

/** Zeroes the bytes up to the next multiple of 8, so that old memory contents do not leak. */
function clearPadding(target: Uint8Array, at: number): void {
  for (let end = at; (end & 7) !== 0; end++) target[end] = 0
}

function copyBytes(data: TensorData, target: Uint8Array, at: number): void {
  const { buffer, byteOffset, byteLength } = plainView(data)
  target.set(new Uint8Array(buffer, byteOffset, byteLength), at)
}

/** What a peer wrote is no valid record: another version, a defect, or an attack. */
export class BadRecord extends Error {
  override readonly name = 'BadRecord'
}

/** Buffer in which texts are decoded. */
const scratch = Buffer.allocUnsafeSlow(4096)
/** Shorter texts are copied byte by byte, which is faster than a call. */
const shortText = 64

/** Most texts and items of one record. */
export const mostItems = 2 ** 24
/** Most arrays, lists and objects of one record. In memory each takes many times its size in the record. */
const mostValues = 2 ** 17
/** Elements are copied in pieces of so many bytes. */
const copiedBytes = 2 ** 19

/**
 * Reads a record in memory that its writer can still change. Each number is read once and then checked; texts
 * and elements are copied. So nothing outside of the record is read, and the checked value is the one that is
 * used, whatever the writer does meanwhile.
 */
export class RecordReader {
  readonly #views: RecordViews
  readonly #body: number
  readonly #end: number
  /** Bytes of elements that may still be copied. Each byte of the body is copied once. */
  #uncopied: number
  #values = 0
  #at: number

  /** @throws BadRecord, as all of its methods do. */
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

  /** A number of any value. */
  number(): number {
    if (this.#at * 8 >= this.#body) throw new BadRecord('a head that ends early')
    return this.#views.cells[this.#at++]!
  }

  /** An integer from 0 to `most`. */
  count(most = mostItems): number {
    const value = this.number()
    if (!(Number.isInteger(value) && value >= 0 && value <= most))
      throw new BadRecord(`the number ${value}, expected one from 0 to ${most}`)
    return value
  }

  /** Counts an array, list or object before it is read. */
  value(): void {
    if (++this.#values > mostValues) throw new BadRecord(`more than ${mostValues} values`)
  }

  /** @param most highest number of bytes. */
  text(most = Infinity): string {
    const length = this.count(this.#body)
    if (length > most) throw new BadRecord(`a text of ${length} bytes, expected ${most} at most`)
    const start = this.#at * 8
    if (length > this.#body - start) throw new BadRecord('a text longer than its record')
    this.#at += (length + 7) >> 3
    return textOf(this.#views.bytes, start, length)
  }

  /**
   * A copy of a typed array's elements; for long ones, the pieces of work that make the copy. Each byte of a
   * record is copied at most once.
   */
  elements(): TensorData | Pieces<TensorData> {
    const view = this.#views.of(this.count(255))
    if (view === undefined) throw new BadRecord('elements of unknown kind')
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

/**
 * Copies the text before decoding: the decoder reads bytes twice, and writes out of bounds if they change in
 * between.
 */
function textOf(bytes: Buffer, start: number, length: number): string {
  const copy = length <= scratch.length ? scratch : Buffer.allocUnsafeSlow(length)
  if (length > shortText) bytes.copy(copy, 0, start, start + length)
  else for (let at = 0; at < length; at++) copy[at] = bytes[start + at]!
  return copy.toString('utf8', 0, length)
}

/** Kinds of typed arrays; the index is the number in records. Entries are never changed, only added. */
const kinds = [
  'uint8',
  'float32',
  'float64',
  'int8',
  'int16',
  'uint16',
  'int32',
  'uint32',
  'int64',
  'uint64',
] as const satisfies ElementType[]

const numberOf = new Map(kinds.map((type, number) => [storageOf(type).name, number]))

/** The number of a kind of typed array; `undefined` for a kind that tensors do not use. */
export function arrayNumber(kind: string): number | undefined {
  // Newer Node presents float16 as numbers; records contain the bits.
  return numberOf.get(kind === 'Float16Array' ? 'Uint16Array' : kind)
}

/** A view of the array's stored elements. */
export function storedView(data: ArrayBufferView, kind: string): TensorData {
  return kind === 'Float16Array' ? viewAs(Uint16Array, data) : (data as TensorData)
}

/**
 * Memory of records, viewed as each kind of typed array. It begins at a multiple of 8 bytes, and so does
 * everything in it.
 */
export class RecordViews {
  readonly bytes: Buffer
  readonly words: Int32Array
  readonly cells: Float64Array
  readonly #memory: ArrayBuffer
  readonly #views: (TensorData | undefined)[] = []

  constructor(memory: ArrayBuffer) {
    const { byteLength } = memory
    this.#memory = memory
    this.bytes = Buffer.from(memory)
    this.words = new Int32Array(memory, 0, byteLength >> 2)
    this.cells = new Float64Array(memory, 0, Math.floor(byteLength / 8))
  }

  /** The memory as the kind of that number; `undefined` for an unknown number. */
  of(kind: number): TensorData | undefined {
    const known = this.#views[kind]
    if (known !== undefined) return known
    const type = kinds[kind]
    if (type === undefined) return undefined
    const Storage = storageOf(type)
    return (this.#views[kind] = new Storage(
      this.#memory,
      0,
      Math.floor(this.#memory.byteLength / Storage.BYTES_PER_ELEMENT),
    ))
  }
}

/** The next multiple of 8. */
export const aligned = (bytes: number): number => bytes + (-bytes & 7)
