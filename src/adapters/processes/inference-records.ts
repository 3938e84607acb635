import { isMap } from 'node:util/types'
import { doAll, type Pieces } from '../../base/slices.ts'
import { InferenceError, invalidArgument, unreadable } from '../../errors.ts'
import { isPlainObject } from '../../options/plain-options.ts'
import {
  putValue,
  isElementType,
  isTensorLike,
  makeTensor,
  numericTypes,
  type ElementType,
  type TensorData,
  type TensorLike,
  kindOf,
} from '../../tensor/tensor.ts'
import type { MapEntry } from '../../tensor/values.ts'
import { BadRecord, type RecordReader, type RecordWriter, arrayNumber, mostItems } from './records.ts'
import { errorFrom, errorText, readText, textPieces, toText } from './tagged-json.ts'

/** Highest number of a request on one connection. */
export const mostRequestNumber = 2 ** 32 - 1
const mostInputs = 65_536
/** Inputs without data are read in pieces of so many. */
const pieceInputs = 1024
/** Most bytes of a call's options as JSON, and of the model's name. */
const mostOptionsBytes = 65_536
/** JSON up to this length is parsed at once. */
const shortText = 1024

/** The kinds of answers. */
const answers = { outputs: 0, reported: 1, error: 2 } as const

/** A request from another process. */
export interface TravellingRequest {
  readonly number: number
  readonly model: string
  /** Whether the client may abort it. */
  readonly hasSignal: boolean
  readonly options: Record<string, unknown> | undefined
  readonly feeds: Record<string, unknown>
}

/**
 * Writes the record of a request.
 *
 * @param options the options of the call that are sent; `undefined` for none.
 * @throws InferenceError `ERR_INVALID_ARG` for feeds that cannot be read.
 */
export function writeRequest(
  record: RecordWriter,
  number: number,
  model: string,
  feeds: unknown,
  options: object | undefined,
  hasSignal: boolean,
): void {
  try {
    record.begin()
    record.number(number)
    record.number(hasSignal ? 1 : 0)
    const text = options === undefined ? '' : toText(options)
    // A UTF-16 unit takes at most 3 bytes in UTF-8.
    if (text.length > mostOptionsBytes / 3 && Buffer.byteLength(text) > mostOptionsBytes)
      throw invalidArgument('options', `at most ${mostOptionsBytes} bytes as JSON`, Buffer.byteLength(text), {
        model,
      })
    if (model.length > mostOptionsBytes / 3) throw invalidArgument('name', 'the name of a model', model)
    record.text(model)
    record.text(text)
    writeFeeds(record, feeds, model)
  } catch (error) {
    throw error instanceof InferenceError ? error : unreadable('feeds', error, { model })
  }
}

function writeFeeds(record: RecordWriter, feeds: unknown, model: string): void {
  if (typeof feeds !== 'object' || feeds === null || Array.isArray(feeds) || ArrayBuffer.isView(feeds))
    throw invalidArgument('feeds', 'an object of inputs by name', feeds, { model })
  const names = Object.keys(feeds)
  if (names.length > mostInputs)
    throw invalidArgument('feeds', `at most ${mostInputs} inputs`, names.length, { model })
  record.number(names.length)
  for (const name of names) {
    const value = (feeds as Record<string, unknown>)[name]
    record.text(name)
    record.number(value === undefined ? 0 : 1)
    try {
      if (value !== undefined) writeValue(record, value)
    } catch (error) {
      throw error instanceof NoValue
        ? invalidArgument(`input '${name}'`, error.expected, error.received, { model })
        : error
    }
  }
}

