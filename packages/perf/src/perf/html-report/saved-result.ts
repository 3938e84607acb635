import { randomUUID } from 'node:crypto'
import { rmSync, type Stats, statSync, writeFileSync } from 'node:fs'
import { realpath, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import * as v from 'valibot'
import { invalidArgument, messageOf, readRegularFile } from 'zerohop/internals'
import type { PerfResult } from '../result.ts'

/** 64 MiB, enough for 10 000 levels. */
const mostBytes = 2 ** 26

/** JSON cannot express numbers that are not finite. */
const figure = v.pipe(
  v.nullable(v.number()),
  v.transform((value) => value ?? NaN),
)
/** The entries of an object with figures under these names. */
const figures = <Name extends string>(...names: Name[]) =>
  Object.fromEntries(names.map((name) => [name, figure])) as Record<Name, typeof figure>
const counts = v.record(v.string(), figure)
const batchSizes = v.array(v.object(figures('batchSize', 'count')))

const savedLatency = v.object(
  figures('minUs', 'maxUs', 'meanUs', 'p50Us', 'p90Us', 'p95Us', 'p97Us', 'p99Us', 'p999Us'),
)
const step = v.object({
  ...figures('targetQps', 'percentileUs', 'completedPerSecond', 'queryCount'),
  met: v.boolean(),
  sure: v.boolean(),
  endedEarly: v.boolean(),
})

/** The result of a LoadGen scenario, in a file. */
const savedScenario = v.looseObject({
  scenario: v.picklist(['single-stream', 'multi-stream', 'server', 'offline']),
  mode: v.picklist(['PerformanceOnly', 'FindPeakPerformance']),
  valid: v.boolean(),
  reasons: v.array(v.string()),
  belowMlperf: v.array(v.string()),
  metric: v.object({ name: v.string(), value: figure, unit: v.picklist(['us', 'samples/s']) }),
  constraints: v.object({
    performance: v.nullable(v.boolean()),
    minDuration: v.boolean(),
    minQueries: v.boolean(),
    earlyStopping: v.boolean(),
    noFailures: v.boolean(),
  }),
  earlyStopping: v.nullable(
    v.object({
      satisfied: v.boolean(),
      lines: v.array(v.string()),
      estimates: v.array(v.object(figures('percentile', 'us'))),
    }),
  ),
  ...figures('queryCount', 'sampleCount', 'overLatencyCount', 'completedPerSecond', 'seconds'),
  failures: counts,
  latency: savedLatency,
  sendLag: v.nullable(savedLatency),
  scheduledPerSecond: v.nullable(v.number()),
  inputs: v.picklist(['random', 'same', 'unique']),
  peak: v.nullable(
    v.object({ targetQps: v.nullable(v.number()), sureQps: v.nullable(v.number()), steps: v.array(step) }),
  ),
  settings: v.record(v.string(), v.nullable(v.union([v.string(), v.number()]))),
})

const difference = v.object({
  output: v.string(),
  type: v.string(),
  ...figures('absolute', 'relative', 'spread', 'above'),
  sample: v.nullable(v.number()),
})

/** How much answers under load differed from those alone, in a file. */
const savedAccuracy = v.looseObject({
  ...figures('answers', 'samples', 'concurrency', 'tolerance', 'cacheHits'),
  within: v.boolean(),
  outputs: v.array(difference),
  failures: counts,
  batchSizes,
})

const latency = v.object(
  figures('averageUs', 'standardDeviationUs', 'p50Us', 'p90Us', 'p95Us', 'p99Us', 'p999Us', 'maxUs'),
)

const server = v.object({
  ...figures('inferenceCount', 'executionCount', 'successCount', 'cacheHitCount', 'cacheMissCount'),
  ...figures('requestUs', 'overheadUs', 'queueUs', 'computeInputUs', 'computeInferUs', 'computeOutputUs'),
  cacheHitUs: v.optional(figure, null),
  cacheMissUs: v.optional(figure, null),
})

const level = v.looseObject({
  ...figures('level', 'windowSeconds', 'requestCount', 'inferenceCount', 'inferencesPerSecond'),
  ...figures('delayedCount', 'cpuCores'),
  stable: v.boolean(),
  latency,
  latencyHistogram: v.array(v.object(figures('upToUs', 'count'))),
  server,
  batchSizes,
  batchReasons: counts,
  paddingShare: v.exactOptional(figure),
  failures: counts,
  sendLag: v.nullable(latency),
  eventLoopDelay: latency,
  goodput: v.nullable(v.object(figures('withinMs', 'perSecond', 'share'))),
  composingModels: v.exactOptional(
    v.array(v.object({ model: v.string(), version: v.number(), server, batchSizes })),
  ),
  sequences: v.optional(v.nullable(figure), null),
  sentPerSecond: v.optional(figure, null),
  percentile: v.optional(v.nullable(v.object(figures('percentile', 'us'))), null),
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

/** The text of a result for a file. */
export function savedText(saved: PerfResult): string {
  return `${JSON.stringify(saved, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value), 2)}\n`
}

/**
 * Reads a result that `zerohop perf --json` has written.
 *
 * @throws InferenceError `ERR_INVALID_ARG` if the file is no such result, with what is wrong and where;
 * errors of Node.js if it cannot be read.
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

/**
 * Checks before measuring whether a file can be written, by writing an empty file beside it.
 *
 * @param option that names the file, for the message.
 * @throws InferenceError `ERR_INVALID_ARG` if the folder does not exist or is not writable, or the path is
 * something other than a file; errors of Node.js if it cannot be checked.
 */
export function checkFilePlace(option: string, path: string): void {
  const folder = dirname(resolve(path))
  const found = statOf(folder)
  if (found?.isDirectory() !== true) {
    const why = found === null ? 'There is no folder' : 'It is no folder:'
    throw invalidArgument(option, 'the path of a file in a folder that is there', path, {
      hint: `${why} ${folder}. Make it, or name another`,
    })
  }
  const before = statOf(resolve(path))
  if (before !== null && !before.isFile())
    throw invalidArgument(option, 'the path of a file', path, {
      hint: 'There is something that is no file. Name another',
    })
  const trial = unfinishedIn(folder)
  try {
    writeFileSync(trial, '', { flag: 'wx' })
    rmSync(trial)
  } catch (cause) {
    throw invalidArgument(option, 'the path of a file in a folder that can be written in', path, {
      cause,
      hint: `${(cause as Error).message}. Name another`,
    })
  }
}

/**
 * Writes a file atomically: a complete file replaces an earlier one, so that no reader finds a part of it.
 * For a link, the target is replaced, not the link.
 *
 * @throws as {@link checkFilePlace}, and errors of Node.js if it cannot be written; then nothing of it
 * remains.
 */
export async function writeWholeFile(
  option: string,
  path: string,
  text: string | Iterable<string>,
): Promise<void> {
  checkFilePlace(option, path)
  const target = await realpath(path).catch(() => resolve(path))
  const unfinished = unfinishedIn(dirname(target))
  try {
    await writeFile(unfinished, text, { flag: 'wx' })
    await rename(unfinished, target)
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  }
}

function unfinishedIn(folder: string): string {
  return join(folder, `.${randomUUID()}.tmp`)
}

function statOf(path: string): Stats | null {
  try {
    return statSync(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    throw error
  }
}
