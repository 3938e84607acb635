import { setTimeout as sleep } from 'node:timers/promises'
import { answer, input } from '../child.ts'
import { LoopDelayProbe, type LoopDelay } from '../loop-delay.ts'
import { pssBytes } from '../memory.ts'
import { feedsFor, openServer } from '../server.ts'
import type { LoadSettings, Side } from '../side.ts'

/** Callers that each wait for their answer before they ask again. */
export interface ClosedLoop extends LoadSettings {
  readonly side: Side
  /** Rows per request. */
  readonly rows?: number
  /** Callers ask for 1 to so many rows instead. */
  readonly mixedRows?: number
  readonly concurrency: number
  readonly warmupSeconds: number
  readonly seconds: number
}

/** What the callers saw. */
export interface ClosedLoopResult {
  readonly rowsPerSecond: number
  /** What the process computed for a row, all its threads together; left out where that is not told. */
  readonly cpuUsPerRow?: number
  readonly meanBatchRows: number
  /** What the process has when all is answered; left out where that is not told. */
  readonly pssBytes?: number
  /** Of the callers' event loop. */
  readonly loopDelay: LoopDelay
}

const {
  side,
  concurrency,
  rows: each = 1,
  mixedRows,
  warmupSeconds,
  seconds,
  ...settings
} = input<ClosedLoop>()
const server = await openServer(side)
const loaded = await server.load(settings)
let doneRows = 0
let stopped = false
let onAnswer: (() => void) | null = null

const callers = Array.from({ length: concurrency }, async (_, caller) => {
  const rows = mixedRows === undefined ? each : 1 + (caller % mixedRows)
  const feeds = feedsFor(settings.model, caller, rows)
  while (!stopped) {
    await loaded.infer(feeds)
    doneRows += rows
    onAnswer?.()
  }
})

/**
 * The rows done when the next answers have come. Measured from one such moment to another, a slow model's whole batches
 * are counted over the time that they took; a window that ends anywhere would cut one.
 */
function nextAnswers(): Promise<{ rows: number; atMs: number; cpu: NodeJS.CpuUsage }> {
  return new Promise((resolve) => {
    onAnswer = () => {
      onAnswer = null
      // The other callers of the same batch have their answers before this.
      setImmediate(() => resolve({ rows: doneRows, atMs: performance.now(), cpu: process.cpuUsage() }))
    }
  })
}

await sleep(warmupSeconds * 1000)
const first = await nextAnswers()
const probe = new LoopDelayProbe()
probe.start()
await sleep(seconds * 1000)
const last = await nextAnswers()
const loopDelay = await probe.stop()
stopped = true
await Promise.all(callers)
const result: ClosedLoopResult = {
  rowsPerSecond: ((last.rows - first.rows) / (last.atMs - first.atMs)) * 1000,
  cpuUsPerRow:
    (last.cpu.user + last.cpu.system - first.cpu.user - first.cpu.system) / (last.rows - first.rows),
  meanBatchRows: loaded.meanBatchRows(),
  pssBytes: pssBytes(process.pid),
  loopDelay,
}
await server.close()
answer(result)
