import { median } from '../../base/median.ts'
import type { AutoTuneDecision, AutoTuneFinalTurns } from '../../observe/model-statistics.ts'

/**
 * The search for the settings that give most rows a second, among a few, where a single measurement is worth little: each is
 * measured once, the better half again, and the winner against what is in use in turns. It takes
 * its place only if it is better by more than these turns differ, so that noise moves nothing.
 */

/** How many instances, and how many rows a batch may have. */
export interface ThroughputSetting {
  readonly instances: number
  readonly batchRows: number
}

/** A setting and what it gave, the median of its measurements. */
export interface TriedSetting extends ThroughputSetting {
  readonly rowsPerSecond: number
}

/** By how much another setting has to be better than the one in use ... */
const leastGain = 1.03
/** ... and by how many standard errors of what the turns say: few are so by chance. */
const leastErrors = 2.5
/** How often the winner and what is in use are measured in turns. */
const finalTurns = 4

/** Settings worth a try: one row, a quarter of the largest batch and so on, on one instance, two, four and so on. */
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
  // Neighbours in instances follow each other: each change of their number opens or closes some.
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
  /** Who is measured in turns with what is in use: nobody else may take its place. */
  #finalist: Candidate | null = null

  /** @param settings the first is the one in use. */
  constructor(settings: readonly ThroughputSetting[]) {
    this.#candidates = settings.map((setting) => ({ ...setting, rates: [], excluded: false }))
    this.#present = this.#candidates[0]!
    this.#round = [...this.#candidates]
  }

  /** What is to be measured next; `null` when it is over. */
  get next(): ThroughputSetting | null {
    return this.#round[0] ?? null
  }

  /** What the next setting gave. */
  measured(rowsPerSecond: number): void {
    this.#round.shift()!.rates.push(rowsPerSecond)
    this.#advance()
  }

  /** The next setting gave so little that it was not measured for long: no batches are tried that are even smaller, where larger ones gave more. */
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

  /** The next setting cannot be had, and neither can any with as many instances or more. */
  unavailable(): void {
    const { instances } = this.#round[0]!
    for (const candidate of this.#candidates)
      if (candidate.instances >= instances && candidate !== this.#present) candidate.excluded = true
    this.#round = this.#round.filter(
      (candidate) => !candidate.excluded && (candidate !== this.#present || candidate.instances < instances),
    )
    this.#advance()
  }

  /** The setting to keep. */
  get best(): ThroughputSetting {
    const { instances, batchRows } = this.decision === 'changed' ? this.#finalist! : this.#present
    return { instances, batchRows }
  }

  /** Why it is kept. */
  get decision(): AutoTuneDecision {
    if (this.#finalist === null) return 'no-other'
    const { finalTurns } = this
    return finalTurns === null ? 'unavailable' : decisionOf(finalTurns.gains)
  }

  /** What the winner gave in turns with what was in use; `null` where they were not measured so. */
  get finalTurns(): AutoTuneFinalTurns | null {
    const finalist = this.#finalist
    if (finalist === null || finalist.excluded || this.#present.rates.length === 0) return null
    const [own, other] = [this.#present, finalist].map(({ rates }) => rates.slice(-finalTurns))
    // Turn by turn, so that what else the machine does meets both.
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

/** In turns, with as few changes between the two as can be. */
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

/** Whether gains are above 1 by more than they scatter. */
function isMoreThanChance(gains: readonly number[]): boolean {
  const mean = gains.reduce((sum, gain) => sum + gain, 0) / gains.length
  const squares = gains.reduce((sum, gain) => sum + (gain - mean) ** 2, 0)
  return gains.length > 1 && mean - 1 >= leastErrors * Math.sqrt(squares / (gains.length - 1) / gains.length)
}
