import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine } from 'zerohop'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'

/** Callers that ask again as soon as they are answered, of an engine that traces or does not. */
export interface TracingInput {
  readonly model: BenchModel
  /** Each how-manieth request is traced; 0 for none. */
  readonly rate: number
  readonly callers: number
  readonly seconds: number
}

export interface TracingResult {
  readonly requestsPerSecond: number
  readonly traces: number
  /** Of the traces those that had no room, or could not be written. */
  readonly lost: number
}

const { model, rate, callers, seconds } = input<TracingInput>()
const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
const engine = new InferenceEngine(
  rate === 0 ? {} : { trace: { file: join(folder, 'trace.json'), rate, logFrequency: 100_000 } },
)
const loaded = await engine.load('model', { path: model.path })
let done = 0
let stopped = false
const asking = Array.from({ length: callers }, async (_, caller) => {
  const feeds = feedsFor(model, caller)
  while (!stopped) {
    await loaded.infer(feeds)
    done++
  }
})
await sleep(seconds * 250)
const [before, startMs] = [done, performance.now()]
await sleep(seconds * 1000)
const requestsPerSecond = ((done - before) / (performance.now() - startMs)) * 1000
stopped = true
await Promise.all(asking)
await engine.close()
const { begun, dropped, failed } = engine.trace.stats()
rmSync(folder, { recursive: true })
answer({ requestsPerSecond, traces: begun, lost: dropped + failed } satisfies TracingResult)
