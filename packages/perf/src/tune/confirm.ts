import type { ModelConfig } from 'zerohop'
import { configurationKey, keyOf, type Candidate, type Configuration } from './configuration.ts'
import { Contest } from './contest.ts'
import type { Goal } from './goal.ts'
import { firstWarmupMs, type ModelProcesses } from './model-processes.ts'
import type { RecordedContest } from './state-file.ts'
import type { TimeBudget } from './time-budget.ts'

/** How long one candidate is measured. */
export interface MeasuringTimes {
  readonly warmupMs: number
  readonly windowMs: number
  /** From the beginning to the end, in a process that is living. */
  readonly costMs: number
}

/** What confirming works with. */
interface ConfirmTask {
  readonly contest: RecordedContest
  readonly goal: Goal
  readonly processes: ModelProcesses
  readonly configOf: (configuration: Configuration) => ModelConfig
  readonly budget: TimeBudget
  readonly signal: AbortSignal
  /** It ends after so many rounds, whatever is left to be found out. Default: no limit. */
  readonly mostRounds?: number | undefined
  timesOf(candidate: Candidate): MeasuringTimes
  onShowing(candidate: Candidate): void
}

const leastPatienceMs = 10_000
const patience = 10

/**
 * Measures candidates in rounds until it is known who is ahead, or there is no time for another measurement. What was recorded of an
 * earlier call counts.
 */
export async function confirm(task: ConfirmTask): Promise<Contest> {
  const { contest: recorded, goal, processes, budget, signal, mostRounds = Infinity } = task
  const candidates = new Map(recorded.candidates.map((candidate) => [keyOf(candidate), candidate]))
  const keys = [...candidates.keys()]
  const contest = new Contest(keys, goal, keys[0])
  for (const { key, measurement, affordable } of recorded.showings)
    contest.record(key, measurement, affordable)
  for (
    let key = contest.next();
    key !== null && contest.round < mostRounds && !signal.aborted;
    key = contest.next()
  ) {
    const candidate = candidates.get(key)!
    const { warmupMs, windowMs, costMs } = task.timesOf(candidate)
    const process = configurationKey(candidate.configuration)
    const wholeMs = costMs + (processes.isLiving(process) ? 0 : processes.startMs + firstWarmupMs)
    if (wholeMs > budget.leftMs) break
    const limitMs = Math.min(budget.leftMs, Math.max(leastPatienceMs, patience * wholeMs))
    // A process of its own, whose memory is that of this configuration alone.
    const config = { ...task.configOf(candidate.configuration), checkRows: false }
    const word = await processes.measure({
      process,
      model: 'model',
      config,
      load: candidate.load,
      warmupMs,
      windowMs,
      limitMs,
    })
    // What had no time left, or was ended by the user, has not failed.
    if (signal.aborted || (word.type === 'failed' && budget.leftMs === 0)) break
    const measurement = word.type === 'measured' ? word.measurement : null
    const failure = word.type === 'failed' ? word.message : word.failure
    const meanMs =
      contest.left.reduce((sum, each) => sum + task.timesOf(candidates.get(each)!).costMs, 0) /
      contest.left.length
    const affordable = Math.floor(budget.leftMs / meanMs)
    recorded.showings.push({ key, measurement, failure, affordable })
    contest.record(key, measurement, affordable)
    task.onShowing(candidate)
    await processes.keepOnly(
      contest.left.map((each) => configurationKey(candidates.get(each)!.configuration)),
    )
  }
  return contest
}
