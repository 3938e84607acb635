/** Longer than the record of the largest tensor that is traced. */
const mostBytes = 64 * 2 ** 20

const [quote, backslash, open, close] = [...'"\\{}'].map((character) => character.charCodeAt(0)) as [
  number,
  number,
  number,
  number,
]
/** What may be between the objects of an array: blanks, commas, and the array's own brackets. */
const between = new Set([...' \t\r\n,[]'].map((character) => character.charCodeAt(0)))
const blanks = new Set([...' \t\r\n'].map((character) => character.charCodeAt(0)))

const mark = Buffer.from('\uFEFF')

/** Why a file is no array of objects in JSON. */
export class NoObjects extends Error {}

/**
 * Finds the objects of an array in JSON as its bytes come, also of one that has no end: one that was cut off with the process that
 * wrote it.
 */
export class JsonObjects {
  #rest: Buffer[] = []
  #restBytes = 0
  #depth = 0
  #inText = false
  #escaped = false
  #begun = false
  /** How many there were so far. */
  count = 0

  /** Whether the bytes so far end within an object. */
  get isCut(): boolean {
    return this.#depth > 0
  }

  /** Whether there was anything but blanks. */
  get isEmpty(): boolean {
    return !this.#begun
  }

  /**
   * The objects that end in these bytes, as text.
   *
   * @throws NoObjects
   */
  *take(bytes: Buffer): Generator<string> {
    let from = 0
    for (let at = this.#markLength(bytes); at < bytes.length; at++) {
      const byte = bytes[at]!
      if (this.#depth === 0) {
        if (byte === open) {
          this.#checkBegun(byte)
          this.#depth = 1
          from = at
        } else this.#checkBetween(byte)
      } else if (this.#inText) this.#text(byte)
      else if (byte === quote) this.#inText = true
      else if (byte === open) this.#depth++
      else if (byte === close && --this.#depth === 0) {
        yield this.#whole(bytes.subarray(from, at + 1))
        from = at + 1
      }
    }
    if (this.#depth > 0) this.#keep(bytes.subarray(from))
  }

  /** Of a byte order mark. */
  #markLength(bytes: Buffer): number {
    return !this.#begun && this.count === 0 && bytes.subarray(0, mark.length).equals(mark) ? mark.length : 0
  }

  #text(byte: number): void {
    if (this.#escaped) this.#escaped = false
    else if (byte === backslash) this.#escaped = true
    else if (byte === quote) this.#inText = false
  }

  #whole(last: Buffer): string {
    this.count++
    const text = Buffer.concat([...this.#rest, last]).toString()
    this.#rest = []
    this.#restBytes = 0
    return text
  }

  #keep(bytes: Buffer): void {
    this.#restBytes += bytes.length
    if (this.#restBytes > mostBytes)
      throw new NoObjects(`record ${this.count + 1} has more than ${mostBytes} bytes`)
    this.#rest.push(Buffer.from(bytes)) // what they came in is used again
  }

  #checkBetween(byte: number): void {
    if (!between.has(byte))
      throw new NoObjects(
        this.#begun ? `what follows record ${this.count} is no object` : 'it is no JSON array of objects',
      )
    if (!blanks.has(byte)) this.#checkBegun(byte)
  }

  #checkBegun(byte: number): void {
    if (!this.#begun && byte !== '['.charCodeAt(0)) throw new NoObjects('it is no JSON array of objects')
    this.#begun = true
  }
}
