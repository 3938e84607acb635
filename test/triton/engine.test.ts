import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import { type BatchReport, InferenceEngine, type InferOptions, type Model, Tensor } from '../../src/index.ts'
import { perPosition } from '../models/lengths.ts'
import { full } from '../support/full.ts'
import { load, ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { Replay } from './replay.ts'
import { type Arrival, type Rule, rules, ticked } from './rules.ts'

/** Long beside what a busy machine holds a timer up by: only the order of events matters here. */
const tickMs = 40
/** The occupant stays this much longer than a rule says; what happens meanwhile is the same. */
const spareTicks = 2

const path = perPosition(64)
const input = (rows: number, length: number) =>
  new Tensor('float32', new Float32Array(rows * length * 64), [rows, length, 64])
const options = { instanceGroup: [{ count: 1 }], sessionOptions: { intraOpNumThreads: 1 } }
let msPerPosition = 0

beforeAll(async () => {
  const engine = new InferenceEngine()
  const model = await engine.load('pace', { path, maxBatchSize: 1, ...options })
  await model.infer({ x: input(1, 1000) })
  const runs = await Promise.all([1, 2, 3].map(() => model.infer({ x: input(1, 1000) }, { report: true })))
  msPerPosition = Math.min(...runs.map(({ report }) => report.computeMs)) / 1000
  await engine.close()
})

/** The names in each batch, in the order of the runs, and the codes of those rejected. */
async function play(model: Model, { arrivals, busyUntil = 0 }: Rule) {
  const occupant =
    busyUntil === 0
      ? null
      : model.infer(
          { x: input(1, Math.ceil(((busyUntil + spareTicks) * tickMs) / msPerPosition)) },
          { priority: 1 },
        )
  await until(() => model.stats().pendingRequestCount === 0)
  const startMs = performance.now()
  const batches = new Map<number, BatchReport & { names: string[] }>()
  const rejected: Record<string, string> = {}
  const answers: Promise<void>[] = []
  for (const time of [...new Set(arrivals.map(({ at = 0 }) => at))].sort((a, b) => a - b)) {
    const waitMs = startMs + time * tickMs - performance.now()
    if (waitMs > 0) await sleep(waitMs)
    for (const arrival of arrivals) if ((arrival.at ?? 0) === time) answers.push(send(arrival))
  }
  async function send({
    name,
    rows = 1,
    shape = 1,
    priority,
    timeout,
    cancelAt,
    at = 0,
  }: Arrival): Promise<void> {
    const each: InferOptions = {
      ...(priority !== undefined && { priority }),
      ...(timeout !== undefined && { timeoutMs: timeout * tickMs }),
      ...(cancelAt !== undefined && { signal: AbortSignal.timeout((cancelAt - at) * tickMs) }),
    }
    try {
      const { report } = await model.infer({ x: input(rows, shape) }, { ...each, report: true })
      const batch = batches.get(report.batchId) ?? { ...report, names: [] }
      batch.names[report.position] = name
      batches.set(report.batchId, batch)
    } catch (error) {
      rejected[name] =
        (error as { code?: unknown }).code === 23 ? 'aborted' : String((error as { code?: unknown }).code)
    }
  }
  await Promise.all(answers)
  await occupant
  const inOrder = [...batches.values()].sort((a, b) => a.batchId - b.batchId)
  return { batches: inOrder.map(({ names }) => names.join('')), rejected }
}

describe("the rules of Triton's dynamic batcher, on an engine with a slow model", () => {
  // All are played on the fake clock below, by the same queue; these take real time.
  for (const rule of rules.filter((_, index) => full || index % 6 === 0)) {
    it(`${rule.section}: ${rule.rule}`, { retry: 2, timeout: 20_000 }, async () => {
      const model = await load(ownEngine(), path, {
        maxBatchSize: rule.max ?? 8,
        dynamicBatching: ticked(rule.batching ?? {}, tickMs),
        ...options,
      })
      expect(await play(model, rule)).toEqual({ batches: rule.batches, rejected: rule.rejected ?? {} })
    })
  }
})

describe("the rules of Triton's dynamic batcher, on the fake clock", () => {
  for (const rule of rules) {
    it(`${rule.section}: ${rule.rule}`, () => {
      expect(new Replay(rule).run()).toEqual({
        batches: rule.batches,
        waits: rule.waits,
        rejected: rule.rejected ?? {},
      })
    })
  }
})
