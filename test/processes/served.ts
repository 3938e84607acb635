import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { InferenceEngine, type EngineOptions } from '../../src/index.ts'
import { loadBinding } from '../../src/native/addon.ts'
import { connect, serve } from '../../src/adapters/processes/processes.ts'
import type { ConnectOptions, ServeOptions } from '../../src/adapters/processes/process-options.ts'
import type { EngineServer } from '../../src/adapters/processes/engine-server.ts'
import type { RemoteEngine } from '../../src/adapters/processes/remote-engine.ts'

/** Ways of requests and answers: those that there are here. */
export const ways = [
  ...(loadBinding().binding?.processes ? [{ way: 'shared memory', sharedMemory: true }] : []),
  { way: 'the socket', sharedMemory: false },
]

/** A path for a socket of the test's own, whose folder goes with it. */
export function ownPath(): string {
  const folder = mkdtempSync(join(tmpdir(), 'zh-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'socket')
}

export interface Served {
  readonly path: string
  readonly engine: InferenceEngine
  readonly server: EngineServer
  /** Another client. */
  client(options?: ConnectOptions): Promise<RemoteEngine>
  readonly remote: RemoteEngine
}

/** An engine that is served, and a client of it; all closed after the test. */
export async function served(
  sharedMemory: boolean,
  options: Partial<ServeOptions> = {},
  engineOptions: EngineOptions = { cpuWorkers: 1 },
): Promise<Served> {
  const path = ownPath()
  const engine = new InferenceEngine(engineOptions)
  const server = await serve(engine, { path, ...options })
  onTestFinished(async () => {
    await server.close()
    await engine.destroy()
  })
  const client = async (given: ConnectOptions = {}) => {
    const remote = await connect(path, { sharedMemory, ...given })
    onTestFinished(() => remote.destroy())
    return remote
  }
  return { path, engine, server, client, remote: await client() }
}
