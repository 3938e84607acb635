import * as v from 'valibot'
import { invalidArgument, messageOf, readRegularFile } from 'zerohop/internals'
import type { PerfResult } from '../result.ts'
import { batchSizes, counts, figure } from './saved-figures.ts'
import { savedAccuracy, savedScenario } from './saved-others.ts'

/** 64 MiB: that of 10 000 levels. */
const mostBytes = 2 ** 26

const latency = v.object({
  averageUs: figure,
  standardDeviationUs: figure,
  p50Us: figure,
  p90Us: figure,
  p95Us: figure,
  p99Us: figure,
  p999Us: figure,
  maxUs: figure,
})

const server = v.object({
  inferenceCount: figure,
  executionCount: figure,
  successCount: figure,
  cacheHitCount: figure,
  cacheMissCount: figure,
  cacheHitUs: v.optional(figure, null),
  cacheMissUs: v.optional(figure, null),
  requestUs: figure,
  overheadUs: figure,
  queueUs: figure,
  computeInputUs: figure,
  computeInferUs: figure,
  computeOutputUs: figure,
})

const level = v.looseObject({
  level: figure,
  stable: v.boolean(),
  windowSeconds: figure,
  requestCount: figure,
  inferenceCount: figure,
  inferencesPerSecond: figure,
  latency,
  latencyHistogram: v.array(v.object({ upToUs: figure, count: figure })),
  server,
  batchSizes,
  batchReasons: counts,
  paddingShare: v.exactOptional(figure),
  failures: counts,
  sendLag: v.nullable(latency),
  delayedCount: figure,
  eventLoopDelay: latency,
  cpuCores: figure,
  goodput: v.nullable(v.object({ withinMs: figure, perSecond: figure, share: figure })),
  composingModels: v.exactOptional(
    v.array(v.object({ model: v.string(), version: v.number(), server, batchSizes })),
  ),
  sequences: v.optional(v.nullable(figure), null),
  sentPerSecond: v.optional(figure, null),
  percentile: v.optional(v.nullable(v.object({ percentile: figure, us: figure })), null),
})

const result = v.looseObject({
  model: v.string(),
  version: v.number(),
  settings: v.record(v.string(), v.unknown()),
  given: v.exactOptional(v.array(v.string())),
  machine: v.record(v.string(), v.union([v.string(), v.number()])),
  date: v.string(),
  mode: v.picklist([
    'concurrency',
    'request-rate',
    'request-intervals',
    'periodic-concurrency',
    'replay',
    'scenario',
  ]),
  levels: v.array(level),
  scenario: v.exactOptional(savedScenario),
  accuracy: v.exactOptional(savedAccuracy),
  inputs: v.exactOptional(
    v.pipe(
      v.array(
        v.object({
          inputs: v.picklist(['same', 'unique']),
          distinct: v.nullable(v.number()),
          levels: v.array(level),
        }),
      ),
      v.minLength(1),
    ),
  ),
})

/** A result as it is kept in a file. */
export function savedText(saved: PerfResult): string {
  return `${JSON.stringify(saved, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value), 2)}\n`
}

/**
 * Reads a result that `zerohop perf --json` has written.
 *
 * @throws InferenceError `ERR_INVALID_ARG` where the file is none of those, with what is wrong and where; what Node.js throws where it cannot be read.
 */
export async function readSavedResult(path: string): Promise<PerfResult> {
  const text = (await readRegularFile(path, mostBytes)).toString()
  const wrong = (why: string) =>
    invalidArgument(path, 'a result that zerohop perf --json has written', path, {
      hint: `${why}. Write it again`,
    })
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    throw wrong(`It is no JSON: ${messageOf(error)}`)
  }
  const checked = v.safeParse(result, json, { abortEarly: true })
  if (checked.success) return checked.output
  const [issue] = checked.issues
  throw wrong(`${v.getDotPath(issue) ?? 'It'} is not as it has to be: ${issue.message}`)
}
