import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine, Tensor, type ModelOptions } from 'zerohop'
import { answer, input } from '../child.ts'
import { anonymousBytes } from '../memory.ts'
import type { BenchModel } from '../models.ts'
import { median } from '../statistics.ts'

/** One large batch among small ones. */
export interface KeptMemoryInput {
  readonly model: BenchModel
  readonly memory: ModelOptions['memory']
  readonly rows: number
  readonly runs: number
}

export interface KeptMemoryResult {
  /** More than after runs of one row, once all has gone back that goes back by itself. */
  readonly keptBytes: number
  /** Of a run of all rows. */
  readonly runMs: number
}

/** What is not needed any more goes back two seconds after the last batch that needed it. */
const restMs = 4000

const { model: { path, input: name, rowDims }, memory, rows, runs } = input<KeptMemoryInput>() // prettier-ignore
const engine = new InferenceEngine()
const model = await engine.load('model', {
  path,
  maxBatchSize: rows,
  ...(memory === undefined ? {} : { memory }),
})

/** So that no batch of the loop is left in the memory that is looked at. */
async function ask(rows: number): Promise<number> {
  const elements = rowDims.reduce((product, dim) => product * dim, rows)
  const feeds = { [name]: new Tensor('float32', new Float32Array(elements).fill(0.5), [rows, ...rowDims]) }
  const startMs = performance.now()
  await model.infer(feeds)
  return performance.now() - startMs
}

async function settledBytes(): Promise<number> {
  await sleep(restMs)
  globalThis.gc!()
  return anonymousBytes()
}

await ask(1)
await ask(1)
const before = await settledBytes()
const times = []
for (let count = 0; count < runs; count++) times.push(await ask(rows))
await ask(1)
answer({ keptBytes: (await settledBytes()) - before, runMs: median(times) } satisfies KeptMemoryResult)
await engine.close()
