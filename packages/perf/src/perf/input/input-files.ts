import { join, resolve } from 'node:path'
import type { ElementType, FeedValue, TensorData } from 'zerohop'
import {
  byteLengthOf,
  elementCount,
  invalidArgument,
  isFloatType,
  isNonFinite,
  isPacked,
  isRawType,
  makeTensor,
  NotReadable,
  prefixedStrings,
  readRegularFile,
  readRegularText,
  storageLength,
  storageOf,
  toSmallFloat,
} from 'zerohop/internals'
import { type InputShape, knownDims, mostGeneratedBytes } from './generated-data.ts'
import type { Step, Stream } from './sample-source.ts'

/**
 * Reads a folder with one file per input, of its name: the bytes of one row; for strings, the lines of a
 * text.
 *
 * @throws InferenceError `ERR_INVALID_ARG`, and errors of reading the files.
 */
export async function readFolderInput(folder: string, inputs: readonly InputShape[]): Promise<Stream> {
  const tensors = new Map<string, RowTensor>()
  for (const input of inputs)
    tensors.set(input.name, await readInput(resolve(join(folder, input.name)), input))
  return [{ inputs: tensors, outputs: new Map() }]
}

async function readInput(path: string, input: InputShape): Promise<RowTensor> {
  const dims = knownDims(input)
  const data = await dataOf(path, input)
  const expected = storageLength(input.type, elementCount(dims))
  if (data.length !== expected)
    throw invalidArgument(
      path,
      `${expected} ${input.type === 'string' ? 'lines' : `elements of ${input.type}`}, as the shape is [${dims.join(', ')}]`,
      String(data.length),
    )
  return { dims, data }
}

async function dataOf(path: string, { type }: InputShape): Promise<TensorData | string[]> {
  try {
    return type === 'string'
      ? lines(await readRegularText(path))
      : fromBytes(type, await readRegularFile(path, mostGeneratedBytes), path)
  } catch (error) {
    if (error instanceof NotReadable)
      throw invalidArgument(path, 'a file with one row', error.message, { cause: error })
    throw error
  }
}

function lines(text: string): string[] {
  return text.replace(/\r?\n$/, '').split(/\r?\n/)
}

/** The inputs and outputs of a model. */
export interface ModelShapes {
  readonly inputs: readonly InputShape[]
  /** Names of inputs that a request may omit. */
  readonly optionalInputs: ReadonlySet<string>
  readonly outputs: readonly InputShape[]
}

/**
 * Reads a data file of perf_analyzer: `{ "data": [entries], "validation_data": [entries] }`. An entry has a
 * tensor for each input. Arrays of entries are sequences.
 *
 * @throws InferenceError `ERR_INVALID_ARG`, and errors of reading the file.
 */
export async function readJsonInput(
  path: string,
  { inputs, optionalInputs, outputs }: ModelShapes,
): Promise<Stream[]> {
  const { data, validation_data: validation } = await parsed(path)
  if (!Array.isArray(data) || data.length === 0)
    throw invalidArgument(`${path}: data`, 'an array of entries', data)
  if (validation !== undefined && (!Array.isArray(validation) || validation.length !== data.length))
    throw invalidArgument(
      `${path}: validation_data`,
      `an array of ${data.length} entries, as data has`,
      validation,
    )
  const streams: Stream[] = []
  const loose: Step[] = []
  for (const [index, entry] of data.entries()) {
    const where = `${path}: data[${index}]`
    const expected = (validation as unknown[] | undefined)?.[index]
    const step = (each: unknown, wanted: unknown, at: string): Step => ({
      inputs: readEntry(each, inputs, optionalInputs, at),
      outputs:
        wanted === undefined
          ? new Map<string, RowTensor>()
          : readEntry(
              wanted,
              outputs,
              new Set(outputs.map(({ name }) => name)),
              at.replace(': data', ': validation_data'),
            ),
    })
    if (!Array.isArray(entry)) loose.push(step(entry, expected, where))
    else if (entry.length === 0) throw invalidArgument(where, 'a sequence of at least one entry', entry)
    else {
      if (expected !== undefined && (!Array.isArray(expected) || expected.length !== entry.length))
        throw invalidArgument(
          `${path}: validation_data[${index}]`,
          `an array of ${entry.length} entries, as the sequence has`,
          expected,
        )
      streams.push(
        entry.map((each, at) => step(each, (expected as unknown[] | undefined)?.[at], `${where}[${at}]`)),
      )
    }
  }
  if (loose.length > 0 && streams.length > 0)
    throw invalidArgument(`${path}: data`, 'either entries or sequences of entries', 'both')
  return loose.length > 0 ? [loose] : streams
}

