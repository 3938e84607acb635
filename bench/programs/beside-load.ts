import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine, type Model } from 'zerohop'
import { answer, input, run } from '../child.ts'
import type { BenchModel } from '../models.ts'
import { feedsFor } from '../server.ts'
import { percentile } from '../statistics.ts'

/** Requests to a model while another one is loaded for the first time, and while that one's rows are checked. */
export interface BesideLoadInput {
  /** The model that gets the requests. `null`: the model whose rows are checked. */
  readonly served: BenchModel | null
  readonly callers: number
  /** Between an answer and the caller's next request. */
  readonly pauseMs: number
  /** What is loaded and compiled. */
  readonly loaded: BenchModel
  /** A model of whose rows nothing can be proved. */
  readonly checked: BenchModel
  /** How often `loaded` is loaded. Its compiled form is deleted after each load, so each is a first load. */
  readonly loads: number
  readonly quietSeconds: number
}

/** What the callers saw. */
export interface Requests {
  readonly requests: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  /** How long that was. */
  readonly tookMs: number
}

export interface BesideLoadResult {
  /** By what was done meanwhile: `quiet` for nothing. */
  readonly times: Readonly<Record<string, Requests>>
  /** A run of the largest batch that the check tries. */
  readonly largestMs: number
}

const { served, callers, pauseMs, loaded, checked, loads, quietSeconds } = input<BesideLoadInput>()
/** Rows of each run: the number and sizes of the runs that a check of rows makes. */
const runs = Array.from({ length: 66 }, (_, at) => (at < 29 ? 1 : at % 2 === 0 ? 5 : 6))

const dir = mkdtempSync(join(tmpdir(), 'zerohop-'))
const engine = new InferenceEngine({ cache: { dir }, verify: 'child' })
const times: Record<string, Requests> = {}

/** Runs `work` while callers send requests to a model. */
async function asking(time: string, model: Model, of: BenchModel, work: () => Promise<unknown>) {
  const timesMs: number[] = []
  let going = true
  const caller = async (_: unknown, number: number) => {
    const feeds = feedsFor(of, number)
    while (going) {
      const startMs = performance.now()
      await model.infer(feeds)
      timesMs.push(performance.now() - startMs)
      if (pauseMs > 0) await sleep(pauseMs)
    }
  }
  const startMs = performance.now()
  const all = Promise.all(Array.from({ length: callers }, caller))
  await work()
  const tookMs = performance.now() - startMs
  going = false
  await all
  const at = (q: number) => percentile(timesMs, q)
  times[time] = { requests: timesMs.length, p50Ms: at(0.5), p99Ms: at(0.99), maxMs: at(1), tookMs }
}

async function loadsForTheFirstTime(): Promise<void> {
  for (let time = 0; time < loads; time++) {
    await engine.load('loaded', { path: loaded.path })
    await engine.unload('loaded')
    rmSync(dir, { recursive: true })
  }
}

const quiet = () => sleep(quietSeconds * 1000)
const loadChecked = () => engine.load('checked', { path: checked.path })
const plain = (model: BenchModel, times: number, runs: readonly number[]) => () =>
  run('programs/plain-beside.mjs', { model, times, runs })

async function besideAnother(of: BenchModel): Promise<Model> {
  const model = await engine.load('served', { path: of.path })
  const during = (time: string, work: () => Promise<unknown>) => asking(time, model, of, work)
  await during('quiet', quiet) // what the first requests set up
  await during('quiet', quiet)
  await during('a first load', loadsForTheFirstTime)
  await during('a process that opens', plain(loaded, loads, []))
  const other = await loadChecked()
  await during('a check of rows', () => other.joiningKnown())
  await during('a process that runs', plain(checked, 0, runs))
  await during('afterwards', quiet)
  return other
}

async function besideItself(): Promise<Model> {
  const model = await loadChecked()
  await asking('a check of rows', model, checked, () => model.joiningKnown())
  await asking('quiet', model, checked, quiet)
  return model
}

const model = await (served === null ? besideItself() : besideAnother(served))
const largest = feedsFor(checked, 0, model.metadata.maxBatchSize)
const startMs = performance.now()
await model.infer(largest)
answer({ times, largestMs: performance.now() - startMs } satisfies BesideLoadResult)
await engine.close()
rmSync(dir, { recursive: true, force: true })
