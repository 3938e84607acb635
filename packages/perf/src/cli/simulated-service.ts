import {
  type Arrival,
  fullBatchRows,
  invalidArgument,
  levelsOf,
  mulberry32,
  usualExitCodes,
} from 'zerohop/internals'
import { CommanderError } from 'commander'
import { generatedFeed, hasRows, inputShapes } from '../perf/input/generated-data.ts'
import { openTarget } from '../perf/open-target.ts'
import { calibrateService } from '../perf/service-calibration.ts'
import { configIn, inlineIn, instancesIn, runsOf } from '../simulation/recorded-run.ts'
import type { ServiceTime } from '../simulation/service-times.ts'
import type { SimulationOptions } from '../simulation/simulate.ts'
import { oneLevel } from '../simulation/simulated-queue.ts'
import { bucketOf } from '../simulation/traffic.ts'
import { grouped } from '../grouped.ts'
import { withoutUndefined } from '../without-undefined.ts'
import type { SimulateOptions } from './simulate.ts'

/** A model's run times, rows and instances. */
export type KnownService = Pick<
  SimulationOptions,
  'serviceTimes' | 'slowdown' | 'overheads' | 'instances' | 'maxBatchSize'
>

/** Run times: given, measured or recorded. */
export async function knownService(
  options: SimulateOptions,
  recording: readonly Arrival[] | null,
): Promise<KnownService> {
  const { service, model, slowdown } = options
  if (service !== undefined && model !== undefined)
    throw usage('--service and --model cannot be used together: give one')
  if (service === undefined && model === undefined && recording === null)
    throw usage('run times are not recorded: give --service or --model')
  const config = configIn(recording ?? [])
  const instances = options.instances ?? config?.instances ?? Math.max(1, instancesIn(recording ?? []))
  const maxBatchSize = options.maxBatchSize ?? config?.maxBatchSize
  const given =
    slowdown === undefined
      ? {}
      : { slowdown: Array.from({ length: instances }, (_, others) => 1 + others * (slowdown - 1)) }
  if (model !== undefined) {
    const measured = await measuredService(model, instances, { ...options, maxBatchSize }, recording ?? [])
    return { ...measured, ...given }
  }
  if (service !== undefined)
    return {
      serviceTimes: service,
      instances,
      maxBatchSize: maxBatchSize ?? service.at(-1)!.rows,
      ...given,
    }
  const recorded = recordedService(recording ?? [])
  if (recorded === null)
    throw invalidArgument(
      '--replay',
      'a recording with runs, or --service or --model beside it',
      'a recording without runs',
    )
  const largest = recorded.serviceTimes.recorded.reduce((most, { rows }) => Math.max(most, rows), 1)
  return { ...recorded, instances, maxBatchSize: maxBatchSize ?? largest, ...given }
}

/** The recorded run times; `null` if there are none. */
export function recordedService(recording: readonly Arrival[]) {
  const runs = runsOf(recording)
  return runs.length === 0
    ? null
    : { serviceTimes: { recorded: runs }, overheads: { inline: inlineIn(recording) } }
}

/** Most recorded shapes measured, the most frequent first. */
const mostShapes = 8

async function measuredService(
  path: string,
  instances: number,
  options: Pick<SimulateOptions, 'calibrationSeconds' | 'seed'> & {
    readonly maxBatchSize: number | undefined
  },
  recording: readonly Arrival[],
): Promise<KnownService> {
  const { calibrationSeconds, maxBatchSize } = options
  const opened = await openTarget({
    model: path,
    config: withoutUndefined({ instanceGroup: [{ kind: 'cpu', count: instances }], maxBatchSize }),
  })
  try {
    const { metadata } = opened.model
    const largest = Math.max(1, metadata.maxBatchSize)
    const shapes = shapesOf(recording)
    const random = mulberry32(options.seed)
    const data = { kind: 'random', stringLength: 128, stringData: null } as const
    const serviceTimes: ServiceTime[] = []
    let found: Awaited<ReturnType<typeof calibrateService>> | null = null
    for (const [bucketKey, dims] of shapes) {
      const inputs = inputShapes(metadata, dims)
      const feedsOf = (rows: number) =>
        Object.fromEntries(
          inputs.map((input) => [
            input.name,
            generatedFeed(input, hasRows(metadata) ? rows : 1, data, random),
          ]),
        )
      const key = shapes.size === 1 ? {} : { bucketKey }
      found = await calibrateService(opened.model, {
        maxBatchSize: largest,
        instances,
        seconds: calibrationSeconds / shapes.size,
        feedsOf,
        ...key,
      })
      serviceTimes.push(...found.serviceTimes)
    }
    // Other shapes count as the most frequent one.
    const [mostFrequent] = shapes.keys()
    const rest = serviceTimes
      .filter(({ bucketKey }) => bucketKey === mostFrequent)
      .map(({ rows, ms, samplesMs }) => ({ rows, ms, ...(samplesMs && { samplesMs }) }))
    return {
      serviceTimes: [...serviceTimes, ...rest],
      slowdown: found!.slowdown,
      overheads: found!.overheads,
      instances,
      maxBatchSize: largest,
    }
  } finally {
    await opened.engine.close()
  }
}

