import { invalidConfig, listNames, type InferenceError } from '../errors.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import { copyPacked, cutElements, type Elements } from '../tensor/elements.ts'
import {
  defaultMaxBatchSize,
  shownShape,
  type ModelMetadata,
  type OutputRows,
  type ValueMetadata,
} from '../tensor/metadata.ts'
import { fromSmallFloat, isSmallFloat, significantBits, toSmallFloat } from '../tensor/small-floats.ts'
import {
  elementCount,
  isElementType,
  isFloatType,
  isPacked,
  storageLength,
  storageOf,
  type ElementType,
  type TensorData,
} from '../tensor/tensor.ts'

type Config = Pick<ResolvedConfig, 'maxBatchSize' | 'defaultMaxBatchSize' | 'outputs' | 'sequence'>

/** Where it is said. */
interface Said {
  readonly model: string
  readonly option: string
}

/**
 * The tensors of a model, with how the entries of its outputs belong to rows where that is said of them.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for an output that is not there, or cannot be divided or read so.
 */
export function withOutputRows<T extends Pick<ModelMetadata, 'outputs'>>(
  model: string,
  config: Config,
  served: T,
): T {
  const entries = config.outputs ?? []
  if (entries.every(({ rows }) => rows === undefined)) return served
  if (config.sequence !== null) {
    throw invalid(
      { model, option: `outputs[${entries.findIndex(({ rows }) => rows !== undefined)}].rows` },
      'to be omitted for a model with sequences, each of whose requests is one row of every output',
      'rows',
    )
  }
  const byName = new Map<string, OutputRows>()
  for (const [index, { name, rows }] of entries.entries()) {
    if (rows === undefined) continue
    const said = { model, option: `outputs[${index}].rows` }
    const output = served.outputs.find((value) => value.name === name)
    if (output === undefined) continue // the name is checked with all others
    checkEntries(said, output)
    if (rows.counts !== undefined) checkCounts(said, rows.counts, output, served.outputs)
    else
      checkIndex(
        said,
        rows,
        output,
        served.outputs,
        config.maxBatchSize ?? config.defaultMaxBatchSize ?? defaultMaxBatchSize,
      )
    byName.set(name, rows)
  }
  for (const [index, { rows }] of entries.entries()) {
    const { index: column, of, counts } = rows ?? {}
    if (counts !== undefined && byName.has(counts))
      throw invalid(
        { model, option: `outputs[${index}].rows.counts` },
        'an output with one entry per row',
        `'${counts}', whose rows are ${JSON.stringify(byName.get(counts))}`,
      )
    if (of === undefined) continue
    const own = byName.get(of)
    if (own !== undefined && (own.index !== column || (own.of ?? of) !== of))
      throw invalid(
        { model, option: `outputs[${index}].rows.of` },
        `an output whose own rows are { index: ${column} }`,
        `'${of}', whose rows are ${JSON.stringify(own)}`,
      )
    byName.set(of, { index: column! })
  }
  return {
    ...served,
    outputs: served.outputs.map((value) =>
      byName.has(value.name) ? { ...value, rows: byName.get(value.name)! } : value,
    ),
  }
}

/** Its first dimension counts entries, of which there may be any number. */
function checkEntries(said: Said, { name, type, shape }: ValueMetadata): void {
  if (!isElementType(type)) throw invalid(said, `to be omitted, since '${name}' is no tensor`, type)
  if (shape.length > 0 && typeof shape[0] !== 'string')
    throw invalid(
      said,
      `an output whose first dimension is variable, as it counts entries`,
      `'${name}' of shape ${shownShape(shape)}`,
    )
}

function checkIndex(
  said: Said,
  { index: column, of }: OutputRows,
  output: ValueMetadata,
  outputs: readonly ValueMetadata[],
  maxBatchSize: number,
): void {
  const source = of === undefined ? output : find({ ...said, option: `${said.option}.of` }, of, outputs)
  if (source !== output) checkEntries({ ...said, option: `${said.option}.of` }, source)
  const { name, type, shape } = source
  const option = `${said.option}.index`
  const columns = shape.length === 1 ? 1 : (shape[1] ?? '')
  if (shape.length > 2 || (typeof columns === 'number' && column! >= columns)) {
    throw invalid({ ...said, option }, `a column of '${name}', whose shape is ${shownShape(shape)}`, column)
  }
  if (!isNumeric(type)) throw invalid({ ...said, option }, 'a column of numbers', `'${name}' of ${type}`)
  const most = largestWhole(type)
  if (most < maxBatchSize - 1)
    throw invalid(
      { ...said, option },
      `a type that counts ${maxBatchSize} rows (maxBatchSize)`,
      `'${name}' of ${type}, which counts to ${most}`,
    )
}

