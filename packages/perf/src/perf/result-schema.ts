import * as v from 'valibot'
import { inputChoices, scenarioNames } from './scenarios/scenario-settings.ts'

/** JSON cannot express numbers that are not finite: they are saved as `null`. */
const figure = v.pipe(
  v.nullable(v.number()),
  v.transform((value) => value ?? NaN),
)
/** The entries of an object with figures under these names. */
const figures = <Name extends string>(...names: Name[]) =>
  Object.fromEntries(names.map((name) => [name, figure])) as Record<Name, typeof figure>
const counts = v.record(v.string(), figure)
const batchSizes = v.array(v.object(figures('batchSize', 'count')))

const latency = v.object(
  figures('averageUs', 'standardDeviationUs', 'p50Us', 'p90Us', 'p95Us', 'p99Us', 'p999Us', 'maxUs'),
)

const server = v.object({
  ...figures('inferenceCount', 'executionCount', 'successCount', 'cacheHitCount', 'cacheMissCount'),
  ...figures('requestUs', 'overheadUs', 'queueUs', 'computeInputUs', 'computeInferUs', 'computeOutputUs'),
  cacheHitUs: v.optional(figure, null),
  cacheMissUs: v.optional(figure, null),
})

const level = v.object({
  /** Concurrent requests, or requests per second; the speed of a replay. */
  level: figure,
  /** Whether the last windows agreed within `--stability-percentage`. */
  stable: v.boolean(),
  windowSeconds: figure,
  /** Requests answered within the windows. */
  requestCount: figure,
  /** Rows of these requests, and rows per second. */
  ...figures('inferenceCount', 'inferencesPerSecond'),
  /** From the intended moment of sending, if there is one, to the answer. */
  latency,
  /** Histogram of the latencies: ascending bounds, each with the count up to it and above the one before. */
  latencyHistogram: v.array(v.object(figures('upToUs', 'count'))),
  /** The engine's statistics of the same windows, as means per request. */
  server,
  batchSizes,
  /** Why batches were closed, with counts. */
  batchReasons: counts,
  /** Share of padding in padded inputs; left out if nothing was padded. */
  paddingShare: v.exactOptional(figure),
  /** Failed requests by error code. */
  failures: counts,
  /** How late requests were sent after the intended moment; `null` without intended moments. */
  sendLag: v.nullable(latency),
  /** Requests sent more than 1 ms late. */
  delayedCount: figure,
  /** How late the timers of the application's thread were. */
  eventLoopDelay: latency,
  /** Cores that the process kept busy. */
  cpuCores: figure,
  /** Answers within the bound, if one was given. */
  goodput: v.nullable(v.object(figures('withinMs', 'perSecond', 'share'))),
  /** The models of an ensemble's steps, in the same windows; left out for other models. */
  composingModels: v.exactOptional(
    v.array(v.object({ model: v.string(), version: v.number(), server, batchSizes })),
  ),
  /** Sequences begun; `null` for a model without sequences. */
  sequences: v.optional(v.nullable(figure), null),
  /**
   * Scheduled requests that were not answered when the measurement ended. They are in no other count. Left
   * out for other loads.
   */
  unansweredCount: v.exactOptional(figure),
  /** Requests sent per second. */
  sentPerSecond: v.optional(figure, null),
  /** The user's own percentile of the latencies (`--percentile`); `null` without one. */
  percentile: v.optional(v.nullable(v.object(figures('percentile', 'us'))), null),
})

/** LoadGen's figures, each at the index that LoadGen uses. */
const scenarioLatency = v.object(
  figures('minUs', 'maxUs', 'meanUs', 'p50Us', 'p90Us', 'p95Us', 'p97Us', 'p99Us', 'p999Us'),
)

const peakStep = v.object({
  targetQps: figure,
  /** Whether the bound held. */
  met: v.boolean(),
  /** Whether early stopping was satisfied. */
  sure: v.boolean(),
  /** The percentile for the bound; for a run stopped early, of the answers so far. */
  percentileUs: figure,
  ...figures('completedPerSecond', 'queryCount'),
  /** The run was stopped because the bound could not hold any more. */
  endedEarly: v.boolean(),
})

const scenario = v.object({
  scenario: v.picklist(scenarioNames),
  mode: v.picklist(['PerformanceOnly', 'FindPeakPerformance']),
  /** Whether it meets every rule, under its settings. */
  valid: v.boolean(),
  /** Why it is not valid; empty if it is. */
  reasons: v.array(v.string()),
  /** Settings that ask for less than MLPerf's, such as `minDurationMs 5000 < 600000`. */
  belowMlperf: v.array(v.string()),
  /**
   * Its name is as in LoadGen's summary: `90.0th percentile latency`, `Completed samples per second`, `Samples
   * per second`.
   */
  metric: v.object({ name: v.string(), value: figure, unit: v.picklist(['us', 'samples/s']) }),
  /** Which rules were met. */
  constraints: v.object({
    /** The bound of `server`; `null` for scenarios without one. */
    performance: v.nullable(v.boolean()),
    minDuration: v.boolean(),
    minQueries: v.boolean(),
    earlyStopping: v.boolean(),
    /** A rule of our own: in LoadGen queries cannot fail. */
    noFailures: v.boolean(),
  }),
  /** LoadGen's early stopping; `null` in `offline`, which has none. */
  earlyStopping: v.nullable(
    v.object({
      satisfied: v.boolean(),
      /** As in LoadGen's summary. */
      lines: v.array(v.string()),
      /** Conservative estimates of percentiles; none in `server`. */
      estimates: v.array(v.object(figures('percentile', 'us'))),
    }),
  ),
  queryCount: figure,
  /** Samples answered. */
  sampleCount: figure,
  /** Samples above the bound of `server`; 0 for other scenarios. */
  overLatencyCount: figure,
  /** Answered samples per second. */
  completedPerSecond: figure,
  /** From the start to the last answer. */
  seconds: figure,
  /** Samples that were not answered, by error code. */
  failures: counts,
  /** Latency of samples; in `multi-stream`, of queries. */
  latency: scenarioLatency,
  /** How late queries of `server` were sent, which is part of their latency; `null` for other scenarios. */
  sendLag: v.nullable(scenarioLatency),
  /** For `server`; `null` for other scenarios. */
  scheduledPerSecond: v.nullable(v.number()),
  inputs: v.picklist(inputChoices),
  /** The highest rate of arrivals of `server` that meets the bound; `null` without a search. */
  peak: v.nullable(
    v.object({
      /** As in LoadGen: the bound held at this rate, and not a little above; `null` if it held at no rate. */
      targetQps: v.nullable(v.number()),
      /** The highest rate tried that also satisfied early stopping; `null` for none. */
      sureQps: v.nullable(v.number()),
      /** The rates tried, in order. */
      steps: v.array(peakStep),
    }),
  ),
  /** Everything that a repetition needs; seeds as decimal strings. */
  settings: v.record(v.string(), v.nullable(v.union([v.string(), v.number()]))),
})

