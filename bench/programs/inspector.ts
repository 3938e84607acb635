import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine, type Model } from 'zerohop'
import { inspector } from 'zerohop/inspector'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'

/** An engine at whose page somebody looks, or nobody. */
export interface InspectorInput {
  readonly model: BenchModel
  /** How many of it are loaded; the first is asked. */
  readonly models: number
  readonly callers: number
  readonly isOpen: boolean
  readonly intervalMs: number
  readonly seconds: number
}

export interface InspectorResult {
  readonly cpuMs: number
  readonly requests: number
  /** CPU time of one `engine.stats()`. */
  readonly statsCpuMs: number
}

const { model, models, callers, isOpen, intervalMs, seconds } = input<InspectorInput>()
const engine = new InferenceEngine()
const loaded = await Promise.all(
  Array.from({ length: models }, (_, index) => engine.load(`model-${index}`, { path: model.path })),
)
const inspect = inspector(engine, { intervalMs })
const server = createServer(inspect).listen(0, '127.0.0.1')
await once(server, 'listening')
const looker = isOpen ? await lookAt(server) : null

let requests = 0
let isOver = false
const asking = Array.from({ length: callers }, async (_, caller) => ask(loaded[0]!, caller))
await sleep(seconds * 250)
const [begun, cpuBefore] = [requests, process.cpuUsage()]
await sleep(seconds * 1000)
const [cpuMs, done] = [cpuMsSince(cpuBefore), requests - begun]
isOver = true
await Promise.all(asking)

looker?.kill()
inspect.close()
server.close()
const statsCpuMs = cpuOfStats()
await engine.close()
answer({ cpuMs, requests: done, statsCpuMs } satisfies InspectorResult)

async function ask(of: Model, caller: number): Promise<void> {
  const feeds = feedsFor(model, caller)
  while (!isOver) {
    await of.infer(feeds)
    requests++
  }
}

/** A page, as far as a server can tell, in a process of its own; it looks once this resolves. */
async function lookAt(server: Server) {
  const { port } = server.address() as AddressInfo
  const page = `require('node:http').get({ port: ${port}, host: '127.0.0.1', headers: { accept: 'text/event-stream' } }, (response) => response.resume())`
  const child = spawn(process.execPath, ['-e', page], { stdio: 'ignore' })
  await once(server, 'request')
  return child
}

function cpuOfStats(): number {
  const times = 200
  const before = process.cpuUsage()
  for (let time = 0; time < times; time++) engine.stats()
  return cpuMsSince(before) / times
}

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}
