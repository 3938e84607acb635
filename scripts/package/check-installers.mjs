// Installs the package as strangers do, runs README's example there, and says how each went:
//
//   npm run check:installers               every installer on every supported Node, scripts off; with scripts on the oldest Node
//   npm run check:installers -- --quick    a part of that, for CI
//   npm run check:installers -- 'pnpm 12'  the named installers
//
// Nothing there has a compiler. Installers, Nodes and what is downloaded are kept in .cache.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from '../native/toolchain.mjs'
import { majors, nodeOf } from '../nodes.mjs'
import { printTable } from '../print-table.mjs'
import { installers } from './installers.mjs'
import { named } from './named.mjs'
import { StrangersMachine } from './strangers-machine.mjs'
import { pack } from './tarball.mjs'

const running = Number(process.versions.node.split('.')[0])
const words = process.argv.slice(2)
const quick = words.includes('--quick')
const asked = named(
  installers.map(({ name }) => name),
  words,
  quick ? ['npm 11', 'pnpm 12', 'yarn 4 pnp'] : undefined,
).map((name) => installers.find((installer) => installer.name === name))

/** README's example, which prints the executor as well. */
function example() {
  const [, code] = /^## Example\n.*?^```js\n(.*?)^```$/ms.exec(readFileSync(join(root, 'README.md'), 'utf8'))
  return code.replace('await engine.close()', "console.log('executor', engine.capabilities().executor)\n$&")
}

/** Installs and runs in an empty project; returns in words how that went. */
function outcome(installer, major, scripts, tarball, folder) {
  const machine = new StrangersMachine(folder, nodeOf(major))
  const project = join(folder, 'project')
  mkdirSync(project, { recursive: true })
  const files = {
    'package.json': '{ "name": "project", "version": "1.0.0", "private": true, "type": "module" }\n',
    'main.js': example(),
    ...installer.files?.(scripts),
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(project, name), text)
  const adding = installer.add([tarball, 'onnxruntime-node'], scripts)
  if (installer.isNode === false) machine.run(project, adding, installer.program())
  else machine.run(project, [installer.program(), ...adding])
  const printed = machine.run(
    project,
    installer.runsNode ? [installer.program(), 'node', 'main.js'] : ['main.js'],
  )
  if (machine.buildersStarted !== '')
    return `started ${machine.buildersStarted.trim().replaceAll('\n', ', ')}`
  if (!printed.includes('[ 1, 10 ]')) return `answered ${printed}`
  return /executor .*'native'/.test(printed) ? 'ok' : `without its binary: ${printed}`
}

function attempt(installer, major, scripts, tarball) {
  const started = performance.now()
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-installed-'))
  const row = { installer: installer.name, node: `${major}`, scripts: scripts ? 'on' : 'off' }
  let result
  try {
    result =
      major < installer.oldestNode
        ? `does not run on Node ${major}`
        : outcome(installer, major, scripts, tarball, folder)
  } catch (error) {
    result = `FAILED: ${error.message}`
  }
  rmSync(folder, { recursive: true, force: true })
  const seconds = Math.round((performance.now() - started) / 1000)
  console.log(`${row.installer}, Node ${row.node}, scripts ${row.scripts}: ${result} (${seconds} s)`)
  return { ...row, seconds, result: result.split('\n', 1)[0] }
}

function attempts() {
  if (quick) return asked.map((installer) => ({ installer, major: running, scripts: false }))
  const all = majors.flatMap((major) => asked.map((installer) => ({ installer, major, scripts: false })))
  return [...all, ...asked.map((installer) => ({ installer, major: majors[0], scripts: true }))]
}

const folder = mkdtempSync(join(tmpdir(), 'zerohop-packed-'))
const tarball = pack(folder)
const rows = attempts().map(({ installer, major, scripts }) => attempt(installer, major, scripts, tarball))
rmSync(folder, { recursive: true })
printTable(rows)
process.exitCode = rows.every(({ result }) => result === 'ok' || result.startsWith('does not run')) ? 0 : 1
