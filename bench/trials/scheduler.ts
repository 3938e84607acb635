import { run } from '../child.ts'
import { batchSize, type QueueCase } from '../programs/queue-loads.ts'
import type { SchedulerInput, SchedulerResult } from '../programs/scheduler.ts'
import { shown } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const nearlyEmpty: QueueCase = {
  queued: batchSize,
  buckets: 1,
  priorityLevels: 0,
  timeouts: false,
  models: 1,
}
const nearlyEmptyName = 'nearly empty'
const timeoutsName = 'nearly empty, with timeouts'
const largest = 3

function cases(queued: number): Record<string, QueueCase> {
  const long = { ...nearlyEmpty, queued }
  return {
    [nearlyEmptyName]: nearlyEmpty,
    [timeoutsName]: { ...nearlyEmpty, timeouts: true },
    'many requests': long,
    '1000 buckets': { ...long, buckets: 1000 },
    'with timeouts': { ...long, timeouts: true },
    '8 priority levels': { ...long, priorityLevels: 8 },
    '100 models': { ...nearlyEmpty, queued: 100 * batchSize, models: 100 },
    '100 models, many requests': { ...long, models: 100 },
  }
}

/** The queue by itself: what waits must not make a request dearer. */
export const scheduler: Trial = {
  describe: 'ns per request of the queue alone, 100 000 waiting in several ways, against a nearly empty one',
  seconds: 2,
  async run({ seconds, rounds, smoke }) {
    const queued = smoke ? 10_000 : 100_000
    const found = Object.entries(cases(queued)).map(([name, queueCase]) => ({
      name,
      queueCase,
      results: [] as SchedulerResult[],
    }))
    for (let count = 0; count < rounds; count++) {
      for (const { queueCase, results } of found) {
        results.push(
          await run<SchedulerResult>('programs/scheduler.ts', {
            ...queueCase,
            seconds,
          } satisfies SchedulerInput),
        )
      }
    }
    const middle = (results: readonly SchedulerResult[], key: keyof SchedulerResult) =>
      median(results.map((result) => result[key]))
    const rows = found.map(({ name, queueCase, results }) => {
      // What waits is to cost nothing, whatever a timeout costs by itself.
      const base = found.find((other) => other.name === (queueCase.timeouts ? timeoutsName : nearlyEmptyName))
      const [enqueueNs, dispatchNs] = [middle(results, 'enqueueNs'), middle(results, 'dispatchNs')]
      return {
        queue: name,
        queued: queueCase.queued,
        'enqueue ns': round(enqueueNs, 0),
        'dispatch ns': round(dispatchNs, 0),
        'enqueue, times': round(enqueueNs / middle(base!.results, 'enqueueNs')),
        'dispatch, times': round(dispatchNs / middle(base!.results, 'dispatchNs')),
        'GC ns': round(middle(results, 'gcNs'), 0),
        'longest dispatch ms': round(middle(results, 'longestDispatchMs')),
      }
    })
    const total = (row: (typeof rows)[number]) => row['enqueue ns'] + row['dispatch ns']
    const ns = (name: string) => `${shown(total(rows.find(({ queue }) => queue === name)!))} ns`
    const worst = rows.reduce((a, b) => (total(b) > total(a) ? b : a))
    return {
      ours: total(worst),
      plain: total(rows[0]!),
      unit: `ns per request, enqueued and dispatched: '${worst.queue}' against '${nearlyEmptyName}'`,
      ratio: round(total(worst) / total(rows[0]!)),
      numbers: [
        {
          question: `${shown(queued)} requests waiting in one queue: what one more costs to queue and to send; with ${batchSize} waiting`,
          plain: ns(nearlyEmptyName),
          zerohop: ns('many requests'),
          note: '',
        },
        {
          question: 'the same in 1000 shapes, or in the queues of 100 models',
          plain: ns(nearlyEmptyName),
          zerohop: `${ns('1000 buckets')}, ${ns('100 models, many requests')}`,
          note: 'compare with the requests of one queue',
        },
      ],
      targets: rows
        .slice(2)
        .flatMap((row) => [
          atMost(largest, `${row.queue}: enqueue, to nearly empty`, row['enqueue, times']),
          atMost(largest, `${row.queue}: dispatch, to nearly empty`, row['dispatch, times']),
        ]),
      rows,
      settings: { batchSize, cases: cases(queued) },
      details: found,
    }
  },
}
