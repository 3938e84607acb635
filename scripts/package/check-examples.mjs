// Starts each example by the commands of its README, as they stand there, but for the names of the user's files.
//
//   npm run check:examples                   all
//   npm run check:examples -- embeddings     the named ones
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from '../native/toolchain.mjs'
import { printTable } from '../print-table.mjs'
import { named } from './named.mjs'
import { ShellCommand } from './shell-command.mjs'
import { usersEnvironment } from './users-environment.mjs'

const digits = join(root, 'examples/digits')
const three = readFileSync(join(digits, 'images/3-0003.png'))
const folder = mkdtempSync(join(tmpdir(), 'zerohop-examples-'))
process.once('exit', () => rmSync(folder, { recursive: true }))
const pictures = readdirSync(join(digits, 'images')).length
const timeoutMs = 300_000

/** A line that says that it has started, and what is then asked of it. One without `ask` ends by itself. */
const examples = {
  'batch-files': { line: new RegExp(`^${pictures} images in`) },
  embeddings: { line: /^ {2}0\.\d+ {2}\w/ },
  'job-queue': { line: / takes jobs$/, needsRedis: true, ask: (_, command) => answersOfJobs(command) },
  next: { line: /Local: +(http:\S+)/, ask: (address) => classify(`${address}/api/classify`) },
  'web-service': { line: /^listening on (\S+),/, ask: (address) => classify(`${address}/classify`) },
}
const projects = readdirSync(join(root, 'examples'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && isProject(entry.name))
  .map(({ name }) => name)
const names = named(projects, process.argv.slice(2))

/** What was started for an example, ended with it. */
let running = []
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    for (const command of running) command.kill()
    process.exit(1)
  })
}
const rows = []
for (const name of names) {
  const startedMs = performance.now()
  const result = await check(name).catch((error) => `FAILED: ${error.message}`)
  for (const command of running) await command.end()
  running = []
  rows.push({ example: name, seconds: Math.round((performance.now() - startedMs) / 1000), result })
}
printTable(rows)
process.exitCode = rows.every(({ result }) => result === 'ok') ? 0 : 1

function isProject(name) {
  return readdirSync(join(root, 'examples', name)).includes('package.json')
}

async function check(name) {
  const {
    line,
    ask,
    needsRedis = false,
  } = examples[name] ?? fail(`expected to be known to ${import.meta.filename}, received ${name}`)
  const [install, start] = commandsOf(name)
  const project = join(root, 'examples', name)
  const environment = {
    ...usersEnvironment(),
    PORT: String(await freePort()),
    NEXT_TELEMETRY_DISABLED: '1',
    ...(needsRedis ? { REDIS_URL: await redis() } : {}),
  }
  const command = (text, more = {}) => run(text, project, { ...environment, ...more })
  await command(install).ended()
  const started = command(start)
  const [, address] = await started.said(line)
  if (ask === undefined) await started.ended()
  else if (!(await ask(address, command))) fail('expected the picture of a 3 to be called that')
  return 'ok'
}

function run(text, folder, environment) {
  const command = new ShellCommand(text, folder, environment, timeoutMs)
  running.push(command)
  return command
}

/** The two of the first block of its README, with what there is here for the files that a user has. */
function commandsOf(name) {
  const [, block] =
    /```sh\n([^`]*)```/.exec(readFileSync(join(root, 'examples', name, 'README.md'), 'utf8')) ??
    fail('expected README.md to begin with its commands')
  const files = {
    '=model.onnx': `=${join(digits, 'model.onnx')}`,
    '=labels.txt': `=${join(digits, 'labels.txt')}`,
    '=pictures': `=${join(digits, 'images')}`,
    ' pictures': ` ${join(digits, 'images')}`,
    'results.csv': join(folder, 'results.csv'),
  }
  const commands = Object.entries(files)
    .reduce((text, [from, to]) => text.replaceAll(from, to), block)
    .trim()
    .split('\n')
  return commands.length === 2
    ? commands
    : fail(`expected two commands in README.md, received ${commands.length}`)
}

async function classify(url) {
  const response = await fetch(url, { method: 'POST', body: three, headers: { 'content-type': 'image/png' } })
  return (await response.json()).classes?.[0].label === '3'
}

/** Makes jobs of all pictures, and asks until all of them are done. */
async function answersOfJobs(command) {
  await command('npm run enqueue', { PICTURES: join(digits, 'images') }).ended()
  for (const untilMs = performance.now() + timeoutMs; performance.now() < untilMs;) {
    const answers = (await command('npm run --silent answers').ended()).filter((line) =>
      line.startsWith('{"'),
    )
    if (answers.length === pictures)
      return answers.find((line) => line.includes('3-0003.png')).includes('"label":"3"')
  }
  return false
}

/** The address of a Redis of its own. */
async function redis() {
  const port = await freePort()
  await run(
    `exec redis-server --port ${port} --save "" --maxmemory-policy noeviction`,
    folder,
    process.env,
  ).said(/Ready to accept connections/)
  return `redis://127.0.0.1:${port}`
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  return port
}

function fail(message) {
  throw new Error(message)
}
