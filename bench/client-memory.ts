import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { pssBytes } from './memory.ts'
import type { BenchModel } from './models.ts'

/** Requests of each client before its memory is looked at. */
export const warmUpRequests = 10

/** Proportional set sizes in bytes: of an engine and six clients, of the same engine and one, and of one Node process more that does nothing. */
export interface ClientMemory {
  readonly six: number
  readonly one: number
  readonly bare: number
}

/**
 * While all are there, have asked, and have collected their garbage: what processes have of the same files is divided among them.
 *
 * @param node that the engine runs in, as its clients are to; see `withOwnNode`.
 */
export async function clientMemory(
  engine: ChildProcess,
  node: string,
  path: string,
  model: BenchModel,
  clients: number,
): Promise<ClientMemory> {
  const sum = async (all: readonly ChildProcess[]) => {
    engine.send('collect')
    await once(engine, 'message')
    return [engine, ...all].reduce((bytes, { pid }) => bytes + pssBytes(pid!), 0)
  }
  const [one, six] = await using(node, { side: 'asking', path, model }, clients, sum)
  const [oneBare, allBare] = await using(node, { side: 'bare' }, clients, sum)
  return { one, six, bare: (allBare - oneBare) / (clients - 1) }
}

/** What is found with one such process, and with so many. */
async function using(
  node: string,
  input: object,
  clients: number,
  look: (all: readonly ChildProcess[]) => Promise<number>,
): Promise<[number, number]> {
  const running: ChildProcess[] = []
  try {
    running.push(await started(node, input))
    const one = await look(running)
    while (running.length < clients) running.push(await started(node, input))
    return [one, await look(running)]
  } finally {
    for (const child of running) child.kill()
    await Promise.all(running.map(async (child) => child.exitCode ?? child.signalCode ?? once(child, 'exit')))
  }
}

async function started(node: string, input: object): Promise<ChildProcess> {
  const program = fileURLToPath(new URL('programs/asking-memory.mjs', import.meta.url))
  const child = spawn(
    node,
    ['--expose-gc', program, JSON.stringify({ ...input, requests: warmUpRequests })],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const ended = once(child, 'exit').then(([code, signal]) =>
    Promise.reject(new Error(`a client ended with ${signal ?? `code ${code}`}`)),
  )
  ended.catch(() => {})
  await Promise.race([once(child.stdout, 'data'), ended])
  return child
}
