import { median } from '../../base/numbers.ts'
import type { AutoTuneDecision, AutoTuneFinalTurns } from '../../observe/model-statistics.ts'

/**
 * The search for the setting with the highest throughput among a few candidates, given noisy measurements. Each
 * candidate is measured once, the better half again, and so on. The winner is then measured in turns with the setting
 * in use, and replaces it only if the gain exceeds the scatter of these turns, so that noise changes nothing.
 */

/** Number of instances, and most rows of a batch. */
export interface ThroughputSetting {
  readonly instances: number
  readonly batchRows: number
}

/** A candidate and its throughput, the median of its measurements. */
interface TriedSetting extends ThroughputSetting {
  readonly rowsPerSecond: number
}

/** Factor by which a candidate must be faster than the setting in use ... */
const leastGain = 1.03
/** ... and number of standard errors of the gain over the turns, which is rarely exceeded by chance. */
const leastErrors = 2.5
/** Number of turns between the winner and the setting in use. */
const finalTurns = 4

/**
 * The candidates: batches of one row, a quarter of the largest batch and so on, on one instance, two, four and so on.
 */
export function settingsToTry(
  maxInstances: number,
  maxBatchRows: number,
  present: ThroughputSetting,
): ThroughputSetting[] {
  const instances = new Set([present.instances, maxInstances])
  for (let count = 1; count < maxInstances; count *= 2) instances.add(count)
  const batchRows = new Set([present.batchRows, 1])
  for (let rows = maxBatchRows; rows > 1; rows = Math.floor(rows / 4)) batchRows.add(rows)
  const all = [...instances].flatMap((count) =>
    [...batchRows].map((rows) => ({ instances: count, batchRows: rows })),
  )
  // Sorted by instances, since each change of their number opens or closes some.
  return [
    present,
    ...all
      .filter((setting) => !isSame(setting, present))
      .sort((a, b) => a.instances - b.instances || b.batchRows - a.batchRows),
  ]
}

export function isSame(a: ThroughputSetting, b: ThroughputSetting): boolean {
  return a.instances === b.instances && a.batchRows === b.batchRows
}

interface Candidate extends ThroughputSetting {
  readonly rates: number[]
  excluded: boolean
}

/** One search from its first measurement to its end. */
export class ThroughputSearch {
  readonly #candidates: readonly Candidate[]
  readonly #present: Candidate
  #round: Candidate[]
  #rounds = 0
  /** The candidate measured in turns with the setting in use; only it may replace that. */
  #finalist: Candidate | null = null

  /** @param settings the first is the one in use. */
  constructor(settings: readonly ThroughputSetting[]) {
    this.#candidates = settings.map((setting) => ({ ...setting, rates: [], excluded: false }))
    this.#present = this.#candidates[0]!
    this.#round = [...this.#candidates]
  }

  /** The setting to measure next; `null` when the search is over. */
  get next(): ThroughputSetting | null {
    return this.#round[0] ?? null
  }

  /** Records the throughput of the next setting. */
  measured(rowsPerSecond: number): void {
    this.#round.shift()!.rates.push(rowsPerSecond)
    this.#advance()
  }

  /**
   * Records a throughput so low that its measurement was cut short. Smaller batches are no longer tried if larger ones
   * gave more.
   */
  tooSlow(rowsPerSecond: number): void {
    const { instances, batchRows } = this.#round[0]!
    const isLarger = (other: Candidate) => other.instances === instances && other.batchRows > batchRows
    if (
      this.#candidates.some((other) => isLarger(other) && other.rates.some((rate) => rate > rowsPerSecond))
    ) {
      this.#round = this.#round.filter(
        (other) => other.instances !== instances || other.batchRows >= batchRows || other.rates.length > 0,
      )
    }
    this.measured(rowsPerSecond)
  }

  /** Records that the next setting, and all with at least as many instances, are not available. */
  unavailable(): void {
    const { instances } = this.#round[0]!
    for (const candidate of this.#candidates)
      if (candidate.instances >= instances && candidate !== this.#present) candidate.excluded = true
    this.#round = this.#round.filter(
      (candidate) => !candidate.excluded && (candidate !== this.#present || candidate.instances < instances),
    )
    this.#advance()
  }

  /** The setting to use. */
  get best(): ThroughputSetting {
    const { instances, batchRows } = this.decision === 'changed' ? this.#finalist! : this.#present
    return { instances, batchRows }
  }

  /** The reason for it. */
  get decision(): AutoTuneDecision {
    if (this.#finalist === null) return 'no-other'
    const { finalTurns } = this
    return finalTurns === null ? 'unavailable' : decisionOf(finalTurns.gains)
  }

  /** Throughput of the winner and of the setting in use in their turns; `null` without turns. */
  get finalTurns(): AutoTuneFinalTurns | null {
    const finalist = this.#finalist
    if (finalist === null || finalist.excluded || this.#present.rates.length === 0) return null
    const [own, other] = [this.#present, finalist].map(({ rates }) => rates.slice(-finalTurns))
    // Turn by turn, so that other load of the machine affects both.
    const gains = other!.map((rate, turn) => rate / (own![turn] ?? own!.at(-1)!))
    return { instances: finalist.instances, batchRows: finalist.batchRows, gains }
  }

  /** Best first. */
  get tried(): TriedSetting[] {
    return this.#ranked().map(({ instances, batchRows, rates }) => ({
      instances,
      batchRows,
      rowsPerSecond: median(rates),
    }))
  }

  #ranked(): Candidate[] {
    return this.#candidates
      .filter(({ rates, excluded }) => rates.length > 0 && !excluded)
      .sort((a, b) => median(b.rates) - median(a.rates) || b.rates.length - a.rates.length)
  }

  #advance(): void {
    while (this.#round.length === 0 && this.#rounds < 2) {
      const ranked = this.#ranked()
      const challengers = ranked.filter((candidate) => candidate !== this.#present)
      this.#rounds++
      if (challengers.length === 0) return
      if (this.#rounds === 1)
        this.#round = ranked.length <= 3 ? [] : ranked.slice(0, Math.ceil(ranked.length / 2))
      else this.#round = thereAndBack(this.#present, (this.#finalist = challengers[0]!))
    }
  }
}

/** Alternates with as few changes of setting as possible. */
function thereAndBack<T>(one: T, other: T): T[] {
  return Array.from({ length: finalTurns }, (_, turn) =>
    turn % 2 === 0 ? [one, other] : [other, one],
  ).flat()
}

function decisionOf(gains: readonly number[]): AutoTuneDecision {
  const gain = median(gains)
  if (!(gain > 1)) return 'no-gain'
  if (gain < leastGain) return 'gain-too-small'
  return isMoreThanChance(gains) ? 'changed' : 'gain-within-noise'
}

/** Whether gains exceed 1 by more than their scatter. */
function isMoreThanChance(gains: readonly number[]): boolean {
  const mean = gains.reduce((sum, gain) => sum + gain, 0) / gains.length
  const squares = gains.reduce((sum, gain) => sum + (gain - mean) ** 2, 0)
  return gains.length > 1 && mean - 1 >= leastErrors * Math.sqrt(squares / (gains.length - 1) / gains.length)
}
