import { basename } from 'node:path'
import { Command } from 'commander'
import { isSameFile, printJson } from 'zerohop/internals'
import { comparisonOf } from '../perf/html-report/comparison.ts'
import { mostCompared, type NamedResult } from '../perf/html-report/report-page.ts'
import { reportOf } from '../perf/html-report/report.ts'
import { readSavedResult, savedText, writeWholeFile } from '../perf/html-report/saved-result.ts'
import type { PerfExtension } from './perf-extension.ts'
import { filePlace } from './perf-files.ts'

/** `zerohop perf-report A.json B.json -o out.html`: saved results as a page. */
export const perfReport = new Command('perf-report')
  .description(
    'write a page with charts and tables of results that `zerohop perf --json` has kept: of one, or of several beside each other',
  )
  .argument(
    '<results...>',
    `up to ${mostCompared} files, of which the first is what the others are compared with`,
  )
  .requiredOption('-o, --out <file>', 'where the page goes, as HTML that needs nothing else', filePlace)
  .action(async (paths: readonly string[], { out }: { readonly out: string }, command: Command) => {
    if (paths.length > mostCompared)
      command.error(
        `error: too many results: up to ${mostCompared} can be told from each other, and there are ${paths.length}`,
      )
    if (paths.some((path) => isSameFile(path, out)))
      command.error(`error: --out ${out} is one of the results`)
    const results = await Promise.all(paths.map(readSavedResult))
    const compared = results.map((result, index): NamedResult => ({ name: ownName(paths, index), result }))
    await writeWholeFile('--out', out, results.length === 1 ? reportOf(results[0]!) : comparisonOf(compared))
  })

/** The name of a file, or its path if several files have that name. */
function ownName(paths: readonly string[], index: number): string {
  const nameOf = (path: string) => basename(path, '.json')
  const own = paths[index]!
  const isShared = paths.some((path, other) => other !== index && nameOf(path) === nameOf(own))
  if (!isShared) return nameOf(own)
  return paths.some((path, other) => other !== index && path === own) ? `${own} ${index + 1}` : own
}

/** `--report out.html` and `--json`: the result as a page, or for programs. */
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
