import { tellLine } from 'zerohop/internals'
import { writeWholeFile } from '../html-report/saved-result.ts'
import { RequestLog } from '../load/recorder.ts'
import type { LoadMode, PerfResult } from '../result-schema.ts'
import type { MeasuredWindow } from '../result.ts'

/** Most requests of a level that are exported. They are kept in memory until then, 37 bytes each. */
const mostExported = 10_000_000

/** The requests of all levels, for --profile-export-file. */
export class ProfileExport {
  readonly #experiments: (Experiment & { readonly boundariesMs: number[] })[] = []

  /** Begins a level; returns the log for its requests. */
  begin(mode: LoadMode, level: number): RequestLog {
    const requests = new RequestLog(mostExported)
    this.#experiments.push({ mode, level, requests, boundariesMs: [] })
    return requests
  }

  window({ load }: MeasuredWindow): void {
    const { boundariesMs } = this.#experiments.at(-1)!
    if (boundariesMs.length === 0) boundariesMs.push(load.startMs)
    boundariesMs.push(load.endMs)
  }

  async write(path: string, { model, machine }: PerfResult): Promise<void> {
    const text = profileText(
      this.#experiments,
      model,
      String(machine['zerohop'] ?? ''),
      performance.timeOrigin,
    )
    await writeWholeFile('--profile-export-file', path, text)
    const dropped = this.#experiments.reduce((sum, { requests }) => sum + requests.dropped, 0)
    if (dropped > 0)
      tellLine(`${path}: ${dropped} requests are missing, because at most ${mostExported} per level are kept`)
  }
}

/** Characters per write: a write costs more than its data. */
const pieceLength = 1 << 18

/** A level in the export, with each of its requests. */
interface Experiment {
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