/** Reads a request in pieces, so that no client can block the reading thread. @throws BadRecord */
export function* requestPieces(record: RecordReader): Pieces<TravellingRequest> {
  const number = record.count(mostRequestNumber)
  const hasSignal = record.count(1) === 1
  const model = record.text(mostOptionsBytes)
  const text = record.text(mostOptionsBytes)
  const options =
    text === '' ? undefined : text.length <= shortText ? readText(text) : yield* textPieces(Buffer.from(text))
  if (options !== undefined && !isPlainObject(options)) throw new BadRecord('options that are not an object')
  const feeds: Record<string, unknown> = {}
  for (let left = record.count(mostInputs); left > 0; left--) {
    const name = record.text()
    if (record.count(1) === 1) {
      const read = readValue(record, givenTensor)
      putValue(feeds, name, isPieces(read) ? yield* read : read)
    }
    if (left % pieceInputs === 0) yield
  }
  return { number, model, hasSignal, options, feeds }
}

/** Writes the record of an answer; `reported` if it comes with a report. */
export function writeAnswer(
  record: RecordWriter,
  number: number,
  answer: Record<string, unknown>,
  reported: boolean,
): void {
  const outputs = (reported ? answer['outputs'] : answer) as Record<string, unknown>
  record.begin()
  record.number(number)
  record.number(reported ? answers.reported : answers.outputs)
  const names = Object.keys(outputs)
  record.number(names.length)
  for (const name of names) {
    record.text(name)
    writeValue(record, outputs[name])
  }
  if (reported) record.text(toText(answer['report']))
}

/** Writes the record of a rejection. */
export function writeRejection(record: RecordWriter, number: number, error: unknown): void {
  record.begin()
  record.number(number)
  record.number(answers.error)
  record.text(errorText(error))
}

/** Reads the number of the request that a record answers. Call it first. */
export function answeredNumber(record: RecordReader): number {
  return record.count(mostRequestNumber)
}

/**
 * Reads the answer, or an `Error` for a rejection.
 *
 * @throws BadRecord
 */
export function readAnswer(record: RecordReader): object {
  const kind = record.count(answers.error)
  if (kind === answers.error) return errorFrom(readText(record.text()))
  const outputs: Record<string, unknown> = {}
  for (let left = record.count(mostInputs); left > 0; left--) {
    const name = record.text()
    const read = readValue(record, answeredTensor)
    putValue(outputs, name, isPieces(read) ? doAll(read) : read)
  }
  return kind === answers.outputs ? outputs : { outputs, report: readText(record.text()) }
}

/** Kinds of values in records. */
const kinds = { nothing: 0, tensor: 1, strings: 2, array: 3, texts: 4, list: 5, object: 6, map: 7 } as const
const entryKinds = { number: 0, bigint: 1, text: 2 } as const

const typeNumbers = new Map<string, number>(numericTypes.map((type, number) => [type, number]))

const mostDims = 64
const mostDepth = 16
/** Most items of a sequence of tensors. */
const mostListItems = 2 ** 16
const bigintText = /^-?\d{1,40}$/

/** A value that can be neither an input nor an output. */
class NoValue extends Error {
  override readonly name = 'NoValue'
  readonly expected: string
  readonly received: unknown

  constructor(expected: string, received: unknown) {
    super(`expected ${expected}`)
    this.expected = expected
    this.received = received
  }
}

/**
 * Writes an input or an output. The reader checks whether it suits the model.
 *
 * @throws NoValue
 */
function writeValue(record: RecordWriter, value: unknown, depth = 0): void {
  const kind = kindOf(value)
  if (kind !== undefined && arrayNumber(kind) !== undefined) {
    record.number(kinds.array)
    record.elements(value as ArrayBufferView, kind)
  } else if (value === null || value === undefined) {
    record.number(kinds.nothing)
  } else if (Array.isArray(value)) {
    writeList(record, value, depth)
  } else if (typeof value === 'string') {
    record.number(kinds.texts)
    writeTexts(record, [value])
  } else if (isTensorLike(value)) {
    writeTensor(record, value)
  } else if (isMap(value)) {
    const entries = [...(value as Map<unknown, unknown>)]
    record.number(kinds.map)
    writeCount(record, entries.length)
    for (const [key, entry] of entries) {
      writeEntry(record, key)
      writeEntry(record, entry)
    }
  } else if (typeof value === 'object') {
    const keys = Object.keys(value)
    record.number(kinds.object)
    writeCount(record, keys.length)
    for (const key of keys) {
      record.text(key)
      writeEntry(record, (value as Record<string, unknown>)[key])
    }
  } else {
    throw new NoValue('a Tensor, a typed array, a string, an array, a map or null', value)
  }
}