async function parsed(path: string): Promise<{ data?: unknown; validation_data?: unknown }> {
  try {
    return Object(JSON.parse(await readRegularText(path))) as object
  } catch (cause) {
    if (cause instanceof SyntaxError || cause instanceof NotReadable)
      throw invalidArgument(path, 'a file of JSON', cause.message, { cause })
    throw cause
  }
}

function readEntry(
  entry: unknown,
  values: readonly InputShape[],
  optional: ReadonlySet<string>,
  where: string,
): Map<string, RowTensor> {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry))
    throw invalidArgument(where, 'an object with a tensor under each name', entry)
  const strange = Object.keys(entry).find((name) => !values.some((value) => value.name === name))
  if (strange !== undefined)
    throw invalidArgument(where, `names of the model (${values.map(({ name }) => name).join(', ')})`, strange)
  const tensors = new Map<string, RowTensor>()
  for (const value of values) {
    const given = Object.hasOwn(entry, value.name)
      ? (entry as Record<string, unknown>)[value.name]
      : undefined
    if (given !== undefined) tensors.set(value.name, readJsonTensor(given, value, `${where}.${value.name}`))
    else if (!optional.has(value.name)) throw invalidArgument(`${where}.${value.name}`, 'a tensor', given)
  }
  return tensors
}

/** Deepest nesting, more than any tensor has. */
const mostDims = 64

/**
 * Reads a tensor in perf_analyzer's JSON: its elements, `{ "b64": bytes }`, or either as `content` beside a
 * `shape`.
 *
 * @param where for messages.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
function readJsonTensor(value: unknown, shape: InputShape, where: string): RowTensor {
  const { content, dims } = parts(value, shape, where)
  const { type } = shape
  if (typeof content === 'string') {
    // Node.js ignores invalid characters.
    if (!/^[\w+/\s-]*[=\s]*$/.test(content)) throw invalidArgument(where, 'base64', content)
    const bytes = Buffer.from(content, 'base64')
    return fit(type === 'string' ? stringsIn(bytes, where) : fromBytes(type, bytes, where), dims, type, where)
  }
  const elements = (content as unknown[]).flat(mostDims)
  return fit(
    type === 'string' ? elements.map((each) => text(each, where)) : numbers(type, elements, where),
    dims,
    type,
    where,
  )
}

/** The elements, or base64 text, and the dims. A dim of -1 is derived from the number of elements. */
function parts(
  value: unknown,
  { rowDims }: InputShape,
  where: string,
): { content: unknown; dims: readonly number[] } {
  const { b64, content, shape } = Object(value) as { b64?: unknown; content?: unknown; shape?: unknown }
  const given = Array.isArray(value)
    ? value
    : (b64 ?? (content as { b64?: unknown } | undefined)?.b64 ?? content)
  if (!Array.isArray(given) && typeof given !== 'string')
    throw invalidArgument(
      where,
      'an array of elements, { "b64": text }, or either as "content" beside a "shape"',
      value,
    )
  if (shape === undefined) return { content: given, dims: rowDims }
  const fits =
    Array.isArray(shape) &&
    shape.length === rowDims.length &&
    shape.every((dim, axis) => Number.isInteger(dim) && (rowDims[axis] === -1 || rowDims[axis] === dim))
  if (!fits)
    throw invalidArgument(
      `${where}.shape`,
      `dims that fit [${rowDims.join(', ')}], without the batch dimension`,
      shape,
    )
  return { content: given, dims: shape as number[] }
}

function fit(
  data: TensorData | string[],
  dims: readonly number[],
  type: ElementType,
  where: string,
): RowTensor {
  const unknown = dims.filter((dim) => dim === -1).length
  const known = elementCount(dims.filter((dim) => dim !== -1))
  const given = unknown === 1 && !isPacked(type) ? data.length / known : -1
  const own = dims.map((dim) => (dim === -1 ? given : dim))
  if (own.some((dim) => !Number.isInteger(dim) || dim < 0))
    throw invalidArgument(
      where,
      `a shape, as [${dims.join(', ')}] does not say which of its elements lie where`,
      `${data.length} elements`,
      { hint: 'Give it as { "content": elements, "shape": dims }, or by --shape' },
    )
  const expected = storageLength(type, elementCount(own))
  if (data.length !== expected)
    throw invalidArgument(
      where,
      `${expected} elements, as its shape is [${own.join(', ')}]`,
      `${data.length} elements`,
    )
  return { dims: own, data }
}

