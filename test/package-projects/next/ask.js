// Starts what was built, where it was built or, with `standalone`, copied away from there as into an image; asks it once it says that it listens.
import { deepStrictEqual } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const folder = process.argv[2] === 'standalone' ? mkdtempSync(join(tmpdir(), 'zerohop-standalone-')) : null
if (folder !== null) cpSync('.next/standalone', folder, { recursive: true, verbatimSymlinks: true })
const program = folder === null ? [createRequire(import.meta.url).resolve('next/dist/bin/next'), 'start', '--port', '0', '--hostname', '127.0.0.1'] : [join(folder, 'server.js')]
const environment = folder === null ? {} : { PORT: '0', HOSTNAME: '127.0.0.1' }
const server = spawn(process.execPath, program, { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ...environment } })
try {
  let address
  for await (const line of createInterface(server.stdout)) {
    address ??= /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0]
    if (address !== undefined && line.includes('Ready')) break
  }
  const answer = await fetch(`${address}/digits`)
  deepStrictEqual(await answer.json(), { dims: [1, 10], executor: 'native' })
} finally {
  server.kill()
  if (folder !== null) rmSync(folder, { recursive: true })
}
