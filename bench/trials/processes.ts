import { mkdtempSync, rmSync } from 'node:fs'
import type { ChildProcess } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run, start } from '../child.ts'
import { clientMemory, warmUpRequests, type ClientMemory } from '../client-memory.ts'
import { benchModel, type BenchModel } from '../models.ts'
import { withOwnNode } from '../own-node.ts'
import type { ProcessesLatencyInput, ProcessesLatencyResult } from '../programs/processes-latency.ts'
import { takeTurns } from '../rounds.ts'
import { shown } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const clients = 6
const callers = 64

/** How the clients ask. */
type Way = 'shared memory' | 'socket' | 'http'

/** What the memory is of. */
const memories: readonly (readonly [string, keyof ClientMemory])[] = [
  ['the engine and one client', 'one'],
  [`the engine and ${clients} clients`, 'six'],
  ['a Node process more that does nothing', 'bare'],
]

/** One engine for many processes: what it costs in time and memory. */
export const processes: Trial = {
  describe:
    '6 processes of 64 callers that ask one engine, through shared memory, a socket, or HTTP over a socket; one caller; memory',
  seconds: 5,
  async run({ seconds, rounds, smoke }) {
    const rateOf = (way: Way) => () =>
      served(way, benchModel('mlp'), (asking) => asking(clients, (children) => rate(children, seconds)))
    const rates = await takeTurns(rounds, {
      'shared memory': rateOf('shared memory'),
      socket: rateOf('socket'),
      http: rateOf('http'),
    })
    const latency = await takeTurns(rounds, { all: () => latencies(smoke) })
    const memory = await takeTurns(Math.min(rounds, 3), {
      all: () => memoryOf(benchModel(smoke ? 'mlp' : 'resnet152')),
    })

    const toHttp = round(median(rates['shared memory'].map((each, at) => each / rates.http[at]!)))
    const us = (name: keyof ProcessesLatencyResult) => round(median(latency.all.map((each) => each[name])), 1)
    const pingPongs = (which: 'ping-pong' | 'ping-pong of processes') =>
      round(median(latency.all.map((each) => (each['shared memory'] - each['in process']) / each[which])))
    const mb = (name: keyof ClientMemory) => round(median(memory.all.map((each) => each[name])) / 2 ** 20, 1)
    const toOne = round(median(memory.all.map(({ six, one }) => six / one)))
    const beyondNode = round(
      median(memory.all.map(({ six, one, bare }) => (six - clients * bare) / (one - bare))),
    )
    const ways = Object.entries(rates) as [Way, number[]][]
    return {
      ours: round(median(rates['shared memory']), 0),
      plain: round(median(rates.http), 0),
      unit: `requests/s of the MLP by ${clients} processes of ${callers} callers`,
      ratio: toHttp,
      numbers: [
        {
          question: `MLP, ${clients} processes of ${callers} callers: HTTP over a Unix socket, or one served engine`,
          plain: `${shown(median(rates.http))} /s`, zerohop: `${shown(median(rates['shared memory']))} /s`, note: `${toHttp} x`,
        },
        { question: `a served engine with ResNet-152 and one client, and with ${clients} (PSS)`, plain: '', zerohop: `${shown(mb('one'))}, ${shown(mb('six'))} MB`, note: `${toOne} x` },
      ], // prettier-ignore
      targets: [
        atLeast(3, 'requests/s through shared memory to those by HTTP over a Unix socket', toHttp),
        atMost(
          2,
          'identity, one caller: ping-pongs of two threads more than in process',
          pingPongs('ping-pong'),
        ),
        atMost(
          2,
          'the same in ping-pongs of two processes, a byte over a Unix socket and back',
          pingPongs('ping-pong of processes'),
        ),
        atMost(1.15, 'PSS of 6 clients and the engine to that of one and the engine', toOne),
        atMost(1.15, 'the same without what a bare Node process takes for each client', beyondNode),
      ],
      rows: [
        ...ways.map(([way, found]) => ({
          what: `by ${way}`,
          'requests/s': round(median(found), 0),
          'one caller, us': way === 'http' ? '' : us(way),
          'PSS, MB': '',
        })),
        ...memories.map(([what, name]) => ({
          what,
          'requests/s': '',
          'one caller, us': '',
          'PSS, MB': mb(name),
        })),
      ],
      settings: {
        clients, callers, 'in process us': us('in process'), 'ping-pong us': us('ping-pong'), 'of processes us': us('ping-pong of processes'),
        memory: `one engine with ${smoke ? 'the MLP' : 'ResNet-152'}; clients are plain Node on compiled code, looked at after ${warmUpRequests} requests of each and a gc; no other process has their Node`,
      }, // prettier-ignore
      details: { rates, latency: latency.all, memory: memory.all },
    }
  },
}

type Asking = <T>(count: number, use: (children: ChildProcess[]) => Promise<T>) => Promise<T>

/** An engine that is served in a way, and processes that ask it. */
async function served<T>(
  way: Way,
  model: BenchModel,
  use: (asking: Asking, engine: ChildProcess, path: string) => Promise<T>,
  node?: string,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
  const path = join(folder, 'socket')
  const engine = start('programs/served-engine.mjs', { side: way, path, model }, ['--expose-gc'], {}, node)
  await said(engine.child)
  try {
    return await use(
      async (count, ask) => {
        const children = Array.from(
          { length: count },
          () => start('programs/asking-process.mjs', { side: way, path, model, callers }).child,
        )
        await Promise.all(children.map(said))
        const found = await ask(children)
        await Promise.all(
          children.map((child) => (child.send('end'), new Promise((resolve) => child.once('exit', resolve)))),
        )
        return found
      },
      engine.child,
      path,
    )
  } finally {
    engine.child.send('end')
    await engine.result
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The next message of a process. */
function said<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    child.once('message', (message) => resolve(message as T))
    child.once('exit', (code) => reject(new Error(`it ended with code ${code}`)))
  })
}

async function ask(children: readonly ChildProcess[], seconds: number): Promise<number> {
  const all = await Promise.all(
    children.map((child) => (child.send(seconds), said<{ requests: number }>(child))),
  )
  return all.reduce((sum, { requests }) => sum + requests, 0) / seconds
}

async function rate(children: readonly ChildProcess[], seconds: number): Promise<number> {
  await ask(children, Math.min(2, seconds / 2)) // warms up
  return ask(children, seconds)
}

function latencies(smoke: boolean): Promise<ProcessesLatencyResult> {
  const model = benchModel('identity')
  const measured = { model, blocks: smoke ? 1 : 9, requestsPerBlock: smoke ? 100 : 2000 }
  return served('shared memory', model, (_, __, path) =>
    run<ProcessesLatencyResult>('programs/processes-latency.ts', {
      ...measured,
      path,
    } satisfies ProcessesLatencyInput),
  )
}

function memoryOf(model: BenchModel): Promise<ClientMemory> {
  return withOwnNode((node) =>
    served(
      'shared memory',
      model,
      (_, engine, path) => clientMemory(engine, node, path, model, clients),
      node,
    ),
  )
}
