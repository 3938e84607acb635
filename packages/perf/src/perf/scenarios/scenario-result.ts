import type { InputChoice, ScenarioName } from './scenario-settings.ts'

/** What one run of a scenario of LoadGen, or the search for the peak of `server`, results in. Times are in microseconds unless the name says otherwise. */
export interface ScenarioResult {
  readonly scenario: ScenarioName
  readonly mode: 'PerformanceOnly' | 'FindPeakPerformance'
  /** Whether it keeps every rule, by the settings that it was given. */
  readonly valid: boolean
  /** Why it is not valid; none where it is. */
  readonly reasons: readonly string[]
  /** Where its settings ask for less than MLPerf's do, as `minDurationMs 5000 < 600000`. */
  readonly belowMlperf: readonly string[]
  readonly metric: ScenarioMetric
  readonly constraints: ScenarioConstraints
  /** LoadGen's early stopping; `null` in `offline`, which has none. */
  readonly earlyStopping: EarlyStopping | null
  readonly queryCount: number
  /** Samples that were answered. */
  readonly sampleCount: number
  /** Samples above the bound of `server`; 0 elsewhere. */
  readonly overLatencyCount: number
  /** Samples that were not answered, by the code of the error. */
  readonly failures: Readonly<Record<string, number>>
  /** Of samples; in `multi-stream`, of queries. */
  readonly latency: ScenarioLatency
  /** How late queries of `server` were sent, which counts in their latency; `null` elsewhere. */
  readonly sendLag: ScenarioLatency | null
  /** Samples a second as they were answered; of `server`, also as they were scheduled. */
  readonly completedPerSecond: number
  readonly scheduledPerSecond: number | null
  /** From the start to the last answer. */
  readonly seconds: number
  readonly inputs: InputChoice
  /** Of `server`; `null` where it was not looked for. */
  readonly peak: ScenarioPeak | null
  /** Everything that a repetition needs; seeds as strings of digits. */
  readonly settings: Readonly<Record<string, string | number | null>>
}

/** The one number that a scenario is about. */
export interface ScenarioMetric {
  /** As LoadGen's summary has it: `90.0th percentile latency`, `Completed samples per second`, `Samples per second`. */
  readonly name: string
  readonly value: number
  readonly unit: 'us' | 'samples/s'
}

/** Which rules were kept. */
export interface ScenarioConstraints {
  /** The bound of `server`; `null` for scenarios without one. */
  readonly performance: boolean | null
  readonly minDuration: boolean
  readonly minQueries: boolean
  readonly earlyStopping: boolean
  /** A rule of our own: LoadGen knows of no query that fails. */
  readonly noFailures: boolean
}

/** What the statistics of early stopping say of a run. */
export interface EarlyStopping {
  readonly satisfied: boolean
  /** As LoadGen's summary has it. */
  readonly lines: readonly string[]
  /** Percentiles estimated on the safe side; none in `server`. */
  readonly estimates: readonly { readonly percentile: number; readonly us: number }[]
}

/** The figures of LoadGen, each at the index that LoadGen takes. */
export interface ScenarioLatency {
  readonly minUs: number
  readonly maxUs: number
  readonly meanUs: number
  readonly p50Us: number
  readonly p90Us: number
  readonly p95Us: number
  readonly p97Us: number
  readonly p99Us: number
  readonly p999Us: number
}

/** The highest rate of arrivals that keeps the bound. */
export interface ScenarioPeak {
  /** LoadGen's: the bound held at this rate, and not a little above; `null` when it held at none. */
  readonly targetQps: number | null
  /** The highest rate tried at which early stopping was sure of it, too; `null` when it was at none. */
  readonly sureQps: number | null
  /** The rates that were tried, in their order. */
  readonly steps: readonly PeakStep[]
}

/** One run on the way to the peak. */
export interface PeakStep {
  readonly targetQps: number
  /** Whether the bound held. */
  readonly met: boolean
  /** Whether early stopping is sure that it did. */
  readonly sure: boolean
  /** The percentile that the bound is about; of what had been answered, in a run that was given up. */
  readonly percentileUs: number
  readonly completedPerSecond: number
  readonly queryCount: number
  /** It was clear before its end that the bound would not hold. */
  readonly endedEarly: boolean
}
