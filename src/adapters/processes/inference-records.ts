import { InferenceError, invalidArgument, unreadable } from '../../errors.ts'
import { isPlainObject } from '../../options/plain-options.ts'
import { doAll, type Pieces } from '../../base/slices.ts'
import { putValue } from '../../tensor/tensor.ts'
import { errorFrom, errorText, readText, textPieces, toText } from './tagged-json.ts'
import { BadRecord, type RecordReader, type RecordWriter } from './records.ts'
import { answeredTensor, givenTensor, isPieces, NoValue, readValue, writeValue } from './value-records.ts'

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

/** Like {@link requestPieces}, at once. */
export const readRequest = (record: RecordReader): TravellingRequest => doAll(requestPieces(record))

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
