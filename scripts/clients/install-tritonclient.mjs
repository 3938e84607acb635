// Installs Triton's client for Python into a virtual environment of this checkout, for the test that serves it:
//   node scripts/clients/install-tritonclient.mjs
// Nothing of it is committed or published.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const environment = fileURLToPath(new URL('../../.cache/clients/tritonclient', import.meta.url))
const python = join(environment, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python')

function run(command, args) {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit' })
  if (error === undefined && status === 0) return
  console.error(
    `Triton's client cannot be had here: ${command} ${args.join(' ')} ${error ? `could not be started (${error.message})` : `ended with code ${status}`}.`,
  )
  process.exit(1)
}

if (!existsSync(python)) run(process.platform === 'win32' ? 'python' : 'python3', ['-m', 'venv', environment])
run(python, [
  '-m',
  'pip',
  'install',
  '--quiet',
  '--disable-pip-version-check',
  '--only-binary',
  ':all:',
  'tritonclient[http]==2.73.0',
])
console.log(python)
