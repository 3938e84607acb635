import { join } from 'node:path'
import type { FeedValue } from '../../options/model-signature.ts'
import { NotReadable, readRegularFile } from '../../base/files.ts'
import { isSmallFloat, toSmallFloat } from '../../tensor/small-floats.ts'
import {
  byteLengthOf,
  elementCount,
  storageOf,
  type ElementType,
  type TensorData,
} from '../../tensor/tensor.ts'
import type { ConfigFields } from './config-fields.ts'

/** A tensor that a configuration describes; a file of its data is looked for when it is made. */
export interface TensorPlan {
  /** The message that describes it, and its field of the file, for errors. */
  readonly fields: ConfigFields
  readonly field: string
  readonly type: ElementType
  /** Without the batch dimension. */
  readonly dims: readonly number[]
  /** The batch dimension: the data is repeated as often. `null` for none. */
  readonly rows: number | null
  readonly data: 'zero' | 'random' | { readonly folder: string; readonly file: string }
}

/** Largest tensor, and so largest file of data for one. */
const limitBytes = 2 ** 30
/** What JavaScript takes for a string that is in an array. */
const stringBytes = 8

/**
 * Checks that there can be such a tensor, before anything is made of it: a slip in a number could take all memory.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkSize({ fields, type, dims, rows }: TensorPlan): void {
  const count = (rows ?? 1) * elementCount(dims)
  const bytes = type === 'string' ? stringBytes * count : byteLengthOf(type, count)
  if (bytes <= limitBytes) return
  fields.fail(
    'dims',
    `a tensor of at most ${limitBytes} bytes${rows === null || rows === 1 ? '' : `, with the ${rows} rows of batch_size`}`,
    dims,
  )
}

/**
 * Makes a tensor. Random ones have floats from -1 to 1, and 0 or 1 where they are whole: any embedding has those.
 *
 * @param modelFolder where the folder of its file is.
 * @throws InferenceError `ERR_MODEL_CONFIG` for a file that is not there, or of another size.
 */
export async function makeTensorFeed(modelFolder: string, plan: TensorPlan): Promise<FeedValue> {
  const { type, dims, rows, data } = plan
  const times = rows ?? 1
  const allDims = rows === null ? dims : [rows, ...dims]
  const count = elementCount(dims)
  if (typeof data === 'string')
    return { type, dims: allDims, data: made(type, times * count, data === 'random') } as never
  const bytes = await readData(modelFolder, plan, data.folder, data.file)
  if (type === 'string') {
    const row = readStrings(plan, bytes, count)
    return { type, dims: allDims, data: Array.from({ length: times }, () => row).flat() } as never
  }
  const expected = byteLengthOf(type, count)
  if (bytes.length !== expected)
    wrongSize(plan, `a file of ${expected} bytes (${count} elements of ${type})`, `${bytes.length} bytes`)
  const all = new Uint8Array(times * expected)
  for (let row = 0; row < times; row++) all.set(bytes, row * expected)
  return { type, dims: allDims, data: new (storageOf(type))(all.buffer) } as never
}

function made(type: ElementType, count: number, random: boolean): TensorData | string[] {
  if (type === 'string') return Array<string>(count).fill('')
  const values = new (storageOf(type))(count) as Float32Array
  if (!random) return values
  for (let index = 0; index < count; index++) values[index] = randomValue(type) as number
  return values
}

function randomValue(type: ElementType): number | bigint {
  const float = 2 * Math.random() - 1
  if (isSmallFloat(type)) return toSmallFloat(type, float)
  if (type === 'float32' || type === 'float64') return float
  return type.endsWith('int64') ? BigInt(float > 0) : Number(float > 0)
}

async function readData(
  modelFolder: string,
  { fields, field }: TensorPlan,
  folder: string,
  file: string,
): Promise<Buffer> {
  const path = join(modelFolder, folder, file)
  try {
    return await readRegularFile(path, limitBytes)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const received =
      code === 'ENOENT'
        ? 'no such file'
        : error instanceof NotReadable && code === 'EFBIG'
          ? `${message}, of at most ${limitBytes}`
          : message
    return fields.fail(field, `a file of data at ${path}`, received)
  }
}

/** Each string is its length, in 4 bytes of which the first is the lowest, and its bytes. */
function readStrings(plan: TensorPlan, bytes: Buffer, count: number): string[] {
  const strings: string[] = []
  let offset = 0
  while (offset < bytes.length) {
    const length = offset + 4 <= bytes.length ? bytes.readUInt32LE(offset) : Infinity
    if (offset + 4 + length > bytes.length)
      wrongSize(
        plan,
        'strings, each behind its length in 4 bytes',
        `one that ends after the file of ${bytes.length} bytes`,
      )
    strings.push(bytes.toString('utf8', offset + 4, offset + 4 + length))
    offset += 4 + length
  }
  if (strings.length !== count)
    wrongSize(plan, `${count} strings, each behind its length in 4 bytes`, `${strings.length} strings`)
  return strings
}

function wrongSize({ fields, field }: TensorPlan, expected: string, received: string): never {
  return fields.fail(field, expected, received)
}