/** How much the answers of one output differ. */
const outputDifference = v.object({
  output: v.string(),
  /** From the model's metadata, or from the first answer. */
  type: v.string(),
  /** The largest difference of two numbers; `Infinity` if one is not a number, or shapes or texts differ. */
  absolute: figure,
  /** The largest difference relative to the largest number of its answer. */
  relative: figure,
  /** How much answers to different requests differ, relatively. If it is 0, swapped answers would not be noticed. */
  spread: figure,
  /** Answers beyond the tolerance. */
  above: figure,
  /** The request with the largest relative difference, counted from 0; `null` if there is no difference. */
  sample: v.nullable(v.number()),
})

const accuracy = v.object({
  /** Answers compared, and the different requests among them. */
  ...figures('answers', 'samples'),
  /** Concurrent requests under load. */
  concurrency: figure,
  /** The largest relative difference that is no error. */
  tolerance: figure,
  /** Answers under load from the response cache, which had no run. */
  cacheHits: figure,
  /** Whether all answers are within the tolerance. */
  within: v.boolean(),
  outputs: v.array(outputDifference),
  /** Requests that failed, alone or under load, by error code. */
  failures: counts,
  /** Sizes of the batches under load. If all have one row, nothing was joined, and the check shows little. */
  batchSizes,
})

/** The levels of a run with one kind of requests. */
const inputLevels = v.object({
  inputs: v.picklist(['same', 'unique']),
  /** Number of different requests; `null` if they never repeat. */
  distinct: v.nullable(v.number()),
  levels: v.array(level),
})

/** The form of {@link PerfResult}, by which saved results are checked. */
export const perfResult = v.object({
  model: v.string(),
  version: v.number(),
  /** Every setting that a repetition needs, under the names of the command line. */
  settings: v.record(v.string(), v.unknown()),
  /** The settings that were given; the others have their defaults. Left out if unknown. */
  given: v.exactOptional(v.array(v.string())),
  /** Cores, processor, versions of Node, ONNX Runtime and zerohop. */
  machine: v.record(v.string(), v.union([v.string(), v.number()])),
  /** ISO 8601. */
  date: v.string(),
  /** How requests are sent: so many at once, or so many per second without waiting. */
  mode: v.picklist([
    'concurrency',
    'request-rate',
    'request-intervals',
    'periodic-concurrency',
    'replay',
    'scenario',
  ]),
  /** In the order of measurement. */
  levels: v.array(level),
  /** The result of a LoadGen scenario (`--scenario`), which has no levels. */
  scenario: v.exactOptional(scenario),
  /** The comparison of answers with those alone (`--check-rows`), which has no levels. */
  accuracy: v.exactOptional(accuracy),
  /** The levels by kind of requests (`--inputs`): one repeated request, or requests that never repeat. */
  inputs: v.exactOptional(v.pipe(v.array(inputLevels), v.minLength(1))),
})

type Frozen<T> = T extends object ? { readonly [Key in keyof T]: Frozen<T[Key]> } : T

/**
 * The result of `zerohop perf`, for its reports, the tuner and the benchmarks. Times are in microseconds
 * unless the name says otherwise.
 */
export type PerfResult = Frozen<v.InferOutput<typeof perfResult>>

/** How requests are sent. */
export type LoadMode = PerfResult['mode']

/** One level of load: the merged windows that it was judged by. */
export type LevelResult = Frozen<v.InferOutput<typeof level>>

/** Figures of many durations, in microseconds; zeros without durations. */
export type LatencyFigures = Frozen<v.InferOutput<typeof latency>>

/** The levels of a run with one kind of requests. */
export type InputLevels = Frozen<v.InferOutput<typeof inputLevels>>

/** The result of one run of a LoadGen scenario, or of the search for the peak of `server`. */
export type ScenarioResult = Frozen<v.InferOutput<typeof scenario>>
export type ScenarioLatency = ScenarioResult['latency']

/** The result of a search for the peak, and one run of it. */
export type ScenarioPeak = NonNullable<ScenarioResult['peak']>
export type PeakStep = ScenarioPeak['steps'][number]

/** The comparison of answers under load with answers alone. */
export type AccuracyResult = Frozen<v.InferOutput<typeof accuracy>>
