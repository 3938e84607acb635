import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { libraryVersion } from '../src/base/own-package.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

it("is the package's", () => {
  expect(libraryVersion).toBe(
    (JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { version: string }).version,
  )
})

it.each(['{ "name": "service", "version": "9.9.9", "type": "module" }', '{ "type": "module" }'])(
  'is not that of an application that has it in a bundle: %s',
  (manifest) => {
    const folder = mkdtempSync(join(tmpdir(), 'zerohop-version-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    writeFileSync(join(folder, 'package.json'), manifest)
    copyFileSync(`${root}src/base/own-package.ts`, join(folder, 'own-package.ts'))
    const code = `import { libraryVersion } from '${pathToFileURL(join(folder, 'own-package.ts')).href}'; console.log(libraryVersion)`
    expect(
      execFileSync(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', code], {
        cwd: root,
        encoding: 'utf8',
      }),
    ).toBe('unknown\n')
  },
)
