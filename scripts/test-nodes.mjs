// Runs the tests on every supported Node, one after the other, and says how each went.
//
//   npm run test:nodes                                      the whole suite
//   npm run test:nodes -- test/engine                       what follows `--` goes to vitest
//   npm run test:nodes -- --node 20,26 --ort 1.25 test/engine
//                                                           on these Nodes, with that version of onnxruntime-node
//
// Nodes other than the running one come from npm and are kept in .cache/nodes, versions of onnxruntime-node in
// .cache/ort; delete a folder there to get a newer one. Nothing is built: the addon is the same for all (Node-API 8),
// and dist/ has to be there (npm run build:ts).

import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkoutWithOrt } from './checkout-with-ort.mjs'
import { majors, nodeOf } from './nodes.mjs'
import { printTable } from './print-table.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const cache = join(root, '.cache/nodes')

let asked = majors
let checkout = root
const args = process.argv.slice(2)
while (args[0] === '--node' || args[0] === '--ort') {
  const [option, value = ''] = args.splice(0, 2)
  if (!/^\d+([.,]\d+)*$/.test(value)) throw new Error(`${option}: expected a version, received '${value}'`)
  if (option === '--node') asked = value.split(',').map(Number)
  else checkout = checkoutWithOrt(root, value)
}

/** The outcome of vitest on one Node: version, counts, and whether all went well. */
function testOn(major) {
  const started = performance.now()
  let node
  try {
    node = nodeOf(major)
  } catch (error) {
    return {
      node: `${major}`,
      ort: '',
      passed: 0,
      failed: 0,
      skipped: 0,
      seconds: 0,
      result: `no binary: ${error.message.split('\n')[0]}`,
    }
  }
  const version = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()
  const report = join(cache, `report-${major}.json`)
  rmSync(report, { force: true })
  console.log(`\n── Node ${version} ──`)
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  const { status, signal } = spawnSync(
    node,
    [join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...reporters, ...args],
    {
      cwd: checkout,
      stdio: 'inherit',
      env: { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH}` },
    },
  )
  const counts = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : {}
  const { numPassedTests: passed = 0, numFailedTests: failed = 0, numPendingTests: skipped = 0 } = counts
  const ort = JSON.parse(
    readFileSync(join(checkout, 'node_modules/onnxruntime-node/package.json'), 'utf8'),
  ).version
  const seconds = Math.round((performance.now() - started) / 1000)
  return {
    node: version,
    ort,
    passed,
    failed,
    skipped,
    seconds,
    result: status === 0 ? 'ok' : `FAILED (${signal ?? `exit code ${status}`})`,
  }
}

if (!existsSync(join(root, 'dist/index.js'))) {
  console.error('There is no dist/: the worker threads are loaded from there. Run npm run build:ts first.')
  process.exit(1)
}
mkdirSync(cache, { recursive: true })
const rows = asked.map(testOn)
printTable(rows)
process.exitCode = rows.every(({ result }) => result === 'ok') ? 0 : 1
