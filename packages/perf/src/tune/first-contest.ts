import { configurationKey, keyOf, type Candidate, type Configuration, type Load } from './configuration.ts'
import type { Goal } from './goal.ts'
import type { MeasuringPlan } from './measuring-plan.ts'
import { finalistsOf, type Prospect } from './prune.ts'
import { saturating } from './search-space.ts'
import type { RecordedContest } from './state-file.ts'

/** What the first contest is made of. */
interface FirstContestTask {
  /** The best first. */
  readonly prospects: readonly Prospect[]
  readonly goal: Goal
  readonly plan: MeasuringPlan
  /** What the model has by default. */
  readonly reference: Configuration
  /** The load, where it was given. */
  readonly load: Load | null
  readonly rowsPerRequest: number
}

/** The default, which is measured first, and the best prospects, as far as there is time for them. */
export function firstContest({
  prospects,
  goal,
  plan,
  reference,
  load,
  rowsPerRequest,
}: FirstContestTask): RecordedContest {
  const its = configurationKey(reference)
  const asProspect = prospects.find(({ candidate }) => configurationKey(candidate.configuration) === its)
  const [best] = prospects
  // Under a bound on latency what keeps all busy is more than what keeps the bound.
  const otherwise =
    goal.p99Ms !== undefined && best !== undefined
      ? best.candidate.load
      : { concurrency: saturating(reference, rowsPerRequest) }
  const ofDefault: Candidate = asProspect?.candidate ?? { configuration: reference, load: load ?? otherwise }
  const finalists = finalistsOf(prospects, goal, plan.affordableMs, ({ candidate }) =>
    plan.roundCostMs(candidate),
  ).map(({ candidate }) => candidate)
  return {
    candidates: [ofDefault, ...finalists.filter((candidate) => keyOf(candidate) !== keyOf(ofDefault))],
    showings: [],
  }
}
