import { readSync } from 'node:fs'

/** Bytes read at once where reading continues from the previous place. */
const largestBytes = 65_536
/** Bytes read after a jump: behind weights there are only some bytes before the next ones. */
const smallestBytes = 4096

/**
 * Reads any place in a file of any size through a window. Skipped parts are never read. Bytes in memory are
 * read in place.
 */
export class FileWindow {
  readonly byteLength: number
  readonly #file: number
  readonly #bytes: Buffer
  #start = 0
  #end = 0

  /** @param source an open file, which the caller closes, or bytes. */
  constructor(source: number | Uint8Array, byteLength: number) {
    this.byteLength = byteLength
    if (typeof source === 'number') {
      this.#file = source
      this.#bytes = Buffer.allocUnsafeSlow(largestBytes)
    } else {
      this.#file = -1
      this.#bytes = Buffer.from(source.buffer, source.byteOffset, source.byteLength)
      this.#end = byteLength
    }
  }

  /** Whether the file is in ONNX Runtime's own format: a flatbuffer has its type in bytes 4 to 8. */
  get isOrtFormat(): boolean {
    return this.byteLength >= 8 && this.copy(4, 8).toString('latin1') === 'ORTM'
  }

  /** @throws RangeError if the file has become shorter. */
  byteAt(offset: number): number {
    if (offset < this.#start || offset >= this.#end) this.#moveTo(offset)
    return this.#bytes[offset - this.#start]!
  }

  /**
   * A copy of the bytes between two offsets.
   *
   * @throws RangeError if the file has become shorter.
   */
  copy(start: number, end: number): Buffer {
    const copy = Buffer.allocUnsafe(end - start)
    for (let at = start; at < end;) {
      if (at < this.#start || at >= this.#end) this.#moveTo(at)
      at += this.#bytes.copy(copy, at - start, at - this.#start, Math.min(end, this.#end) - this.#start)
    }
    return copy
  }

  #moveTo(offset: number): void {
    const before = this.#end - this.#start
    const wanted =
      offset === this.#end ? Math.min(largestBytes, Math.max(smallestBytes, 2 * before)) : smallestBytes
    const bytesRead = readSync(this.#file, this.#bytes, 0, wanted, offset)
    if (bytesRead === 0) throw new RangeError(`the file ends before byte ${offset}: it was shortened`)
    this.#start = offset
    this.#end = offset + bytesRead
  }
}
