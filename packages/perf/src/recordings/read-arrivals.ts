import { createReadStream } from 'node:fs'
import { invalidArgument, checkRegularFile, type Arrival } from 'zerohop/internals'
import { parseArrival } from './parse-arrival.ts'

/** A line of more is none that was recorded. */
const longestLineBytes = 1 << 20
const newline = 10

/**
 * The requests of a recording, one after the other: no more of the file is in memory than is being read. Empty lines are
 * passed over, and so is a last one that was cut short: its process has ended, or been killed, while it was written.
 *
 * @throws InferenceError `ERR_INVALID_ARG` at a line that is no request, or comes before the one above it; and what Node.js
 * throws for a file that cannot be read.
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
 * @param most so many may be kept in memory.
 * @throws as {@link readArrivals}; `ERR_INVALID_ARG` for one without requests, or with more than `most`.
 */
export async function loadArrivals(path: string, most = 2_000_000): Promise<Arrival[]> {
  const arrivals: Arrival[] = []
  for await (const arrival of readArrivals(path)) {
    if (arrivals.length === most)
      throw invalidArgument(path, `${most} requests at most`, 'more', {
        hint: 'Cut it: each line is a request',
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

/** The lines of a file; the last one is not whole where nothing ends it. */
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