function checkCounts(
  said: Said,
  counts: string,
  output: ValueMetadata,
  outputs: readonly ValueMetadata[],
): void {
  const option = `${said.option}.counts`
  const { name, type, shape } = find({ ...said, option }, counts, outputs)
  if (name === output.name)
    throw invalid({ ...said, option }, 'another output than the one that is divided', counts)
  if (!isNumeric(type)) throw invalid({ ...said, option }, 'an output of numbers', `'${name}' of ${type}`)
  if (
    typeof shape[0] !== 'string' ||
    shape.length > 2 ||
    (shape.length === 2 && typeof shape[1] === 'number' && shape[1] !== 1)
  ) {
    throw invalid(
      { ...said, option },
      'an output of shape [rows] or [rows, 1]',
      `'${name}' of shape ${shownShape(shape)}`,
    )
  }
}

function find(said: Said, name: string, outputs: readonly ValueMetadata[]): ValueMetadata {
  const found = outputs.find((value) => value.name === name)
  if (found === undefined)
    throw invalid(
      said,
      `one of the outputs of the model (${listNames(outputs.map((each) => each.name))})`,
      name,
    )
  return found
}

/** Whether there are whole numbers among its values, each in bytes of its own. */
function isNumeric(type: ValueMetadata['type']): boolean {
  return (
    isElementType(type) &&
    type !== 'string' &&
    type !== 'bool' &&
    !isPacked(type) &&
    !type.startsWith('float8')
  )
}

/** Up to where a type has every whole number. */
function largestWhole(type: ValueMetadata['type']): number {
  if (isSmallFloat(type)) return 2 ** significantBits(type)
  if (!isElementType(type) || isFloatType(type)) return type === 'float32' ? 2 ** 24 : 2 ** 53
  const bits = Number(/\d+/.exec(type)![0])
  return Math.min(2 ** 53, 2 ** (type.startsWith('u') ? bits : bits - 1) - 1)
}

function invalid({ model, option }: Said, expected: string, received: unknown): InferenceError {
  return invalidConfig(model, option, expected, received)
}

/** A tensor as it lies in memory. */
export interface Entries {
  readonly type: ElementType
  readonly dims: readonly number[]
  readonly data: Elements
}

/** Which entries of an output belong to which request of a batch. */
export interface Division {
  /** By request, where its entries begin in {@link order}; and at the end, how many there are. */
  readonly starts: Float64Array
  /** The entries, those of one request behind each other; `null` where they lie so anyway. */
  readonly order: Int32Array | null
}

/** An output cannot be divided among the rows of a batch. */
export class UndividedOutput extends Error {
  readonly output: string
  readonly expected: string
  readonly received: string

  constructor(output: string, received: string, expected: string) {
    super(`output '${output}' has ${received}, where ${expected} was expected`)
    this.output = output
    this.received = received
    this.expected = expected
  }
}

/**
 * Which entries of the outputs of a batch belong to which of its requests, by output; `null` for one that has an entry for each row. What a
 * run says of that is not believed: each entry belongs to one request, or none is divided.
 *
 * @param rows of each request.
 * @param read the tensor of an output, by index; `null` for one that was not computed.
 * @throws UndividedOutput
 */
export function divideEntries(
  outputs: readonly ValueMetadata[],
  rows: readonly number[],
  read: (output: number) => Entries | null,
): (Division | null)[] {
  const known = new Map<string, Division>()
  return outputs.map(({ name, rows: by }, index) => {
    const tensor = by === undefined ? null : read(index)
    if (tensor === null) return null
    const entries = tensor.dims[0]
    if (entries === undefined)
      throw new UndividedOutput(name, 'dims []', 'a first dimension that counts entries')
    const source = by!.counts ?? by!.of ?? name
    const key = `${by!.index ?? ''}:${source}`
    let division = known.get(key)
    if (division === undefined)
      known.set(
        key,
        (division =
          by!.counts === undefined
            ? byIndex(source, by!.index, rows, found(source))
            : byCounts(source, rows, found(source))),
      )
    const expected = division.starts.at(-1)!
    if (entries === expected) return division
    const why =
      by!.counts === undefined ? `as many as '${source}' has` : `the sum of the counts in '${source}'`
    throw new UndividedOutput(name, `${entries} entries`, `${expected}, ${why},`)
  })

  function found(source: string): Entries {
    const tensor = read(outputs.findIndex(({ name }) => name === source))
    if (tensor === null) throw new UndividedOutput(source, 'no value', 'a tensor by which others are divided')
    return tensor
  }
}

