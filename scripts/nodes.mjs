// Node's versions, and other programs that come from npm. They are kept in .cache; delete a folder there to get a newer one.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const cache = fileURLToPath(new URL('../.cache', import.meta.url))
const windows = process.platform === 'win32'

/** Every major version that is supported. */
export const majors = [20, 22, 24, 26]

/** Path of a Node of that major version. */
export function nodeOf(major) {
  if (process.versions.node.startsWith(`${major}.`)) return process.execPath
  const name = `node-${windows ? 'win' : process.platform}-${process.arch}`
  return join(fromNpm(`nodes/${major}`, name, major), 'bin', windows ? 'node.exe' : 'node')
}

/** The folder of a package of npm's in .cache/`place`, installed there unless it is. */
export function fromNpm(place, name, version) {
  const folder = join(cache, place)
  const installed = join(folder, 'node_modules', name)
  if (existsSync(join(installed, 'package.json'))) return installed
  console.log(`Installing ${name}@${version} ...`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
  const install = [
    'install',
    '--prefix',
    folder,
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--loglevel',
    'error',
    `${name}@${version}`,
  ]
  execFileSync('npm', install, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'], shell: windows })
  return installed
}
