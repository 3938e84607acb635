import { describe, expect, it } from 'vitest'
import { Tensor, type BatchReport, type Model } from '../../src/index.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { load, ownEngine } from '../support/open.ts'
import { repetitions } from '../support/full.ts'

const preferred = 4
const max = 8
const callers = 64
const batches = repetitions(10_000, 1000)

interface Run {
  readonly report: BatchReport
  readonly requestRows: number[]
}

/** Callers that ask again as soon as they are answered, with requests of 1 to 8 rows, until so many batches have run. */
async function overload(model: Model, batches: number): Promise<Run[]> {
  const random = mulberry32(4)
  const runs = new Map<number, Run>()
  const caller = async () => {
    while (runs.size < batches) {
      const rows = random() < 0.8 ? 1 + Math.floor(random() * 3) : 1 + Math.floor(random() * max)
      const { report } = await model.infer(
        { x: new Tensor('float32', new Float32Array(rows * 4), [rows, 4]) },
        { report: true },
      )
      const run = runs.get(report.batchId) ?? { report, requestRows: [] }
      run.requestRows.push(rows)
      runs.set(report.batchId, run)
    }
  }
  await Promise.all(Array.from({ length: callers }, caller))
  return [...runs.values()]
}

describe('sustained overload, preferred size 4 of at most 8, requests of 1 to 8 rows', () => {
  for (const maxQueueDelayMs of [0, 1]) {
    it(
      `forms no batch above 4 rows in ${batches} but of a single larger request, with a delay of ${maxQueueDelayMs} ms`,
      { timeout: 60_000 },
      async () => {
        const dynamicBatching = { preferredBatchSize: preferred, maxQueueDelayMs }
        const model = await load(ownEngine(), small.identity('float32'), {
          maxBatchSize: max,
          dynamicBatching,
        })
        const runs = await overload(model, batches)
        expect(runs.length).toBeGreaterThanOrEqual(batches)
        expect(
          runs.filter(({ report, requestRows }) => report.batchSize > preferred && requestRows.length > 1),
        ).toEqual([])
        expect(runs.filter(({ report }) => report.batchSize > max)).toEqual([])
        expect(runs.filter(({ report }) => report.batchSize === preferred).length).toBeGreaterThan(
          batches / 5,
        )
      },
    )
  }
})
