import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine } from 'zerohop'
import { answer, input } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'

/** Two workers that run models of these files, an instance of each file on each: one file is one session, two are two. */
export interface SessionsRateInput {
  readonly model: BenchModel
  readonly paths: readonly string[]
  readonly warmupSeconds: number
  readonly seconds: number
}

const workers = 2
const callers = 16
const { model, paths, warmupSeconds, seconds } = input<SessionsRateInput>()
const engine = new InferenceEngine({ executor: 'native', cpuWorkers: workers })
const models = await Promise.all(
  paths.map((path, index) =>
    engine.load(`model-${index}`, {
      path,
      maxBatchSize: 4,
      instanceGroup: [{ kind: 'cpu', count: workers / paths.length }],
      sessionOptions: { intraOpNumThreads: 1 },
    }),
  ),
)
let stopped = false
const running = Array.from({ length: callers }, async (_, caller) => {
  const feeds = feedsFor(model, caller)
  while (!stopped) await models[caller % models.length]!.infer(feeds)
})
const rows = () => models.reduce((sum, loaded) => sum + loaded.stats().inferenceCount, 0)
await sleep(warmupSeconds * 1000)
const [before, startMs] = [rows(), performance.now()]
await sleep(seconds * 1000)
const perSecond = ((rows() - before) / (performance.now() - startMs)) * 1000
stopped = true
await Promise.all(running)
await engine.close()
answer(perSecond)
