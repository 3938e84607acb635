import { basename, dirname, join } from 'node:path'
import { writeWholeFile } from '../perf/html-report/saved-result.ts'
import { RequestLog } from '../perf/load/recorder.ts'
import type { LoadMode, MeasuredWindow, PerfResult } from '../perf/result.ts'
import { composingCsvReport, csvReport } from '../perf/report/csv-report.ts'
import { profileText, type Experiment } from '../perf/report/profile-export.ts'
import { tellLine } from 'zerohop/internals'

/** Requests of a level that are exported at most: they are held in memory until then, 37 bytes each. */
const mostExported = 10_000_000

/** The requests of all levels, for --profile-export-file. */
export class ProfileExport {
  readonly #experiments: (Experiment & { readonly boundariesMs: number[] })[] = []

  /** What takes the requests of the next level. */
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
      tellLine(
        `${path}: ${dropped} requests are left out, as no more than ${mostExported} of a level are kept`,
      )
  }
}

/** Writes the table of -f, and beside it one for each model of an ensemble, named after that as well. */
export async function writeCsv(path: string, result: PerfResult, verbose: boolean): Promise<void> {
  await writeWholeFile('--latency-report-file', path, csvReport(result, verbose))
  for (const [index, { model, version }] of (result.levels[0]?.composingModels ?? []).entries()) {
    await writeWholeFile(
      '--latency-report-file',
      join(dirname(path), `${model}_v${version}.${basename(path)}`),
      composingCsvReport(result, index),
    )
  }
}
