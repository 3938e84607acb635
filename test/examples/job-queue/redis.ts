import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

/** Whether there is a Redis to start; where there is none, tests say so and are skipped. */
export const hasRedis = spawnSync('redis-server', ['--version']).status === 0

/** For the name of a suite that needs it. */
export const missingRedis = hasRedis ? '' : ' (skipped: no redis-server; apt-get install redis-server)'

/** A Redis of one's own, on a free port, with its files in a temporary folder. */
export interface OwnRedis {
  readonly port: number
  /** Kills it, as a machine that fails does. */
  kill(): Promise<void>
  /** Starts it again, on the same port, with what it had written. */
  start(): Promise<void>
  /** Ends it, and removes its files. */
  close(): Promise<void>
}

/** @param addresses where it listens. */
export async function startRedis(addresses: readonly string[] = ['127.0.0.1']): Promise<OwnRedis> {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-redis-'))
  const port = await freePort()
  let child: ChildProcess
  const start = async () => {
    // Every command is on the disk before it is answered: what is killed has lost nothing that was acknowledged.
    const options = [
      '--port',
      String(port),
      '--bind',
      ...addresses,
      '--protected-mode',
      'no',
      '--dir',
      folder,
      '--save',
      '',
      '--appendonly',
      'yes',
      '--appendfsync',
      'always',
    ]
    const started = spawn('redis-server', options, { stdio: ['ignore', 'pipe', 'inherit'] })
    child = started
    for await (const line of createInterface({ input: started.stdout })) {
      if (line.includes('Ready to accept connections')) break
    }
    started.stdout.resume()
    if (started.exitCode !== null) throw new Error(`redis-server has ended with code ${started.exitCode}`)
  }
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
  await start()
  return {
    port,
    kill,
    start,
    close: async () => {
      await kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
