// Says whether prebuilds are what they have to be:
//   npm run check:prebuilds [-- --folder FOLDER] [PLATFORM-ARCH...] [--suite [FILE...]]
// Without a name all six. With --suite this platform's is also what the tests run on, all or those that follow.
// What binaries are made of is read by LIEF, from PyPI.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { platforms } from './platforms.mjs'
import { faultsOf } from './prebuild-faults.mjs'
import { pythonWith } from './python.mjs'
import { fail, prebuildName, root, run } from './toolchain.mjs'

/** What a binary is made of. */
function factsOf(path) {
  const bytes = readFileSync(path)
  const { status, stdout, stderr } = spawnSync(pythonWith('lief==1.0.0'), [join(root, 'scripts/native/binary-facts.py'), path], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${path} cannot be read: ${stderr}`)
  return { ...JSON.parse(stdout), bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
}

/** A row of the table, and what is wrong. */
function check(folder, platform) {
  const path = join(folder, platform, 'zerohop.node')
  if (!existsSync(path)) return { cells: [platform, '', '', '', '', ''], faults: [`${path} is not there; npm run prebuild -- ${platform} makes it`] }
  const facts = factsOf(path)
  const faults = faultsOf(platform, facts)
  const { format, machine = '', bytes, system = [], libraries = [], sha256 } = facts
  return { cells: [platform, `${format} ${machine}`, bytes, system.join('.'), libraries.length, sha256.slice(0, 16)], faults }
}

function main() {
  const { values, positionals } = parseArgs({ options: { folder: { type: 'string' }, suite: { type: 'boolean' } }, allowPositionals: true })
  const folder = values.folder === undefined ? join(root, 'prebuilds') : resolve(values.folder)
  const named = positionals.filter((name) => name in platforms)
  const files = positionals.filter((name) => !named.includes(name))
  if (files.length > 0 && !values.suite) throw new Error(`no platform ${files[0]}; expected some of ${Object.keys(platforms).join(', ')}`)
  const table = new Table({ head: ['prebuild', 'format', 'bytes', 'system', 'libraries', 'sha256', 'faults'], style: { head: [], border: [] }, colWidths: [null, null, null, null, null, null, 70], wordWrap: true })
  const rows = (named.length > 0 ? named : Object.keys(platforms)).map((platform) => check(folder, platform))
  for (const { cells, faults } of rows) table.push([...cells, faults.join('\n') || 'none'])
  console.log(table.toString())
  if (rows.some(({ faults }) => faults.length > 0)) throw new Error('not all prebuilds are as they have to be')
  if (!values.suite) return
  const addon = join(folder, prebuildName(), 'zerohop.node')
  run(process.execPath, ['scripts/run-tests.mjs', ...files], { ZEROHOP_NATIVE: addon })
}

try {
  main()
} catch (error) {
  fail(error)
}
