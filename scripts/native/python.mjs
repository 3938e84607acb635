// Programs from PyPI, pinned, each in a virtual environment of this checkout.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root, run } from './toolchain.mjs'

/** The path of a Python that has a package; installs it where it is not there yet, and throws where it cannot be had. */
export function pythonWith(requirement) {
  const [name] = requirement.split('==')
  const environment = join(root, '.cache', name)
  const python = join(environment, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python')
  const stamp = join(environment, 'installed.txt')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === requirement) return python
  run(process.platform === 'win32' ? 'python' : 'python3', ['-m', 'venv', environment])
  run(python, [
    '-m',
    'pip',
    'install',
    '--quiet',
    '--disable-pip-version-check',
    '--only-binary',
    ':all:',
    requirement,
  ])
  writeFileSync(stamp, requirement)
  return python
}
