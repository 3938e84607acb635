import type { RequestLog } from '../load/recorder.ts'
import type { LoadMode } from '../result.ts'

/** Characters per write: a write costs more than its data. */
const pieceLength = 1 << 18

/** A level in the export, with each of its requests. */
export interface Experiment {
  readonly mode: LoadMode
  readonly level: number
  readonly requests: RequestLog
  /** When windows began, and when the last one ended, on the load's clock. */
  readonly boundariesMs: readonly number[]
}

/**
 * Each request of each level in perf_analyzer's export format, in pieces, as there may be millions. Times are
 * nanoseconds since the epoch; `timestamp` is the intended moment of sending. The data of requests and
 * answers is left out.
 *
 * @param originMs of the load's clock, since the epoch.
 */
export function* profileText(
  experiments: readonly Experiment[],
  model: string,
  version: string,
  originMs: number,
): Generator<string> {
  // Written as text, as it has more digits than a double.
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
