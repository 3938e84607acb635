import { createReadStream } from 'node:fs'
import type { InferenceError } from 'zerohop'
import {
  type Arrival,
  type ArrivalRun,
  batchReasons,
  checkRegularFile,
  invalidArgument,
  isDuration,
  isRecordedConfig,
} from 'zerohop/internals'

/** Longer lines are not from a recording. */
const longestLineBytes = 1 << 20
const newline = 10

/**
 * Reads the requests of a recording one by one, so only a part of the file is in memory. It skips empty lines,
 * and an incomplete last line, which a process leaves that ends while it writes.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for a line that is not a request, or whose time is before that of the line above;
 * errors of Node.js for a file that cannot be read.
 */
export async function* readArrivals(path: string): AsyncGenerator<Arrival, void, undefined> {
  await checkRegularFile(path)
  let number = 0
  let lastUs = 0
  for await (const { line, isWhole } of linesOf(path)) {
    number++
    if (line.trim() === '' || (!isWhole && !isJson(line))) continue
    const arrival = parseArrival(line, `${path}:${number}`, lastUs)
    lastUs = arrival.atUs
    yield arrival
  }
}

/**
 * All requests of a recording.
 *
 * @param most the largest number of requests to keep in memory.
 * @throws as {@link readArrivals}; `ERR_INVALID_ARG` for a recording without requests, or with more than
 * `most`.
 */
export async function loadArrivals(path: string, most = 2_000_000): Promise<Arrival[]> {
  const arrivals: Arrival[] = []
  for await (const arrival of readArrivals(path)) {
    if (arrivals.length === most)
      throw invalidArgument(path, `${most} requests at most`, 'more', {
        hint: 'Shorten the file: each line is a request',
      })
    arrivals.push(arrival)
  }
  if (arrivals.length === 0) throw invalidArgument(path, 'a recording with requests', 'an empty file')
  return arrivals
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** The lines of a file; the last one is incomplete if it does not end with a line break. */
async function* linesOf(
  path: string,
): AsyncGenerator<{ readonly line: string; readonly isWhole: boolean }, void, undefined> {
  let begun: Buffer[] = []
  let begunBytes = 0
  let number = 1
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 16 }) as AsyncIterable<Buffer>) {
    let from = 0
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
      yield { line: Buffer.concat([...begun, chunk.subarray(from, end)]).toString(), isWhole: true }
      number++
      begun = []
      begunBytes = 0
      from = end + 1
    }
    begun.push(chunk.subarray(from))
    begunBytes += chunk.length - from
    if (begunBytes > longestLineBytes)
      throw invalidArgument(
        `${path}:${number}`,
        `a line of at most ${longestLineBytes} bytes`,
        'a longer one',
      )
  }
  if (begunBytes > 0) yield { line: Buffer.concat(begun).toString(), isWhole: false }
}

type Fields = Readonly<Record<string, unknown>>

const runAmounts = [
  'takenAtUs',
  'gatherUs',
  'handOverUs',
  'runUs',
  'wakeUs',
  'scatterUs',
] as const satisfies (keyof ArrivalRun)[]
/** Larger numbers are invalid: this is 31 years in microseconds. */
const mostAmount = 1e15

/** Checks of optional fields. Fields of an {@link Arrival} that are not listed are not used, and left out. */
const optional: readonly [field: keyof Arrival, expected: string, is: (value: unknown) => boolean][] = [
  ['model', 'a name', (value) => typeof value === 'string' && value !== ''],
  ['dims', 'lists of whole numbers, one for each input name', isDims],
  ['priority', 'a whole number of at least 0', isCount],
  ['timeoutMs', 'a number above 0 and below 2^31', isDuration],
  ['deadlineMs', 'a number above 0 and below 2^31', isDuration],
  ['sequenceId', 'a number or a string', (value) => typeof value === 'string' || isCount(value)],
  ['latencyUs', 'a number from 0 to 1e15', isAmount],
  ['afterAnswerUs', 'a number from 0 to 1e15', isAmount],
  ['decodedUs', 'a number from 0 to 1e15', isAmount],
  ['cancelledUs', 'a number from 0 to 1e15', isAmount],
  ['shared', 'true or false', (value) => typeof value === 'boolean'],
  [
    'runs',
    `runs with rows, requests, instance, ${runAmounts.join(', ')}`,
    (value) => Array.isArray(value) && value.every(isRun),
  ],
  ['config', 'a configuration as recordArrivals() writes it', isRecordedConfig],
]

/**
 * Parses one line of a recording.
 *
 * @param where its file and number, for errors.
 * @param notBeforeUs the time of the line before.
 * @throws InferenceError `ERR_INVALID_ARG`
 */
function parseArrival(line: string, where: string, notBeforeUs: number): Arrival {
  const fields = parsed(line, where)
  const { atUs, rows } = fields
  if (!isAmount(atUs)) throw wrong(where, 'atUs', 'a number from 0 to 1e15', atUs)
  if (atUs < notBeforeUs)
    throw wrong(where, 'atUs', `at least ${notBeforeUs}, the value of the line before`, atUs)
  if (!isSize(rows)) throw wrong(where, 'rows', 'a whole number of at least 1, below 2^31', rows)
  const arrival: Record<string, unknown> = { atUs, rows }
  for (const [field, expected, is] of optional) {
    const value = fields[field]
    if (value === undefined) continue
    if (!is(value)) throw wrong(where, field, expected, value)
    arrival[field] = value
  }
  return arrival as unknown as Arrival
}

function parsed(line: string, where: string): Fields {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    throw invalidArgument(where, 'a request in JSON', line, {
      hint: 'Each line is a request, such as { "atUs": 1500, "rows": 1 }',
    })
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalidArgument(where, 'a request in JSON', line)
  return value as Fields
}

function wrong(where: string, field: string, expected: string, received: unknown): InferenceError {
  return invalidArgument(`${where}: ${field}`, expected, received)
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= mostAmount
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** A number of rows; memory is estimated from it, so it has a limit. */
function isSize(value: unknown): boolean {
  return isCount(value) && value >= 1 && value < 2 ** 31
}

function isDims(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.values(value).every((dims) => Array.isArray(dims) && dims.every(isCount))
}

function isRun(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const run = value as Fields
  if (run['inline'] !== undefined && typeof run['inline'] !== 'boolean') return false
  if (run['reason'] !== undefined && !(batchReasons as readonly unknown[]).includes(run['reason']))
    return false
  if (!isSize(run['rows']) || !isSize(run['requests'])) return false
  return typeof run['instance'] === 'string' && runAmounts.every((field) => isAmount(run[field]))
}
