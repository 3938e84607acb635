// Starts what was built, and asks it once it says that it listens.
import { deepStrictEqual } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const next = createRequire(import.meta.url).resolve('next/dist/bin/next')
const server = spawn(process.execPath, [next, 'start', '--port', '0', '--hostname', '127.0.0.1'], { stdio: ['ignore', 'pipe', 'inherit'] })
try {
  let address
  for await (const line of createInterface(server.stdout)) {
    address ??= /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0]
    if (address !== undefined && line.includes('Ready')) break
  }
  const answer = await fetch(`${address}/digits`)
  deepStrictEqual(await answer.json(), { dims: [1, 10] })
} finally {
  server.kill()
}