function writeList(record: RecordWriter, items: readonly unknown[], depth: number): void {
  if (depth === mostDepth) throw new NoValue(`at most ${mostDepth} arrays within each other`, 'more')
  const isTexts = items.every((item) => typeof item === 'string')
  record.number(isTexts ? kinds.texts : kinds.list)
  if (isTexts) return writeTexts(record, items)
  const { length } = items
  if (length > mostListItems) throw new NoValue(`at most ${mostListItems} items in a list`, length)
  record.number(length)
  for (let index = 0; index < length; index++) writeValue(record, items[index], depth + 1)
}

/** Reads each item once, and as many as were counted: the array may change meanwhile. */
function writeTexts(record: RecordWriter, items: readonly unknown[]): void {
  const { length } = items
  writeCount(record, length)
  for (let index = 0; index < length; index++) {
    const text = items[index]
    if (typeof text !== 'string') throw new NoValue('strings', text)
    record.text(text)
  }
}

/** Writes the number of items that follow, at most as many as a reader accepts. */
function writeCount(record: RecordWriter, count: number): void {
  if (!(Number.isInteger(count) && count >= 0 && count <= mostItems))
    throw new NoValue(`at most ${mostItems} items`, count)
  record.number(count)
}

function writeTensor(record: RecordWriter, { location, type, dims, data }: TensorLike): void {
  if (location !== undefined && location !== 'cpu' && location !== 'cpu-pinned') {
    throw new NoValue(
      'a tensor whose data is on the CPU',
      location === 'none' ? 'a disposed tensor' : `location '${location}'`,
    )
  }
  if (!isElementType(type)) throw new NoValue('a tensor of a type that ONNX Runtime has', type)
  const kind = kindOf(data)
  if (Array.isArray(data)) {
    record.number(kinds.strings)
    writeDims(record, dims)
    writeTexts(record, data)
  } else if (kind !== undefined && arrayNumber(kind) !== undefined && type !== 'string') {
    record.number(kinds.tensor)
    record.number(typeNumbers.get(type)!)
    writeDims(record, dims)
    record.elements(data as ArrayBufferView, kind)
  } else {
    throw new NoValue(type === 'string' ? 'an array of strings as data' : 'a typed array as data', data)
  }
}

function writeDims(record: RecordWriter, dims: readonly unknown[]): void {
  const rank = Array.isArray(dims) ? dims.length : -1
  if (!(rank >= 0 && rank <= mostDims)) throw new NoValue(`dims of ${mostDims} numbers at most`, dims)
  record.number(rank)
  for (let axis = 0; axis < rank; axis++) {
    const dim = dims[axis]
    if (typeof dim !== 'number') throw new NoValue(`dims of ${mostDims} numbers at most`, dims)
    record.number(dim)
  }
}

function writeEntry(record: RecordWriter, entry: unknown): void {
  if (typeof entry === 'number') {
    record.number(entryKinds.number)
    record.number(entry)
  } else if (typeof entry === 'bigint' || typeof entry === 'string') {
    const text = String(entry)
    if (typeof entry === 'bigint' && !bigintText.test(text))
      throw new NoValue('bigints of 40 digits at most', 'a longer one')
    record.number(typeof entry === 'bigint' ? entryKinds.bigint : entryKinds.text)
    record.text(text)
  } else {
    throw new NoValue('numbers, bigints or strings in a map', entry)
  }
}

/** Makes a value of a tensor that was read. */
type TensorMaker = (type: ElementType, dims: number[], data: TensorData | string[]) => unknown

