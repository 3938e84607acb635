import { isAbsolute, join, normalize } from 'node:path'

/** An ONNX file names the files of its weights in entries `location`: field 1 of a message of two strings, the key. */
const key = Buffer.from('\x0a\x08location\x12', 'latin1')
const longestName = 4096
/** Of a piece what is kept for the next one, so that no name is cut in two. */
const keptBytes = key.length + 2 + longestName

/** Finds the names of the files in which a model has weights, as it is read piece by piece. What looks like one and is none does no harm. */
export class ExternalFiles {
  readonly #names = new Set<string>()
  #end: Buffer = Buffer.alloc(0)

  look(piece: Buffer): void {
    this.#search(Buffer.concat([this.#end, piece.subarray(0, keptBytes)]))
    this.#search(piece)
    this.#end = Buffer.from(piece.subarray(-keptBytes))
  }

  /** Paths beside a model in `folder`, in order. ONNX Runtime takes no others. */
  in(folder: string): string[] {
    const inside = [...this.#names].filter((name) => name !== '' && !name.includes('\0') && !isAbsolute(name) && !normalize(name).startsWith('..'))
    return inside.sort().map((name) => join(folder, name))
  }

  #search(bytes: Buffer): void {
    for (let at = bytes.indexOf(key); at !== -1; at = bytes.indexOf(key, at + 1)) {
      let next = at + key.length
      let length = 0
      for (let shift = 0; next < bytes.length && shift < 14; shift += 7) {
        const byte = bytes[next++]!
        length |= (byte & 0x7f) << shift
        if (byte < 0x80) break
      }
      if (length <= bytes.length - next) this.#names.add(bytes.toString('utf8', next, next + length))
    }
  }
}
