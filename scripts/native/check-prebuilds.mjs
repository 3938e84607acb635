// Says whether prebuilds are what they have to be:
//   npm run check:prebuilds [-- --folder FOLDER] [PLATFORM-ARCH...] [--suite [FILE...]]
// Without a name all six. With --suite this platform's is also what the tests run on, all or those that follow.
// What binaries are made of is read by LIEF, from PyPI.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { platforms } from './platforms.mjs'
import { faultsOf } from './prebuild-faults.mjs'
import { pythonWith } from './python.mjs'
import { fail, prebuildName, root, run } from './toolchain.mjs'

/** What binaries are made of. */
function factsOf(paths) {
  const { status, stdout, stderr } = spawnSync(
    pythonWith('lief==1.0.0'),
    [join(root, 'scripts/native/binary-facts.py'), ...paths],
    { encoding: 'utf8' },
  )
  if (status !== 0) throw new Error(`${paths.join(', ')} cannot be read: ${stderr}`)
  return stdout
    .trimEnd()
    .split('\n')
    .map((line, index) => ({ ...JSON.parse(line), bytes: statSync(paths[index]).size }))
}

/** Prints a table of them; throws where one is not as it has to be. */
function check(prebuilds) {
  const absent = prebuilds.find(({ path }) => !existsSync(path))
  if (absent !== undefined)
    throw new Error(`${absent.path} is not there; npm run prebuild -- ${absent.platform} makes it`)
  const table = new Table({
    head: ['prebuild', 'format', 'bytes', 'system', 'libraries', 'sha256', 'faults'],
    style: { head: [], border: [] },
  })
  const all = factsOf(prebuilds.map(({ path }) => path)).map((facts, index) => ({
    ...facts,
    ...prebuilds[index],
  }))
  const wrong = all.map(({ platform, path, ...facts }) => {
    const faults = faultsOf(platform, facts)
    const { format, machine = '', bytes, system = [], libraries = [] } = facts
    const sha256 = createHash('sha256').update(readFileSync(path)).digest('hex')
    table.push([
      platform,
      `${format} ${machine}`,
      bytes,
      system.join('.'),
      libraries.length,
      sha256.slice(0, 16),
      faults.join('\n') || 'none',
    ])
    return faults.length > 0
  })
  console.log(table.toString())
  if (wrong.includes(true)) throw new Error('not all prebuilds are as they have to be')
}

function main() {
  const { values, positionals } = parseArgs({
    options: { folder: { type: 'string' }, suite: { type: 'boolean' } },
    allowPositionals: true,
  })
  const folder = values.folder === undefined ? join(root, 'prebuilds') : resolve(values.folder)
  const named = positionals.filter((name) => Object.hasOwn(platforms, name))
  const files = positionals.filter((name) => !named.includes(name))
  if (files.length > 0 && !values.suite)
    throw new Error(`no platform ${files[0]}; expected some of ${Object.keys(platforms).join(', ')}`)
  check(
    (named.length > 0 ? named : Object.keys(platforms)).map((platform) => ({
      platform,
      path: join(folder, platform, 'zerohop.node'),
    })),
  )
  if (!values.suite) return
  const addon = join(folder, prebuildName(), 'zerohop.node')
  run(process.execPath, ['scripts/run-tests.mjs', ...files], { ZEROHOP_NATIVE: addon })
}

try {
  main()
} catch (error) {
  fail(error)
}
