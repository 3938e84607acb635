import { InferenceError, invalidArgument, unreadable } from '../errors.ts'
import { isPlainObject } from '../config/plain-options.ts'
import { putValue } from '../tensor.ts'
import { fromText, toText } from './tagged-json.ts'
import { errorFrom, errorText } from './travelling-errors.ts'
import { BadRecord, type RecordReader } from './record-reader.ts'
import type { RecordWriter } from './record-writer.ts'
import { answeredTensor, givenTensor, NoValue, readValue, writeValue } from './value-records.ts'

/** Numbers of requests, of one connection. */
export const mostRequestNumber = 2 ** 32 - 1
const mostInputs = 65_536

/** What an answer is. */
const answers = { outputs: 0, reported: 1, error: 2 } as const

/** A request as it came from another process. */
export interface TravellingRequest {
  readonly number: number
  readonly model: string
  /** Whether it may be withdrawn. */
  readonly hasSignal: boolean
  readonly options: Record<string, unknown> | undefined
  readonly feeds: Record<string, unknown>
}

/**
 * Makes up the record of a request.
 *
 * @param options those of the call that can travel; `undefined` for none.
 * @throws InferenceError `ERR_INVALID_ARG` for feeds that cannot be read.
 */
export function writeRequest(record: RecordWriter, number: number, model: string, feeds: unknown, options: object | undefined, hasSignal: boolean): void {
  try {
    record.begin()
    record.number(number)
    record.number(hasSignal ? 1 : 0)
    record.text(model)
    record.text(options === undefined ? '' : toText(options))
    writeFeeds(record, feeds, model)
  } catch (error) {
    throw error instanceof InferenceError ? error : unreadable('feeds', error, { model })
  }
}

function writeFeeds(record: RecordWriter, feeds: unknown, model: string): void {
  if (typeof feeds !== 'object' || feeds === null || Array.isArray(feeds) || ArrayBuffer.isView(feeds)) throw invalidArgument('feeds', 'an object of inputs by name', feeds, { model })
  const names = Object.keys(feeds)
  if (names.length > mostInputs) throw invalidArgument('feeds', `at most ${mostInputs} inputs`, names.length, { model })
  record.number(names.length)
  for (const name of names) {
    const value = (feeds as Record<string, unknown>)[name]
    record.text(name)
    record.number(value === undefined ? 0 : 1)
    try {
      if (value !== undefined) writeValue(record, value)
    } catch (error) {
      throw error instanceof NoValue ? invalidArgument(`input '${name}'`, error.expected, error.received, { model }) : error
    }
  }
}

/** @throws BadRecord */
export function readRequest(record: RecordReader): TravellingRequest {
  const number = record.count(mostRequestNumber)
  const hasSignal = record.count(1) === 1
  const model = record.text()
  const options = record.text()
  const feeds: Record<string, unknown> = {}
  for (let left = record.count(mostInputs); left > 0; left--) {
    const name = record.text()
    if (record.count(1) === 1) putValue(feeds, name, readValue(record, givenTensor))
  }
  return { number, model, hasSignal, options: options === '' ? undefined : readOptions(options), feeds }
}

function readOptions(text: string): Record<string, unknown> {
  const options = readText(text)
  if (!isPlainObject(options)) throw new BadRecord('options that are no object')
  return options as Record<string, unknown>
}

/** @throws BadRecord */
export function readText(text: string): unknown {
  try {
    return fromText(text)
  } catch {
    throw new BadRecord('text that is no JSON')
  }
}

/** Makes up the record of an answer; `reported` when it is one with a report beside. */
export function writeAnswer(record: RecordWriter, number: number, answer: Record<string, unknown>, reported: boolean): void {
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

/** The same of what a request was rejected with. */
export function writeRejection(record: RecordWriter, number: number, error: unknown): void {
  record.begin()
  record.number(number)
  record.number(answers.error)
  record.text(errorText(error))
}

/** The number of the request that a record answers, which is read next. */
export function answeredNumber(record: RecordReader): number {
  return record.count(mostRequestNumber)
}

/**
 * The answer itself, or an `Error` for a rejection.
 *
 * @throws BadRecord
 */
export function readAnswer(record: RecordReader): object {
  const kind = record.count(answers.error)
  if (kind === answers.error) return errorFrom(readText(record.text()))
  const outputs: Record<string, unknown> = {}
  for (let left = record.count(mostInputs); left > 0; left--) putValue(outputs, record.text(), readValue(record, answeredTensor))
  return kind === answers.outputs ? outputs : { outputs, report: readText(record.text()) }
}