/** Elements from their bytes in memory. @throws InferenceError `ERR_INVALID_ARG`. */
function fromBytes(type: ElementType, bytes: Uint8Array, where: string): TensorData {
  const size = byteLengthOf(type, isPacked(type) ? 2 : 1)
  if (bytes.byteLength % size !== 0)
    throw invalidArgument(
      where,
      `a multiple of ${size} bytes, as elements of ${type} have`,
      `${bytes.byteLength} bytes`,
    )
  return new (storageOf(type))(Uint8Array.from(bytes).buffer)
}

function stringsIn(bytes: Buffer, where: string): string[] {
  const found = prefixedStrings(bytes)
  if (typeof found !== 'number') return found
  throw invalidArgument(
    where,
    'strings that each have their length before them, as 32 bits',
    `${bytes.length} bytes, with no string of the length given at byte ${found}`,
  )
}

function text(element: unknown, where: string): string {
  if (typeof element === 'string') return element
  throw invalidArgument(where, 'strings', element)
}

function numbers(type: ElementType, elements: readonly unknown[], where: string): TensorData {
  if (isRawType(type))
    throw invalidArgument(where, `{ "b64": text }, as JSON has no numbers of ${type}`, 'an array')
  const data = new (storageOf(type))(elements.length)
  for (const [index, element] of elements.entries()) {
    const value = numberOf(type, element)
    if (value !== null) data[index] = value
    if (value === null || !isKept(type, data[index]!, value))
      throw invalidArgument(
        `${where}[${index}]`,
        `an element of ${type}`,
        element,
        isBig(type) ? { hint: 'Give a number above 2^53 as text' } : {},
      )
  }
  return data
}

const isBig = (type: ElementType) => type === 'int64' || type === 'uint64'

/** The stored form of an element; `null` if it does not have the type. */
function numberOf(type: ElementType, element: unknown): number | bigint | null {
  if (isBig(type)) {
    const isExact = Number.isSafeInteger(element) || (typeof element === 'string' && /^-?\d+$/.test(element))
    return isExact ? BigInt(element as number | string) : null
  }
  if (type === 'bool')
    return element === true || element === 1 ? 1 : element === false || element === 0 ? 0 : null
  if (typeof element !== 'number') return null
  return type === 'float16' ? toSmallFloat(type, element) : element
}

/**
 * Whether the array stored the value exactly: integer arrays drop fractions and overflow, and floats become
 * infinite.
 */
function isKept(type: ElementType, kept: number | bigint, value: number | bigint): boolean {
  if (type === 'float16') return !isNonFinite(type, Number(kept))
  return isFloatType(type) ? Number.isFinite(kept) : kept === value || Object.is(value, -0)
}

/** One row of an input, or all of an input without rows. */
export interface RowTensor {
  readonly dims: readonly number[]
  readonly data: TensorData | readonly string[]
}

/**
 * Joins rows of an input to the value in a request.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for rows of different shapes, or several rows of 4-bit elements.
 */
export function joinRows({ name, type, batchAxis }: InputShape, rows: readonly RowTensor[]): FeedValue {
  const [{ dims, data }] = rows as [RowTensor]
  // An input without rows is given once.
  if (batchAxis === -1) return makeTensor(type, data as TensorData, dims)
  const odd = rows.find((row) => row.dims.join() !== dims.join())
  if (odd !== undefined)
    throw invalidArgument(`input '${name}'`, `rows of one shape, [${dims.join(', ')}], in a batch`, [
      ...odd.dims,
    ])
  if (isPacked(type) && rows.length > 1)
    throw invalidArgument(
      `input '${name}'`,
      `one row in a request, as ${type} has no bytes of its own`,
      rows.length,
      { hint: 'Leave out -b, or take random data' },
    )
  const joinedDims = dims.toSpliced(batchAxis, 0, rows.length)
  if (rows.length === 1) return makeTensor(type, data as TensorData, joinedDims)
  const outer = elementCount(dims.slice(0, batchAxis))
  const inner = elementCount(dims.slice(batchAxis))
  if (type === 'string') {
    const parts = Array.from({ length: outer }, (_, at) =>
      rows.flatMap((row) => (row.data as readonly string[]).slice(at * inner, (at + 1) * inner)),
    )
    return makeTensor(type, parts.flat(), joinedDims)
  }
  const joined = new (storageOf(type))(rows.length * outer * inner) as Float32Array
  for (let at = 0; at < outer; at++) {
    for (const [index, row] of rows.entries())
      joined.set(
        (row.data as Float32Array).subarray(at * inner, (at + 1) * inner),
        (at * rows.length + index) * inner,
      )
  }
  return makeTensor(type, joined, joinedDims)
}
