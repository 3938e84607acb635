import { isAbsolute, join, relative, sep } from 'node:path'

/** An ONNX file names the files of its weights in entries `location`: this is the key, field 1 of a message; the name is field 2. */
const key = Buffer.from('\x0a\x08location', 'latin1')
const nameField = 0x12
const longestName = 4096
/** No model has more of them, or longer ones in all: whoever makes up such a file is not to fill the memory of who reads it. */
const mostNames = 65_536
const mostNameBytes = 2 ** 24
/** Of a piece what is kept for the next one, so that no entry is cut in two. */
const keptBytes = key.length + 3 + longestName

/** A file names more others than can be looked at. */
export class TooManyFiles extends Error {
  constructor() {
    super(`it names more than ${mostNames} files, or such as have more than ${mostNameBytes} letters in all`)
  }
}

/** Finds the names of the files in which a model has weights, as it is read piece by piece. What looks like one and is none does no harm. */
export class ExternalFiles {
  readonly #names = new Set<string>()
  #nameBytes = 0
  #searches = 0
  #end: Buffer = Buffer.alloc(0)

  /** @throws TooManyFiles */
  look(piece: Buffer): void {
    this.#search(Buffer.concat([this.#end, piece.subarray(0, keptBytes)]))
    this.#search(piece)
    this.#end = Buffer.from(piece.subarray(-keptBytes))
  }

  /** Paths beside a model in `folder`, in order. ONNX Runtime takes no others. */
  in(folder: string): string[] {
    const paths = [...this.#names]
      .filter((name) => name !== '' && !isAbsolute(name))
      .map((name) => join(folder, name))
    return paths.filter((path) => !relative(folder, path).split(sep).includes('..')).sort()
  }

  #search(bytes: Buffer): void {
    for (let at = bytes.indexOf(key); at !== -1; at = bytes.indexOf(key, at + 1)) {
      const next = at + key.length
      if (bytes[next] === nameField) this.#addAt(bytes, next + 1, bytes.length)
      else this.#searchBefore(bytes, at)
    }
  }

  /** Fields may come in any order: then the name ends where the key begins. */
  #searchBefore(bytes: Buffer, at: number): void {
    if (++this.#searches > mostNames) throw new TooManyFiles()
    for (let start = Math.max(0, at - keptBytes); start < at; start++)
      if (bytes[start] === nameField) this.#addAt(bytes, start + 1, at, true)
  }

  /** The name whose length is told at a place, if it ends before `end`; `exactly` there, if that is asked. */
  #addAt(bytes: Buffer, place: number, end: number, exactly = false): void {
    let next = place
    let length = 0
    for (let shift = 0; next < end && shift < 70; shift += 7) {
      const byte = bytes[next++]!
      length += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) break
    }
    if (length <= longestName && (exactly ? next + length === end : next + length <= end))
      this.#add(bytes.toString('utf8', next, next + length))
  }

  /** The system ends a name at a NUL character: so the file that ONNX Runtime opens is called what stands before it. */
  #add(written: string): void {
    const name = written.split('\0', 1)[0]!
    if (this.#names.has(name)) return
    this.#names.add(name)
    this.#nameBytes += name.length
    if (this.#names.size > mostNames || this.#nameBytes > mostNameBytes) throw new TooManyFiles()
  }
}
