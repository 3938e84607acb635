import { describe, expect, it } from 'vitest'
import { type BatchReport, type Model, Tensor } from '../../src/index.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { repetitions } from '../support/full.ts'
import { load, ownEngine } from '../support/open.ts'

const requests = repetitions(100_000, 5000)
const inFlight = 16

/** A model with an instance on each of two workers, one of which spends most of its time on another model. */
async function unevenInstances(preserveOrdering: boolean) {
  const engine = ownEngine({ cpuWorkers: 2 })
  const instances = { instanceGroup: [{ count: 2 }] }
  const model = await load(engine, small.identity('float32'), {
    maxBatchSize: 4,
    dynamicBatching: { preserveOrdering },
    ...instances,
  })
  const heavy = await load(engine, small.matmulLoop(512, 100), { maxBatchSize: 1, weight: 3 })
  const x = new Float32Array(512)
  let stopped = false
  const occupy = async () => {
    while (!stopped) await heavy.infer({ x })
  }
  const occupying = Promise.all([occupy(), occupy(), occupy()])
  const stop = async () => {
    stopped = true
    await occupying
  }
  return { model, stop }
}

/** Sends the requests in order, so many at a time; says how many answers came before one to an earlier request. */
async function outOfOrder(model: Model): Promise<{ late: number; byInstance: Record<string, number> }> {
  const byInstance: Record<string, number> = {}
  let sent = 0
  let latest = -1
  let late = 0
  await new Promise<void>((resolve, reject) => {
    let answered = 0
    const send = (): void => {
      if (sent === requests) return
      const index = sent++
      model.infer({ x: Float32Array.of(index, 0, 0, 0) }, { report: true }).then(({ outputs, report }) => {
        if (outputs['y']!.data[0] !== index)
          reject(new Error(`request ${index} got the answer of ${outputs['y']!.data[0]}`))
        if (index < latest) late++
        latest = Math.max(latest, index)
        byInstance[report.instance] = (byInstance[report.instance] ?? 0) + 1
        if (++answered === requests) resolve()
        else send()
      }, reject)
    }
    for (let count = 0; count < inFlight; count++) send()
  })
  return { late, byInstance }
}

describe(`${requests} requests over two instances of uneven speed`, { timeout: 120_000 }, () => {
  for (const preserveOrdering of [true, false]) {
    it(`are answered ${preserveOrdering ? 'in order with' : 'partly out of order without'} preserveOrdering`, async () => {
      const { model, stop } = await unevenInstances(preserveOrdering)
      const { late, byInstance } = await outOfOrder(model)
      await stop()
      const [slow, fast] = Object.values(byInstance).sort((a, b) => a - b)
      expect(fast! / slow!).toBeGreaterThan(1.2)
      if (preserveOrdering) expect(late).toBe(0)
      else expect(late).toBeGreaterThan(requests / 500)
    })
  }
})

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
