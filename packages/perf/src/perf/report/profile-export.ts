import type { RequestLog } from '../load/recorder.ts'
import type { LoadMode } from '../result.ts'

/** Characters that are written at a time: each write costs more than what it writes. */
const pieceLength = 1 << 18

/** A level as it is exported: each of its requests. */
export interface Experiment {
  readonly mode: LoadMode
  readonly level: number
  readonly requests: RequestLog
  /** When windows began, and the last one ended, on the clock of the load. */
  readonly boundariesMs: readonly number[]
}

/**
 * Each request of each level as perf_analyzer exports them, piece by piece: there may be millions. Times are nanoseconds since the
 * epoch; `timestamp` is when a request was meant to be sent. What requests and answers hold is left out.
 *
 * @param originMs of the clock of the load, since the epoch.
 */
export function* profileText(
  experiments: readonly Experiment[],
  model: string,
  version: string,
  originMs: number,
): Generator<string> {
  // More digits than a number has: as text.
  const ns = (ms: number) => `${Math.round((originMs + ms) * 1000)}000`
  yield '{"experiments":['
  for (const [index, { mode, level, requests, boundariesMs }] of experiments.entries()) {
    yield `${index === 0 ? '' : ','}{"experiment":${JSON.stringify({ mode: mode.replace('-', '_'), value: level })},"requests":[`
    let piece = ''
    let comma = ''
    for (const { intendedMs, sentMs, endedMs, rows, sequenceId, failure } of requests) {
      const sequence = sequenceId === null ? '' : `,"sequence_id":${sequenceId}`
      const ended =
        failure === null
          ? `"response_timestamps":[${ns(endedMs)}]`
          : `"response_timestamps":[],"failure":${JSON.stringify(failure)},"failure_timestamp":${ns(endedMs)}`
      piece += `${comma}\n{"timestamp":${ns(intendedMs)},"sent_timestamp":${ns(sentMs)}${sequence},"rows":${rows},${ended}}`
      comma = ','
      if (piece.length > pieceLength) {
        yield piece
        piece = ''
      }
    }
    yield `${piece}],"window_boundaries":[${boundariesMs.map(ns).join(',')}]}`
  }
  yield `],"version":${JSON.stringify(version)},"service_kind":"zerohop","endpoint":"","model":${JSON.stringify(model)}}\n`
}