function byIndex(
  name: string,
  column: number,
  rows: readonly number[],
  { type, dims, data }: Entries,
): Division {
  const width = widthOf(name, column, dims)
  const entries = dims[0]!
  const requestOf = requestsOfRows(rows)
  const starts = new Float64Array(rows.length + 1)
  const requests = new Int32Array(entries) // by entry
  let isOrdered = true
  for (let entry = 0; entry < entries; entry++) {
    const row = numberAt(type, data, entry * width + column)
    // Not `>=`: of NaN nothing is true.
    if (!(row >= 0 && row < requestOf.length && Number.isInteger(row))) {
      throw new UndividedOutput(
        name,
        `${row} in column ${column} of entry ${entry}`,
        `the number of a row from 0 to ${requestOf.length - 1}`,
      )
    }
    const request = (requests[entry] = requestOf[row]!)
    starts[request + 1]!++
    isOrdered &&= entry === 0 || requests[entry - 1]! <= request
  }
  for (let request = 0; request < rows.length; request++) starts[request + 1]! += starts[request]!
  if (isOrdered) return { starts, order: null }
  const order = new Int32Array(entries)
  const next = starts.slice()
  for (let entry = 0; entry < entries; entry++) order[next[requests[entry]!]!++] = entry
  return { starts, order }
}

function byCounts(name: string, rows: readonly number[], { type, dims, data }: Entries): Division {
  const total = rows.reduce((sum, count) => sum + count, 0)
  if (dims[0] !== total || elementCount(dims) !== total)
    throw new UndividedOutput(name, `dims [${dims.join(', ')}]`, `one count for each of ${total} rows`)
  const starts = new Float64Array(rows.length + 1)
  let row = 0
  let sum = 0
  for (let request = 0; request < rows.length; request++) {
    for (const end = row + rows[request]!; row < end; row++) {
      const count = numberAt(type, data, row)
      if (!(count >= 0 && Number.isSafeInteger(count)))
        throw new UndividedOutput(name, `${count} for row ${row}`, 'a whole number of entries, 0 or more,')
      sum += count
    }
    starts[request + 1] = sum
  }
  return { starts, order: null }
}

/** The entries of one request, as a tensor of its own. */
export function entriesOf(
  { type, dims, data }: Entries,
  { starts, order }: Division,
  request: number,
): Entries & { readonly data: TensorData | string[] } {
  const [from, to] = [starts[request]!, starts[request + 1]!]
  const elements = elementCount(dims.slice(1))
  const own = [to - from, ...dims.slice(1)]
  if (order === null)
    return { type, dims: own, data: cutElements(type, data, from * elements, to * elements) }
  if (!ArrayBuffer.isView(data)) {
    return {
      type,
      dims: own,
      data: Array.from(order.subarray(from, to), (entry) =>
        data.slice(entry * elements, (entry + 1) * elements),
      ).flat(),
    }
  }
  const target: TensorData = new (storageOf(type))(storageLength(type, (to - from) * elements))
  for (let at = 0; at < to - from; at++) {
    const source = order[from + at]! * elements
    if (isPacked(type)) copyPacked(data as Uint8Array, source, target as Uint8Array, at * elements, elements)
    else
      (target as Float32Array).set((data as Float32Array).subarray(source, source + elements), at * elements)
  }
  return { type, dims: own, data: target }
}

/** The column of an output that says which row an entry belongs to; `null` for one that has none. */
export function indexColumn(rows: OutputRows | undefined): number | null {
  return rows?.index === undefined || rows.of !== undefined ? null : rows.index
}

/**
 * Adds to the numbers of rows in an output, in place.
 *
 * @param from the first entry, and `to` the one behind the last.
 */
export function shiftRows(
  { type, dims, data }: Entries,
  column: number,
  by: number,
  from = 0,
  to = dims[0]!,
): void {
  if (by === 0) return
  const width = dims.length === 1 ? 1 : dims[1]!
  const numbers = data as Float32Array
  for (let at = from * width + column; at < to * width; at += width) {
    if (type === 'int64' || type === 'uint64') (data as BigInt64Array)[at]! += BigInt(by)
    else if (isSmallFloat(type)) numbers[at] = toSmallFloat(type, numberAt(type, data, at) + by)
    else numbers[at]! += by
  }
}

function widthOf(name: string, column: number, dims: readonly number[]): number {
  const width = dims.length === 1 ? 1 : dims[1]!
  if (dims.length > 0 && dims.length < 3 && column < width) return width
  throw new UndividedOutput(name, `dims [${dims.join(', ')}]`, `a list of entries with a column ${column}`)
}

function requestsOfRows(rows: readonly number[]): Int32Array {
  const requests = new Int32Array(rows.reduce((sum, count) => sum + count, 0))
  let row = 0
  for (let request = 0; request < rows.length; request++) requests.fill(request, row, (row += rows[request]!))
  return requests
}

function numberAt(type: ElementType, data: Elements, at: number): number {
  return isSmallFloat(type) ? fromSmallFloat(type, data[at] as number) : Number(data[at])
}
