import type { BatchReport, InferOptions, Outputs, ReportedOutputs } from '../../src/index.ts'
import type { Call, Rule } from './rules.ts'

/** What came of the calls of a rule. */
export interface Played {
  readonly batches: string[]
  readonly rejected: Record<string, string>
  /** Sums that are not what they have to be. */
  readonly wrong: string[]
}

/** What a request of a sequence is sent with, and what keeps time. */
export interface Stage {
  readonly tickMs: number
  infer(x: number, options: InferOptions): Promise<ReportedOutputs<Outputs>>
  /** Lets time pass up to a tick from the beginning. */
  reach(tick: number): Promise<void>
}

/** Makes the calls of a rule at their times, and waits until all are settled. */
export async function play({ calls }: Rule, { tickMs, infer, reach }: Stage): Promise<Played> {
  const reports = new Map<number, { report: BatchReport; names: string[] }>()
  const rejected: Record<string, string> = {}
  const wrong: string[] = []
  const sums = new Map<string, number>()
  const ends: Promise<void>[] = []
  const send = ({ name, start, end, timeout, cancelled, sum }: Call): void => {
    const [letter, number] = [name[0]!, Number(name.slice(1))]
    const expected = sum ?? (start === true ? 0 : (sums.get(letter) ?? 0)) + number
    if (cancelled !== true) sums.set(letter, expected)
    const aborts = new AbortController()
    const options: InferOptions = {
      sequenceId: letter.charCodeAt(0),
      ...(start === true && { sequenceStart: true }),
      ...(end === true && { sequenceEnd: true }),
      ...(timeout !== undefined && { timeoutMs: timeout * tickMs }),
      signal: aborts.signal,
    }
    const answered = ({ outputs, report }: ReportedOutputs<Outputs>) => {
      const batch = reports.get(report.batchId) ?? {
        report,
        names: Array.from({ length: report.batchSize }, () => '-'),
      }
      batch.names[report.position] = name
      reports.set(report.batchId, batch)
      const got = (outputs['sum']!.data as Float32Array)[0]!
      const told = Number((outputs['id']!.data as BigUint64Array)[0])
      if (got !== expected || told !== letter.charCodeAt(0))
        wrong.push(`${name}: ${got} for ${expected}, id ${told}`)
      if ('state' in outputs) wrong.push(`${name} has a state`)
    }
    ends.push(
      infer(number, options).then(
        answered,
        (error: { code?: unknown }) =>
          void (rejected[name] = typeof error.code === 'string' ? error.code : 'aborted'),
      ),
    )
    if (cancelled === true) aborts.abort()
  }
  for (const tick of [...new Set(calls.map(({ at = 0 }) => at))].sort((a, b) => a - b)) {
    await reach(tick)
    for (const call of calls) if ((call.at ?? 0) === tick) send(call)
  }
  let settled = false
  const all = Promise.all(ends).then(() => (settled = true))
  for (let tick = Math.max(...calls.map(({ at = 0 }) => at)) + 1; !settled && tick < 100; tick++)
    await reach(tick)
  await all
  const inOrder = [...reports.values()].sort((a, b) => a.report.batchId - b.report.batchId)
  return { batches: inOrder.map(({ names }) => names.join(' ')), rejected, wrong }
}
