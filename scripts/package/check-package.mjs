// Looks at the packages' tarballs as their users meet it: what they are made of, and one small project each of how they are used.
//
//   npm run check:package                    all
//   npm run check:package -- --quick         what installs little and takes seconds, for CI
//   npm run check:package -- rollup types    the named projects
//
// The projects lie in test/package-projects; what is to be done in one is its script `check`.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from '../native/toolchain.mjs'
import { printTable } from '../print-table.mjs'
import { named } from './named.mjs'
import { pack, packTools } from './tarball.mjs'
import { usersEnvironment } from './users-environment.mjs'

const projects = join(root, 'test/package-projects')
const args = process.argv.slice(2)
const rows = []

/** Runs a command, which npm is not to think part of this checkout, and keeps how it went. */
function check(name, command, args, cwd) {
  const started = performance.now()
  const env = {
    ...usersEnvironment(),
    DIGITS_MODEL: join(root, 'examples/digits/model.onnx'),
    NEXT_TELEMETRY_DISABLED: '1',
  }
  const { status, signal, stdout, stderr } = spawnSync(command, args, {
    cwd,
    env,
    encoding: 'utf8',
    timeout: 900_000,
  })
  const seconds = Math.round((performance.now() - started) / 1000)
  if (status !== 0) console.log(`${name}: FAILED\n${stdout}${stderr}`)
  rows.push({
    check: name,
    seconds,
    result: status === 0 ? 'ok' : `FAILED (${signal ?? `exit code ${status}`})`,
  })
}

const program = (name) => join(root, 'node_modules/.bin', name)

/** Adds the packages, and what a project names itself. */
function install(name, project) {
  check(
    `${name}: install`,
    'npm',
    [
      'install',
      '--ignore-scripts',
      '--no-audit',
      '--no-fund',
      '--loglevel',
      'error',
      tarball,
      tools,
      'onnxruntime-node',
    ],
    project,
  )
}

const manifestOf = (name) => JSON.parse(readFileSync(join(projects, name, 'package.json'), 'utf8'))
const all = readdirSync(projects, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
/** Bundlers of many packages bring their own, into their own folder. */
const large = (name) => manifestOf(name).dependencies !== undefined
const asked = named(all, args, args.includes('--quick') ? all.filter((name) => !large(name)) : all)

/** Entries that are models, which have no types. */
const models = Object.keys(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).exports).filter(
  (entry) => entry.endsWith('.onnx'),
)
const folder = mkdtempSync(join(tmpdir(), 'zerohop-package-'))
const tarball = pack(folder)
const tools = packTools(folder)
try {
  check('publint', program('publint'), ['run', tarball, '--strict'], root)
  check('publint, tools', program('publint'), ['run', tools, '--strict'], root)
  check(
    'are the types wrong',
    program('attw'),
    [tarball, '--profile', 'esm-only', '--exclude-entrypoints', ...models],
    root,
  )
  cpSync(projects, join(folder, 'projects'), { recursive: true })
  install('projects', join(folder, 'projects'))
  for (const name of asked) {
    const project = join(folder, 'projects', name)
    if (large(name)) install(name, project)
    check(name, 'npm', ['run', '--silent', 'check'], project)
  }
} finally {
  rmSync(folder, { recursive: true })
}
printTable(rows)
process.exitCode = rows.every(({ result }) => result === 'ok') ? 0 : 1
