import { isUtf8 } from 'node:buffer'
import type { FileWindow } from './file-window.ts'
import { takeSteps } from './row-proof/dims.ts'

/** The file is no ONNX model, exceeds a limit, or could be read differently by ONNX Runtime. */
export class UnreadableGraph extends Error {
  override readonly name = 'UnreadableGraph'
}

/** The encoding of a field: its wire type, whether it repeats, and whether it has only 32 bits. */
interface FieldKind {
  readonly wire: 0 | 1 | 2 | 5
  readonly repeats: boolean
  readonly isNarrow?: true
}

/** Kinds of fields. A repeated number may be packed. */
export const int: FieldKind = { wire: 0, repeats: false }
export const int32: FieldKind = { wire: 0, repeats: false, isNarrow: true }
export const ints: FieldKind = { wire: 0, repeats: true }
export const float: FieldKind = { wire: 5, repeats: false }
export const floats: FieldKind = { wire: 5, repeats: true }
export const doubles: FieldKind = { wire: 1, repeats: true }
/** A text, bytes, or a message. */
export const part: FieldKind = { wire: 2, repeats: false }
export const parts: FieldKind = { wire: 2, repeats: true }

/** The fields of a message to read, by number; numbers are below 32. */
export type Fields = Readonly<Record<number, FieldKind>>

/** For a number: its value, with {@link notHeld} as its place. For other fields: the place. */
type Visit = (field: number, value: number, start: number, end: number) => void

/**
 * Most levels of nested messages, and most fields of a file. A graph of 100 000 operators has about 3 million
 * fields.
 */
const deepest = 100
const mostFields = 10_000_000
const stepsOfField = 3
/** Most bytes of a text. */
const mostText = 65_536
const notHeld = -1

/**
 * Reads protobuf messages as far as all readers agree on them. Protobuf's own reader merges repeated messages
 * of a singular field, takes the last of repeated numbers, truncates numbers to their bits, and treats a
 * field with another wire type as unknown. No exporter writes such messages, so files with them are refused.
 */
export class MessageReader {
  readonly #window: FileWindow
  readonly #fraction = new DataView(new ArrayBuffer(8))
  #at = 0
  #fields = 0
  #depth = 0

  constructor(window: FileWindow) {
    this.#window = window
  }

  /** Visits the requested fields of a message, and skips all others. */
  read(start: number, end: number, fields: Fields, visit: Visit): void {
    if (++this.#depth > deepest) throw new UnreadableGraph(`messages are nested more than ${deepest} deep`)
    let seen = 0
    for (let at = start; at < end;) {
      if (++this.#fields > mostFields) throw new UnreadableGraph(`it has more than ${mostFields} fields`)
      takeSteps(stepsOfField)
      this.#at = at
      const tag = this.#number(end)
      const field = Math.floor(tag / 8)
      const wire = tag % 8
      if (field <= 0 || tag > 0xffff_ffff) throw new UnreadableGraph(`byte ${at} begins no field`)
      let value = 0
      let next = this.#at
      if (wire === 0) {
        value = this.#number(end)
        next = this.#at
      } else if (wire === 2) {
        const length = this.#number(end)
        if (length < 0) throw new UnreadableGraph(`field ${field} at byte ${at} has a length below 0`)
        next = this.#at + length
      } else if (wire === 1 || wire === 5) next += wire === 1 ? 8 : 4
      else
        throw new UnreadableGraph(
          `field ${field} at byte ${at} is of kind ${wire}, which ONNX models do not use`,
        )
      if (next > end) throw new UnreadableGraph(`field ${field} at byte ${at} extends past byte ${end}`)
      const kind = fields[field]
      if (kind !== undefined) {
        if (wire !== kind.wire && !(wire === 2 && kind.repeats))
          throw new UnreadableGraph(
            `field ${field} at byte ${at} is of kind ${wire}, which is not that of the field`,
          )
        if (!kind.repeats) {
          if ((seen & (1 << field)) !== 0)
            throw new UnreadableGraph(`field ${field} comes a second time at byte ${at}`)
          seen |= 1 << field
        }
        if (kind.isNarrow && value !== (value | 0))
          throw new UnreadableGraph(`field ${field} at byte ${at} is ${value}, which has more than 32 bits`)
        if (wire === 2) visit(field, value, this.#at, next)
        else visit(field, wire === 0 ? value : this.#fixed(this.#at, wire), notHeld, notHeld)
      }
      at = next
    }
    this.#depth--
  }

  /** Adds one number, or packed numbers. A list longer than `most` gets no further numbers. */
  addNumbers(
    list: number[],
    most: number,
    { wire }: FieldKind,
    value: number,
    start: number,
    end: number,
  ): void {
    takeSteps((end - start) >> 3)
    if (start === notHeld) {
      if (list.length <= most) list.push(value)
    } else if (wire === 0) {
      this.#at = start
      while (this.#at < end && list.length <= most) list.push(this.#number(end))
    } else {
      const size = wire === 1 ? 8 : 4
      if ((end - start) % size !== 0)
        throw new UnreadableGraph(
          `the list of ${size}-byte numbers that ends at byte ${end} cuts off its last one`,
        )
      for (let at = start; at < end && list.length <= most; at += size) list.push(this.#fixed(at, wire))
    }
  }

  text(start: number, end: number): string {
    takeSteps((end - start) >> 6)
    if (end - start > mostText)
      throw new UnreadableGraph(`a name at byte ${start} has more than ${mostText} bytes`)
    const bytes = this.#window.copy(start, end)
    // Otherwise different texts would be read as the same.
    if (!isUtf8(bytes)) throw new UnreadableGraph(`the text at byte ${start} is not UTF-8`)
    return bytes.toString()
  }

  /** A text without the character 0, which ends names in ONNX Runtime's API. */
  name(start: number, end: number): string {
    const name = this.text(start, end)
    if (name.includes('\0')) throw new UnreadableGraph(`the name at byte ${start} has a character 0`)
    return name
  }

  bytes(start: number, end: number): Buffer {
    return this.#window.copy(start, end)
  }

  #fixed(at: number, wire: number): number {
    const size = wire === 1 ? 8 : 4
    for (let byte = 0; byte < size; byte++) this.#fraction.setUint8(byte, this.#window.byteAt(at + byte))
    return size === 8 ? this.#fraction.getFloat64(0, true) : this.#fraction.getFloat32(0, true)
  }

  /** A signed number of up to 64 bits, 7 bits per byte; approximate beyond 2^53. */
  #number(limit: number): number {
    let low = 0
    let high = 0
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.#at >= limit) throw new UnreadableGraph(`a number extends past byte ${limit}`)
      const byte = this.#window.byteAt(this.#at++)
      if ((byte === 0 && shift > 0) || (shift === 63 && byte > 1 && byte < 0x80))
        throw new UnreadableGraph(
          `a number before byte ${this.#at} is not protobuf's encoding of a 64-bit number`,
        )
      const bits = byte & 0x7f
      if (shift < 28) low += bits * 2 ** shift
      else if (shift === 28) {
        low += (bits & 0xf) * 2 ** 28
        high += bits >> 4
      } else high += bits * 2 ** (shift - 32)
      if (byte < 0x80) return ((high % 2 ** 32) | 0) * 2 ** 32 + low
    }
    throw new UnreadableGraph(`a number before byte ${this.#at} has more than 10 bytes`)
  }
}
