import { describe, expect, it } from 'vitest'
import type { ModelConfig } from '../../src/index.ts'
import type {
  ObservedBatch,
  ObservedModel,
  RequestFacts,
  RequestObservation,
  RequestObserver,
} from '../../src/observe/request-observer.ts'
import { fate, fates, House, Served, settled } from '../workers/serving.ts'

/** Writes down what it is told, requests by the order in which they came. */
class Recorder implements RequestObserver {
  readonly told: string[] = []
  #count = 0

  begun(_model: ObservedModel, { rows, options: { priority } }: RequestFacts): RequestObservation {
    const name = `request ${++this.#count}`
    this.told.push(`${name}: ${rows} rows${priority === undefined ? '' : `, priority ${priority}`}`)
    return {
      child: () => null,
      ran: ({ batch, position, part, isLast, begunAtMs, queuedAtMs }) =>
        void this.told.push(
          `${name} ran in ${batch.id} at ${position} after ${begunAtMs - queuedAtMs} ms${part === null ? '' : `, part ${part}`}${batch.error === null ? '' : `: ${batch.error}`}${isLast ? '' : ', and goes on'}`,
        ),
      shared: () => {},
      passed: () => {},
      ended: (succeeded, reason) =>
        void this.told.push(
          `${name} ${succeeded ? 'succeeded' : `failed: ${(reason as { code?: string } | undefined)?.code}`}`,
        ),
    }
  }

  batchBegan({ id, rows, reason, isRerun }: ObservedBatch): void {
    this.told.push(`batch ${id} began: ${rows} rows, ${reason}${isRerun ? ', again' : ''}`)
  }

  batchEnded({ id, error, moments, instance, worker, model }: ObservedBatch): void {
    const way = moments === null ? error : `${moments.startMs}-${moments.inferEndMs}`
    this.told.push(`batch ${id} of ${model.name} ended on ${instance} of ${worker}: ${way}`)
  }
}

async function served(config: Omit<ModelConfig, 'path'> = {}) {
  const house = await House.open(1)
  const [place] = house.places
  const model = await Served.on(house, 'a', house.places, config)
  const recorder = new Recorder()
  model.observers.add(recorder)
  return { house, model, recorder, current: () => place!.threads.current }
}

describe('who looks on at a model', () => {
  it('is told of requests, the batch that they share, and their ends, in that order', async () => {
    const { model, recorder, house, current } = await served()
    const sent = [model.send(1), model.send(2, { rows: 2, priority: 1 })]
    house.clock.advanceBy(3)
    await settled()
    current().claim()
    house.clock.advanceBy(5)
    current().finish()
    expect(await fates(sent)).toEqual([2, 4])
    expect(recorder.told).toEqual([
      'request 1: 1 rows', 'request 2: 2 rows, priority 1', 'batch 1 began: 3 rows, idle',
      'request 1 ran in 1 at 0 after 3 ms', 'request 2 ran in 1 at 1 after 3 ms', 'batch 1 of a ended on a_0 of cpu_0: 1003-1003',
      'request 1 succeeded', 'request 2 succeeded',
    ]) // prettier-ignore
  })

  it('is told of runs that fail, and of the runs of their halves', async () => {
    const { model, recorder, current } = await served()
    const sent = [model.send(1), model.send(2)]
    await settled()
    current().finish('no')
    await settled()
    current().finish('no')
    await settled()
    current().finish()
    expect(await fates(sent)).toEqual(['ERR_EXECUTION', 4])
    expect(recorder.told.slice(2)).toEqual([
      'batch 1 began: 2 rows, idle', 'request 1 ran in 1 at 0 after 0 ms: no', 'request 2 ran in 1 at 1 after 0 ms: no', 'batch 1 of a ended on a_0 of cpu_0: no',
      'batch 2 began: 1 rows, idle, again', 'batch 3 began: 1 rows, idle, again', 'request 1 ran in 2 at 0 after 0 ms: no',
      'batch 2 of a ended on a_0 of cpu_0: no', 'request 1 failed: ERR_EXECUTION', 'request 2 ran in 3 at 0 after 0 ms', 'batch 3 of a ended on a_0 of cpu_0: 1000-1000', 'request 2 succeeded',
    ]) // prettier-ignore
  })

  it('is told of a batch that waits behind another once that has ended, and not of a request that was withdrawn meanwhile', async () => {
    const { model, recorder, current } = await served({ maxBatchSize: 1 })
    const withdrawal = new AbortController()
    const sent = [model.send(1), model.send(2, { signal: withdrawal.signal })]
    await settled()
    withdrawal.abort()
    current().finish()
    await settled()
    expect(await fate(sent[0]!)).toBe(2)
    expect(recorder.told).toEqual([
      'request 1: 1 rows', 'batch 1 began: 1 rows, full', 'request 2: 1 rows', 'request 2 failed: undefined', 'request 1 ran in 1 at 0 after 0 ms', 'batch 1 of a ended on a_0 of cpu_0: 1000-1000', 'request 1 succeeded',
    ]) // prettier-ignore
  })

  it('is told of each part of a request that is split, and of its end once', async () => {
    const { model, recorder, current } = await served({ maxBatchSize: 2 })
    const sent = model.send(1, { rows: 3 })
    for (let run = 0; run < 2; run++) {
      await settled()
      current().finish()
    }
    expect(await fate(sent)).toBe(2)
    expect(recorder.told.filter((text) => text.startsWith('request'))).toEqual([
      'request 1: 3 rows', 'request 1 ran in 1 at 0 after 0 ms, part 0, and goes on', 'request 1 ran in 2 at 0 after 0 ms, part 1, and goes on', 'request 1 succeeded',
    ]) // prettier-ignore
  })

  it('is told of what is refused, and that answers wait for their turn', async () => {
    const { model, recorder, current } = await served({
      dynamicBatching: { preserveOrdering: true, defaultQueuePolicy: { maxQueueSize: 1 } },
    })
    const sent = [model.send(1), model.send(2)]
    await settled()
    current().finish()
    expect(await fates(sent)).toEqual([2, 'ERR_QUEUE_FULL'])
    expect(recorder.told.filter((text) => text.startsWith('request'))).toEqual([
      'request 1: 1 rows', 'request 2: 1 rows', 'request 2 failed: ERR_QUEUE_FULL', 'request 1 ran in 1 at 0 after 0 ms, and goes on', 'request 1 succeeded',
    ]) // prettier-ignore
  })

  it('is told of nothing more once it looks on no more, but of the ends of what it saw begin', async () => {
    const { model, recorder, current } = await served()
    const other = new Recorder()
    model.observers.add(other)
    const before = model.send(1)
    model.observers.remove(recorder)
    const after = model.send(2)
    await settled()
    current().finish()
    expect(await fates([before, after])).toEqual([2, 4])
    expect(recorder.told).toEqual([
      'request 1: 1 rows',
      'request 1 ran in 1 at 0 after 0 ms',
      'request 1 succeeded',
    ])
    expect(other.told).toHaveLength(8)
    model.observers.remove(other)
    expect(model.observers.observer).toBeNull()
  })
})
