import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { HttpPeer, HttpRequest } from './peer.ts'
import type { ProcessTree } from './process-tree.ts'

export const startLimitSeconds = 120

/** What is waited for, or an error when the program ends before it or it takes too long. */
export async function unlessEnded<T>(tree: ProcessTree, wanted: Promise<T>, seconds: number): Promise<T> {
  const stop = new AbortController()
  const { signal } = stop
  const ended = async (): Promise<never> => {
    // Once it is over, what it said last may still be on its way.
    if (!tree.hasEnded) await once(tree.root, 'close', { signal })
    await sleep(500, undefined, { signal })
    throw new Error(`its process ended (${tree.root.signalCode ?? tree.root.exitCode}): ${tree.tail}`)
  }
  const late = async (): Promise<never> => {
    await sleep(seconds * 1000, undefined, { signal })
    throw new Error(`it took longer than ${seconds} s: ${tree.tail}`)
  }
  try {
    return await Promise.race([wanted, ended(), late()])
  } finally {
    stop.abort()
  }
}

/** Waits until a server answers the first request of its workload. */
export async function whenReady(
  tree: ProcessTree,
  port: number,
  { readyPath, ...peer }: HttpPeer,
  { path, headers, body }: HttpRequest,
): Promise<void> {
  const url = `http://127.0.0.1:${port}`
  let last = 'no answer'
  for (
    const until = performance.now() + startLimitSeconds * 1000;
    performance.now() < until;
    await sleep(200)
  ) {
    if (tree.hasEnded)
      throw new Error(`its process ended (${tree.root.signalCode ?? tree.root.exitCode}): ${tree.tail}`)
    try {
      if (
        readyPath !== undefined &&
        !(await fetch(url + readyPath, { signal: AbortSignal.timeout(5000) })).ok
      )
        continue
      const response = await fetch(url + path, {
        method: 'POST',
        headers,
        body: new Uint8Array(body),
        signal: AbortSignal.timeout(30_000),
      })
      const text = await response.text()
      if (response.ok) return
      last = `${response.status}: ${text.slice(0, 400)}`
    } catch (error) {
      last = String((error as Error).cause ?? error)
    }
  }
  throw new Error(`${peer.name} was not ready after ${startLimitSeconds} s (${last}): ${tree.tail}`)
}

/** Ports of this machine that nobody listens on, all asked for at once so that they differ. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'))
  await Promise.all(servers.map((server) => once(server, 'listening')))
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => once(server.close(), 'close')))
  return ports
}
