import { isOver, issueQuery, type ScenarioRun } from './scenario-run.ts'

/** Sent without a turn of the event loop between them, when several are due: more would keep answers from coming. */
const mostPerTurn = 16

/** Queries waiting for their answers, beyond which a run ends: memory has an end, and such a run keeps no bound. */
const mostOutstanding = 200_000

/** `server`: queries are sent when they are due, whatever became of those before; settles when all have ended. */
export function issueOnSchedule(run: ScenarioRun, schedule: Iterator<number, void>): Promise<void> {
  const { settings, order, clock, pacer, record, startMs, isHopeless } = run
  const sample = new Uint32Array(1)
  let next = schedule.next()
  return new Promise((resolve) => {
    const resolveWhenEnded = () => {
      if (next.done && record.outstanding === 0) resolve()
    }
    const isEnded = () => {
      if (isOver(run)) return true
      if (record.outstanding > Math.min(settings.maxAsyncQueries || Infinity, mostOutstanding)) return true
      return isHopeless?.(record, clock.nowMs() - startMs) === true
    }
    const sendDue = () => {
      for (let sent = 0; !next.done; sent++) {
        const dueMs = startMs + next.value
        if (dueMs > clock.nowMs()) return pacer.wakeAt(dueMs, sendDue)
        if (sent === mostPerTurn) return clock.nextTurn(sendDue)
        order.next(sample)
        void issueQuery(run, sample, next.value).then(resolveWhenEnded)
        next = isEnded() ? { done: true, value: undefined } : schedule.next()
      }
      resolveWhenEnded()
    }
    sendDue()
  })
}
