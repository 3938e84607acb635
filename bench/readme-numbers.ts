import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Command } from 'commander'
import { readKeptResults } from './kept-result.ts'
import { withHeadlines, withNumbers } from './numbers-section.ts'
import { resultsDocument } from './results-document.ts'

const pathOf = (file: string) => fileURLToPath(new URL(file, import.meta.url))

const { check } = new Command('npm run bench:numbers --')
  .description(
    'make the numbers of README and docs/reference/benchmarks.md, and bench/results.md, of the results in bench/results/, which npm run bench -- --results writes',
  )
  .option('--check', 'write nothing; exit with 1 where they are not what would be written', false)
  .parse()
  .opts<{ check: boolean }>()

const benchmarks = '../docs/reference/benchmarks.md'
const results = readKeptResults(pathOf('results'))
const made: readonly (readonly [file: string, text: string])[] = [
  ['../README.md', withHeadlines(textOf('../README.md')!, results)],
  [benchmarks, withNumbers(textOf(benchmarks)!, results)],
  ...(results.length === 0 ? [] : [['results.md', resultsDocument(results)] as const]),
]
for (const [file, text] of made) {
  if (text === textOf(file)) continue
  console.log(
    `${file.replace('../', '')} ${check ? 'is not what bench/results/ gives: run npm run bench:numbers' : 'written'}`,
  )
  if (check) process.exitCode = 1
  else writeFileSync(pathOf(file), text)
}

function textOf(file: string): string | null {
  try {
    return readFileSync(pathOf(file), 'utf8')
  } catch {
    return null
  }
}