/** For an input: a plain object, which the engine checks like any caller's. */
const givenTensor: TensorMaker = (type, dims, data) => ({ type, dims, data })

/** For an output. */
const answeredTensor: TensorMaker = (type, dims, data) => makeTensor(type, data, dims)

/** Texts, items and entries read in one piece. */
const pieceItems = 512

/**
 * Reads what {@link writeValue} wrote: the value or, if reading may take long, the pieces of work that make
 * it; see {@link isPieces}.
 *
 * @throws BadRecord
 */
function readValue(record: RecordReader, makeTensorOf: TensorMaker, depth = 0): unknown {
  record.value()
  const kind = record.count()
  switch (kind) {
    case kinds.nothing:
      return null
    case kinds.tensor: {
      const type = numericTypes[record.count()]
      if (type === undefined) throw new BadRecord('elements of unknown type')
      const dims = readDims(record)
      const read = record.elements()
      return ArrayBuffer.isView(read)
        ? makeTensorOf(type, dims, read)
        : longTensor(makeTensorOf, type, dims, read)
    }
    case kinds.strings:
      return textTensor(record, makeTensorOf)
    case kinds.array:
      return record.elements()
    case kinds.texts:
      return readTexts(record)
    case kinds.list:
      return readList(record, makeTensorOf, depth)
    case kinds.object:
    case kinds.map:
      return readMap(record, kind === kinds.map)
    default:
      throw new BadRecord(`a value of kind ${kind}`)
  }
}

/** Whether {@link readValue} returned pieces of work instead of a value. */
function isPieces(read: unknown): read is Pieces<unknown> {
  return typeof (read as { next?: unknown } | null)?.next === 'function' // values have no functions
}

function* longTensor(
  makeTensorOf: TensorMaker,
  type: ElementType,
  dims: number[],
  elements: Pieces<TensorData>,
): Pieces<unknown> {
  return makeTensorOf(type, dims, yield* elements)
}

function* textTensor(record: RecordReader, makeTensorOf: TensorMaker): Pieces<unknown> {
  return makeTensorOf('string', readDims(record), yield* readTexts(record))
}

/** Grows the array one by one: the count in the record is not trusted. */
function* readTexts(record: RecordReader): Pieces<string[]> {
  const texts: string[] = []
  for (let left = record.count(); left > 0; left--) {
    texts.push(record.text())
    if (texts.length % pieceItems === 0) yield
  }
  return texts
}

function readDims(record: RecordReader): number[] {
  const dims: number[] = []
  for (let left = record.count(mostDims); left > 0; left--) dims.push(record.number())
  return dims
}

function* readList(record: RecordReader, makeTensorOf: TensorMaker, depth: number): Pieces<unknown[]> {
  if (depth === mostDepth) throw new BadRecord('nested lists without end')
  const items: unknown[] = []
  for (let left = record.count(); left > 0; left--) {
    const read = readValue(record, makeTensorOf, depth + 1)
    items.push(isPieces(read) ? yield* read : read)
    if (items.length % pieceItems === 0) yield
  }
  return items
}

function* readMap(
  record: RecordReader,
  isMap: boolean,
): Pieces<Map<MapEntry, MapEntry> | { [key: string]: MapEntry }> {
  const map = new Map<MapEntry, MapEntry>()
  const object: { [key: string]: MapEntry } = {}
  for (let left = record.count(); left > 0; left--) {
    if (isMap) map.set(readEntry(record), readEntry(record))
    else putValue(object, record.text(), readEntry(record))
    if (left % pieceItems === 0) yield
  }
  return isMap ? map : object
}

function readEntry(record: RecordReader): MapEntry {
  const kind = record.count()
  if (kind === entryKinds.number) return record.number()
  const text = record.text()
  if (kind === entryKinds.text) return text
  if (kind !== entryKinds.bigint || !bigintText.test(text)) throw new BadRecord('an entry of unknown kind')
  return BigInt(text)
}
