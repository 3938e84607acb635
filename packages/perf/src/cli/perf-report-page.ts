import type { Command } from 'commander'
import { reportOf } from '../perf/html-report/report.ts'
import { savedText, writeWholeFile } from '../perf/html-report/saved-result.ts'
import { filePlace } from './output-files.ts'
import type { PerfExtension } from './perf-extension.ts'
import { printJson } from 'zerohop/internals'

/** `--report out.html`, `--json`: what was measured, as a page, and for programs. */
export const reportPage: PerfExtension = {
  addOptions(command: Command) {
    command
      .optionsGroup('Output:')
      .option(
        '--report <file>',
        'write a page with charts and tables of all levels there, as HTML that needs nothing else',
        filePlace,
      )
      .option(
        '--json [file]',
        'print the result as JSON and nothing else, or write it there: for `zerohop perf-report`, which also sets several beside each other',
        filePlace,
      )
  },
  async report(result, { options }) {
    if (options['json'] === true) printJson(result)
    if (typeof options['json'] === 'string')
      await writeWholeFile('--json', options['json'], savedText(result))
    if (typeof options['report'] === 'string')
      await writeWholeFile('--report', options['report'], reportOf(result))
  },
}
