import { basename } from 'node:path'
import { Command } from 'commander'
import { isSameFile } from 'zerohop/internals'
import { comparisonOf } from '../perf/html-report/comparison.ts'
import { mostCompared, type NamedResult } from '../perf/html-report/report-page.ts'
import { reportOf } from '../perf/html-report/report.ts'
import { readSavedResult, writeWholeFile } from '../perf/html-report/saved-result.ts'
import { filePlace } from './perf-output.ts'

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
  const others = paths.toSpliced(index, 1)
  if (!others.some((path) => nameOf(path) === nameOf(own))) return nameOf(own)
  return others.includes(own) ? `${own} ${index + 1}` : own
}
