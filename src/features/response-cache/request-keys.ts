import crypto, { createCipheriv, randomBytes, type CipherGCM } from 'node:crypto'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import type { ParsedFeeds } from '../../request/infer-request.ts'
import { lengthOf, plainView } from '../../tensor/tensor.ts'
import type { MailedRows, MailedValue } from '../../tensor/values.ts'

type Value = ParsedFeeds['data'][number]

/** Not a named import, which would fail on Node 18 before the engine can say what is missing. */
const { hash } = crypto

const keyLength = 16
/** Up to here SHA-256 is faster, by up to ten times: setting up a cipher takes 2 us. */
const shortestForGmac = 4096
/** Node refuses pieces of 2 GiB. */
const longestPiece = 2 ** 30

/**
 * Makes 128-bit keys of requests, from the model, all inputs, and the wanted outputs.
 *
 * - Short requests: half of a SHA-256, 0.3 us.
 * - Longer requests: the tag of AES-GCM over data that is not encrypted (GMAC), for which processors have
 *   instructions: 3 us + 0.12 us per KiB.
 *
 * Both use a random secret and are never shown, so that a chosen pair of inputs cannot collide on purpose:
 * for two of a mebibyte the odds are 1 to 2^112.
 */
export class RequestKeys {
  readonly #secret = randomBytes(keyLength)
  readonly #nonce = Buffer.alloc(12) // constant, as its secret serves one purpose only
  /** Collects the data to hash as far as it fits, after the bytes that identify the model. */
  readonly #gathered = Buffer.allocUnsafeSlow(shortestForGmac)
  /** Number of outputs. */
  readonly #outputs: number

  /** @param version of the model; left out if it was loaded without one. */
  constructor({ name, inputs, outputs }: Pick<ModelMetadata, 'name' | 'inputs' | 'outputs'>, version = 0) {
    this.#outputs = outputs.length
    const values = [inputs, outputs].map((each) => each.map((value) => [value.name, value.type]))
    const model = Buffer.concat([this.#secret, Buffer.from(JSON.stringify([name, version, values]))])
    this.#gathered.write(hash('sha256', model, 'binary'), 0, keyLength, 'latin1')
  }

  /**
   * The key of a request. Equal requests have the same key.
   *
   * @param outputs indices of the wanted outputs, each once; `null` for all.
   */
  of({ rows, whole, data, dims, preparation }: ParsedFeeds, outputs: readonly number[] | null): string {
    const wanted =
      outputs === null || outputs.length === this.#outputs ? '' : outputs.toSorted((a, b) => a - b).join()
    const pieces: Uint8Array[] = []
    // Each length precedes its data, so that different requests never have the same bytes in a row.
    let shape = `${whole ? 'whole ' : ''}${rows};${wanted};`
    for (let index = 0; index < data.length; index++) {
      const source = preparation?.sources.get(index) // the encoded source of an input stands for its data
      const value =
        source === undefined
          ? describeValue(data[index]!, pieces)
          : `encoded ${describeValue(source, pieces)}`
      shape += `${dims === null ? '' : `[${dims[index]!.join()}]`}${value};`
    }
    return this.#hash(shape, pieces)
  }

  #hash(shape: string, pieces: readonly Uint8Array[]): string {
    const gathered = this.#gathered
    let length = keyLength + shape.length
    for (const piece of pieces) length += piece.length
    if (length > shortestForGmac) return this.#tag(shape, pieces)
    let filled = keyLength + gathered.write(shape, keyLength, 'latin1')
    for (const piece of pieces) {
      gathered.set(piece, filled)
      filled += piece.length
    }
    return hash('sha256', gathered.subarray(0, filled), 'binary').slice(0, keyLength)
  }

  #tag(shape: string, pieces: readonly Uint8Array[]): string {
    const tag = createCipheriv('aes-128-gcm', this.#secret, this.#nonce)
    tag.setAAD(this.#gathered.subarray(0, keyLength))
    tag.setAAD(Buffer.from(shape, 'latin1'))
    for (const piece of pieces) addAll(tag, piece)
    tag.final()
    return tag.getAuthTag().toString('latin1')
  }
}

function addAll(tag: CipherGCM, piece: Uint8Array): void {
  for (let at = 0; at < piece.length; at += longestPiece) tag.setAAD(piece.subarray(at, at + longestPiece))
}

/** Describes the form of an input, and adds its bytes to `pieces`. */
function describeValue(value: Value | MailedValue, pieces: Uint8Array[]): string {
  if (value === null) return '-'
  if (ArrayBuffer.isView(value)) {
    pieces.push(bytesOf(value))
    return String(lengthOf(value))
  }
  if (value instanceof ArrayBuffer) return describeValue(new Uint8Array(value), pieces)
  if (Array.isArray(value)) return describeStrings(value as readonly string[], pieces)
  const mailed = value as Exclude<MailedValue, MailedRows>
  if ('items' in mailed) return `[${mailed.items.map((item) => describeValue(item, pieces)).join()}]`
  if ('absent' in mailed) return '-'
  if ('keys' in mailed)
    return `{${'entries' in mailed ? `${mailed.entries.join()}*` : ''}${describeValue(mailed.keys, pieces)}|${describeValue(mailed.values, pieces)}}`
  return `${mailed.type}(${mailed.dims.join()})${describeValue(mailed.data as Value, pieces)}`
}

/** In UTF-16, as in JavaScript: UTF-8 would make all lone surrogates equal. */
function describeStrings(strings: readonly string[], pieces: Uint8Array[]): string {
  let lengths = '"'
  for (const text of strings) lengths += `${text.length},`
  pieces.push(Buffer.from(strings.join(''), 'utf16le'))
  return lengths
}

function bytesOf(data: ArrayBufferView): Uint8Array {
  const { buffer, byteOffset, byteLength } = plainView(data)
  return new Uint8Array(buffer, byteOffset, byteLength)
}
