import type { Command } from 'commander'
import { writeWholeFile } from '../perf/html-report/saved-result.ts'
import { filePlace } from './output-files.ts'
import type { PerfExtension } from './perf-extension.ts'
import { writeCsv } from './perf-files.ts'

/** `-f`: all levels as a table. */
export const levelTable: PerfExtension = {
  addOptions: (command: Command) =>
    void command
      .optionsGroup('Output:')
      .option('-f, --latency-report-file <file>', 'write a table of all levels there, as CSV', filePlace)
      .option('--verbose-csv', 'with further columns', false),
  async report(result, { options }) {
    if (typeof options['latencyReportFile'] === 'string')
      await writeCsv(options['latencyReportFile'], result, options['verboseCsv'] === true)
  },
}

/** `--profile-export-file`: each request; of a scenario, which keeps none, its result. */
export const requestExport: PerfExtension = {
  addOptions: (command: Command) =>
    void command
      .optionsGroup('Output:')
      .option('--profile-export-file <file>', 'write each request there, as JSON', filePlace),
  async report(result, { options, profile }) {
    const path = options['profileExportFile'] as string
    if (result.scenario === undefined) await profile?.write(path, result)
    else if (profile !== null)
      await writeWholeFile('--profile-export-file', path, `${JSON.stringify(result)}\n`)
  },
}
