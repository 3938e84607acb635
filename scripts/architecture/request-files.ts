// The files of src/ that run code for one warm infer(), by V8's coverage: npx tsx scripts/architecture/request-files.ts [FILE]
// Prints them, and how many lines of code they have; given FILE, writes them into its block of text after "The files of a request".
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { models } from '../../test/process/models.ts'
import { linesOfCode, requestFilesText } from './request-files-text.ts'

const fixture = fileURLToPath(new URL('../../test/process/fixtures/way.mjs', import.meta.url))
const output = execFileSync(process.execPath, ['--no-warnings', fixture], {
  encoding: 'utf8',
  env: { ...process.env, ZEROHOP_EXECUTOR: 'native', ZEROHOP_TEST_MODELS: JSON.stringify(models()) },
})
const files = JSON.parse(output.trimEnd().split('\n').at(-1)!) as string[]
const text = requestFilesText(files)
console.log(text)
console.log(`${files.reduce((sum, file) => sum + linesOfCode(file), 0)} lines of code`)
const [, , document] = process.argv
if (document !== undefined) {
  const before = readFileSync(document, 'utf8')
  writeFileSync(
    document,
    before.replace(
      /(## The files of a request[\s\S]*?```text\n)[\s\S]*?(```)/,
      (_, head: string, tail: string) => `${head}${text}\n${tail}`,
    ),
  )
}
