/** What a frame on a socket is; the numbers never change. */
export const frameKinds = {
  hello: 1,
  welcome: 2,
  refusal: 3,
  call: 4,
  result: 5,
  withdrawal: 6,
  record: 7,
  callWithBytes: 8,
} as const

/** Of the length and the kind. */
const headBytes = 8

/** What came over a socket is no frame, or longer than allowed. */
export class BadFrame extends Error {
  override readonly name = 'BadFrame'
}

/** A frame of text. */
export function textFrame(kind: number, text: string): Buffer {
  const length = Buffer.byteLength(text)
  const frame = frameOf(kind, length)
  frame.write(text, headBytes)
  return frame
}

/** A frame with so many bytes yet to be filled in, behind the first 8, in memory of its own. */
export function frameOf(kind: number, byteLength: number): Buffer {
  const frame = Buffer.allocUnsafeSlow(headBytes + byteLength)
  frame.writeUInt32LE(byteLength, 0)
  frame.writeUInt32LE(kind, 4)
  return frame
}

/** Divides what comes over a socket into frames. */
export class FrameReader {
  readonly #onFrame: (kind: number, body: Buffer) => void
  readonly #head = Buffer.alloc(headBytes)
  #headLength = 0
  #body: Buffer | null = null
  #bodyLength = 0
  /** Longer ones are refused, before any memory is taken for them. */
  mostBytes: number

  /** @param onFrame is given the body in memory of its own. */
  constructor(mostBytes: number, onFrame: (kind: number, body: Buffer) => void) {
    this.mostBytes = mostBytes
    this.#onFrame = onFrame
  }

  /** @throws BadFrame */
  push(chunk: Uint8Array): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#body === null) at = this.#readHead(chunk, at)
      if (this.#body === null) continue // none, or not begun
      const part = chunk.subarray(at, at + this.#body.length - this.#bodyLength)
      this.#body.set(part, this.#bodyLength)
      this.#bodyLength += part.length
      at += part.length
      if (this.#bodyLength === this.#body.length) this.#finish(this.#body)
    }
  }

  #readHead(chunk: Uint8Array, at: number): number {
    const part = chunk.subarray(at, at + headBytes - this.#headLength)
    this.#head.set(part, this.#headLength)
    this.#headLength += part.length
    if (this.#headLength < headBytes) return at + part.length
    const length = this.#head.readUInt32LE(0)
    if (length > this.mostBytes)
      throw new BadFrame(`a frame of ${length} bytes, expected at most ${this.mostBytes}`)
    this.#body = Buffer.allocUnsafeSlow(length)
    this.#bodyLength = 0
    if (length === 0) this.#finish(this.#body)
    return at + part.length
  }

  #finish(body: Buffer): void {
    this.#body = null
    this.#headLength = 0
    this.#onFrame(this.#head.readUInt32LE(4), body)
  }
}
