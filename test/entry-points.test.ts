import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { build } from 'rolldown'
import { expect, it, onTestFinished } from 'vitest'
import { full } from './support/full.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const app = join(root, 'test/package-projects/entries/app.js')
const run = promisify(execFile)
const env = { ...process.env, DIGITS_MODEL: join(root, 'examples/digits/model.onnx') }

it.each<[string, RegExp | null]>([
  ['as they are', null],
  ...(full ? [["in an application's bundle that leaves them out", /^[^./]/] as [string, RegExp]] : []),
  ["within an application's bundle", /^(?!zerohop)[^./]/],
])('entry points share their classes, engines and limits: %s', async (_, external) => {
  mkdirSync(join(root, 'build'), { recursive: true })
  const folder = mkdtempSync(join(root, 'build/entries-')) // in this package, so that its name is known there
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const input = join(folder, 'app.mjs')
  copyFileSync(app, input)
  const file = external === null ? input : join(folder, 'bundle.mjs')
  if (external !== null)
    await build({
      input,
      platform: 'node',
      external,
      logLevel: 'silent',
      output: { file, codeSplitting: false },
    })
  const { stderr } = await run(process.execPath, [file], { cwd: root, env })
  expect(stderr).toBe('')
})
