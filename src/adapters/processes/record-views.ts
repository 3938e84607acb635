import { storageOf, type ElementType, type TensorData, viewAs } from '../../tensor/tensor.ts'

/** Typed arrays by the numbers that they have in records. Never changed, only added to. */
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

/** The number of a kind of typed array; `undefined` for one that no tensor has. */
export function arrayNumber(kind: string): number | undefined {
  // Newer Node shows float16 as numbers; it is the bits that travel.
  return numberOf.get(kind === 'Float16Array' ? 'Uint16Array' : kind)
}

/** An array of that kind as it is stored. */
export function storedView(data: ArrayBufferView, kind: string): TensorData {
  return kind === 'Float16Array' ? viewAs(Uint16Array, data) : (data as TensorData)
}

/** Memory that records lie in, as each kind of typed array; it begins at a multiple of 8 bytes, and so does all that lies in it. */
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

  /** All of it as the kind of that number; `undefined` for a number that there is not. */
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