/** Dims of a row, by bucket; a single entry without dims if all shapes are fixed. */
function shapesOf(recording: readonly Arrival[]): Map<string, ReadonlyMap<string, readonly number[]>> {
  if (recording.length === 0) return new Map([['', new Map()]])
  const byFrequency = [...grouped(recording, bucketOf)].sort(([, a], [, b]) => b.length - a.length)
  return new Map(
    byFrequency.slice(0, mostShapes).map(([key, [arrival]]) => {
      const { rows, dims = {} } = arrival!
      const ofRow = Object.entries(dims).map(
        ([name, own]) => [name, own[0] === rows ? own.slice(1) : own] as const,
      )
      return [key, new Map(ofRow)]
    }),
  )
}

/** Fields of a simulation that a model's configuration also has. */
export type SimulatedConfiguration = Required<
  Pick<
    SimulationOptions,
    | 'instances'
    | 'maxBatchSize'
    | 'joinRequests'
    | 'preferredBatchSizes'
    | 'maxQueueDelayMs'
    | 'latencyTargetMs'
    | 'levels'
    | 'splitOversized'
  >
>

/** Options about the configuration. */
type ConfigurationOptions = Pick<
  SimulateOptions,
  'batchSize' | 'preferredBatchSizes' | 'maxQueueDelayUs' | 'latencyTargetMs' | 'priorityLevels'
>

/**
 * The configuration to simulate: the given options, otherwise the recorded configuration.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for requests or preferred sizes that are too large for it.
 */
export function simulatedConfiguration(
  options: ConfigurationOptions,
  recording: readonly Arrival[] | null,
  { instances, maxBatchSize }: KnownService,
): SimulatedConfiguration {
  const config = configIn(recording ?? [])
  const largest = recording?.reduce((most, { rows }) => Math.max(most, rows), 1) ?? options.batchSize
  // Only a split request can have more rows than its batches.
  const splitOversized = largest > (config?.maxBatchSize ?? Infinity)
  if (largest > maxBatchSize && !splitOversized)
    throw invalidArgument(
      '--max-batch-size',
      `at least ${largest}, the rows of the largest request`,
      maxBatchSize,
    )
  const preferredBatchSizes =
    sizesOf(options.preferredBatchSizes, maxBatchSize) ??
    (config?.preferredBatchSizes ?? []).filter((size) => size <= maxBatchSize)
  const { priorityLevels } = options
  const levels = config === null ? oneLevel : levelsOf(config)
  return {
    instances,
    maxBatchSize,
    joinRequests: config?.joinRequests ?? true,
    preferredBatchSizes,
    maxQueueDelayMs:
      options.maxQueueDelayUs === undefined ? (config?.maxQueueDelayMs ?? 0) : options.maxQueueDelayUs / 1000,
    latencyTargetMs: options.latencyTargetMs ?? config?.latencyTargetMs ?? 0,
    levels:
      priorityLevels === undefined
        ? levels
        : { ...levels, priorityLevels, defaultPriorityLevel: priorityLevels },
    splitOversized,
  }
}

function sizesOf(given: readonly number[] | undefined, maxBatchSize: number): readonly number[] | undefined {
  if (given === undefined) return undefined
  const preferredBatchSizes = [...new Set(given)].sort((a, b) => a - b)
  const largest = fullBatchRows({ preferredBatchSizes, maxBatchSize })
  if (largest > maxBatchSize)
    throw invalidArgument(
      '--preferred-batch-sizes',
      `sizes of at most ${maxBatchSize}, the rows of a batch`,
      largest,
    )
  return preferredBatchSizes
}

/** The error for an invalid command line. */
export function usage(text: string): CommanderError {
  return new CommanderError(usualExitCodes.usage, 'zerohop.usage', `error: ${text}`)
}
