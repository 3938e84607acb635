import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine } from 'zerohop'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'
import { ourSides, type OurSide } from '../side.ts'
import { median } from '../statistics.ts'

/** An engine with models that have served, and then have nothing to do; or a process without one. Medians of its seconds. */
export interface IdleInput {
  readonly side: OurSide | 'nothing'
  readonly models: readonly BenchModel[]
  readonly settleSeconds: number
  readonly seconds: number
}

export interface IdleResult {
  readonly timers: number
  /** Of one core. */
  readonly cpuShare: number
  /** Threads that there are because of the engine. */
  readonly threads: number
  /** Times that one of them went to sleep, and so had been awake, in a second. */
  readonly wakeUpsPerSecond: number
}

const { side, models, settleSeconds, seconds } = input<IdleInput>()
const tasks = () => readdirSync('/proc/self/task')
const before = new Set(tasks())
const engine = side === 'nothing' ? null : new InferenceEngine(ourSides[side])
for (const [index, model] of models.entries()) {
  const loaded = await engine?.load(`model-${index}`, {
    path: model.path,
    instanceGroup: [{ kind: 'cpu', count: 2 }],
  })
  await Promise.all(Array.from({ length: 100 }, (_, caller) => loaded?.infer(feedsFor(model, caller))))
}

await sleep(settleSeconds * 1000)
// Those that loading needed have ended by now.
const threads = tasks().filter((task) => !before.has(task))
const timers = process
  .getActiveResourcesInfo()
  .filter((kind) => kind === 'Timeout' || kind === 'Immediate').length

/** Voluntary context switches of these threads so far. */
function switches(): number {
  return threads.reduce((sum, task) => {
    const status = readFileSync(`/proc/self/task/${task}/status`, 'utf8')
    return sum + Number(/^voluntary_ctxt_switches:\s+(\d+)$/m.exec(status)![1])
  }, 0)
}

// By the second: V8 collects every few seconds at first what starting has left in each thread's heap, and that is not the engine at work.
const shares: number[] = []
const wakeUps: number[] = []
switches() // what reading them needs for the first time is not idleness
for (const endMs = performance.now() + seconds * 1000; performance.now() < endMs;) {
  const [switchesBefore, cpuBefore, startMs] = [switches(), process.cpuUsage(), performance.now()]
  await sleep(Math.min(1, seconds) * 1000)
  const { user, system } = process.cpuUsage(cpuBefore)
  shares.push((user + system) / 1000 / (performance.now() - startMs))
  wakeUps.push(switches() - switchesBefore)
}
await engine?.close()
answer({
  timers,
  cpuShare: median(shares),
  threads: threads.length,
  wakeUpsPerSecond: median(wakeUps),
} satisfies IdleResult)
