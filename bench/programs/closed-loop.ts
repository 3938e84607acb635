import { monitorEventLoopDelay } from 'node:perf_hooks'
import { answer, input } from '../child.ts'
import { feedsFor, openServer, type Side } from './servers.ts'

/** Callers that each wait for their answer before they ask again. */
export interface ClosedLoop extends Side {
  readonly concurrency: number
  readonly warmupSeconds: number
  readonly seconds: number
}

/** What the callers saw. */
export interface ClosedLoopResult {
  readonly rowsPerSecond: number
  /** 99th percentile of the delay of this process's event loop, in milliseconds. */
  readonly loopDelayP99Ms: number
}

const loopDelayResolutionMs = 2

const settings = input<ClosedLoop>()
const server = await openServer(settings)
let rows = 0
let stopped = false
const callers = Array.from({ length: settings.concurrency }, async (_, caller) => {
  const feeds = feedsFor(settings, caller)
  while (!stopped) {
    await server.infer(feeds)
    rows += settings.rows ?? 1
  }
})

const seconds = (duration: number) => new Promise((resolve) => setTimeout(resolve, duration * 1000))
const loopDelay = monitorEventLoopDelay({ resolution: loopDelayResolutionMs })
await seconds(settings.warmupSeconds)
loopDelay.enable()
rows = 0
const startMs = performance.now()
await seconds(settings.seconds)
const rowsPerSecond = (rows / (performance.now() - startMs)) * 1000
loopDelay.disable()
stopped = true
await Promise.all(callers)
await server.close()
// The histogram holds the time between two looks, the wanted interval included.
answer({ rowsPerSecond, loopDelayP99Ms: Math.max(0, loopDelay.percentile(99) / 1e6 - loopDelayResolutionMs) } satisfies ClosedLoopResult)
