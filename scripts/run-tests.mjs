// Tests in CI, on the build that is there: all of `npm run test:full`, or of the named files what `npm test` runs.
// What fails among thousands of tests on a busy machine is tried once more by itself, and named either way.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'

const mostFiles = 3 // more than that is no accident

const folder = mkdtempSync(join(tmpdir(), 'zerohop-tests-'))
const report = join(folder, 'report.json')
const run = (command, ...args) => spawnSync(command, args, { stdio: 'inherit' }).status ?? 1

const [, , ...named] = process.argv
const mode = named.length === 0 ? ['--mode', 'full'] : []
const vitest = ['npx', 'vitest', 'run', ...mode]
let status = run(...vitest, ...named, '--reporter=default', '--reporter=json', `--outputFile.json=${report}`)
const failed = status === 0 ? [] : failedFiles()
if (failed.length > 0 && failed.length <= mostFiles) {
  console.log(`\nFAILED, and tried once more by themselves: ${failed.join(', ')}`)
  status = run(...vitest, '--no-file-parallelism', ...failed)
  console.log(`\nUNSTEADY TESTS: ${failed.join(', ')}: ${status === 0 ? 'passed' : 'failed'} by themselves`)
}
rmSync(folder, { recursive: true })
process.exit(status)

/** None where there is no report, or something else than a test failed. */
function failedFiles() {
  try {
    const { testResults } = JSON.parse(readFileSync(report, 'utf8'))
    return testResults
      .filter(({ status }) => status === 'failed')
      .map(({ name }) => relative(process.cwd(), name))
  } catch {
    return []
  }
}
