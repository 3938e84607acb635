import { describe, expect, it } from 'vitest'
import type { Model } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { load, ownEngine } from '../support/open.ts'
import { repetitions } from '../support/full.ts'

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
  const heavy = await load(engine, small.matmulSlow(512, 100), { maxBatchSize: 1, weight: 3 })
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
      else expect(late).toBeGreaterThan(100)
    })
  }
})
