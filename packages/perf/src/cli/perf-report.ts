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
    'write an HTML page with charts of one result of `zerohop perf --json`, or a comparison of several',
  )
  .argument('<results...>', `up to ${mostCompared} files; the others are compared with the first`)
  .requiredOption('-o, --out <file>', 'HTML file to write; it needs no other files', filePlace)
  .action(async (paths: readonly string[], { out }: { readonly out: string }, command: Command) => {
    if (paths.length > mostCompared)
      command.error(`error: expected at most ${mostCompared} results, received ${paths.length}`)
    if (paths.some((path) => isSameFile(path, out)))
      command.error(`error: --out ${out} is one of the results: name another file`)
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
      .option('--report <file>', 'write an HTML page with charts of all levels', filePlace)
      .option('--json [file]', 'print only JSON, or write JSON for zerohop perf-report', filePlace)
  },
  async report(result, { options }) {
    if (options.json === true) printJson(result)
    if (typeof options.json === 'string') await writeWholeFile('--json', options.json, savedText(result))
    if (options.report !== undefined) await writeWholeFile('--report', options.report, reportOf(result))
  },
}
