import { CommanderError, InvalidArgumentError, Option, type Command } from 'commander'
import { type Arrival, maxInstances, usualExitCodes } from 'zerohop/internals'
import { loadArrivals } from '../recordings/read-arrivals.ts'
import { arrivalsOf } from '../perf/replay/replay.ts'
import type { CostShare } from '../simulation/simulated-costs.ts'
import type { ServiceTime } from '../simulation/service-times.ts'
import type { SimulatedArrivals } from '../simulation/simulate.ts'
import { above, list, whole } from './perf-measure-options.ts'

/** Options of `zerohop simulate`, in commander's form. */
export interface SimulateOptions {
  readonly replay?: string
  readonly replayModel?: string
  readonly speed: number
  readonly requestRate?: number
  readonly concurrency?: number
  readonly requestCount: number
  readonly batchSize: number
  readonly costs?: readonly CostShare[]
  readonly joinBy: 'cost' | 'arrival'
  readonly maxBatchCost?: number
  readonly maxPaddingShare?: number
  readonly service?: readonly ServiceTime[]
  readonly model?: string
  readonly calibrationSeconds: number
  readonly slowdown?: number
  readonly instances?: number
  readonly maxBatchSize?: number
  readonly preferredBatchSizes?: readonly number[]
  readonly maxQueueDelayUs?: number
  readonly latencyTargetMs?: number
  readonly priorityLevels?: number
  readonly seed: number
  readonly json: boolean
}

/** Adds the options to a command. */
export function addSimulateOptions(command: Command): Command {
  return command
    .optionsGroup('Requests:')
    .option('--replay <file>', 'as they were recorded (engine.recordArrivals)')
    .option('--replay-model <name>', 'whose requests of a recording of several models')
    .option('--speed <factor>', 'so many times as fast as they came', above(0), 1)
    .option(
      '--request-rate <count>',
      'so many a second instead, at intervals as a Poisson process has them',
      above(0),
    )
    .option(
      '--concurrency <callers>',
      'so many callers instead, each of whom waits for its answer',
      whole(1, 1_000_000),
    )
    .option('--request-count <count>', 'how many, where they are not recorded', whole(1, 10_000_000), 10_000)
    .option('-b, --batch-size <rows>', 'rows of each, where they are not recorded', whole(1), 1)
    .option(
      '--costs <cost:share,...>',
      'what a row of a request costs (as its length), and what part of the requests does; runs then take what --service says of the cost of a padded batch',
      costs,
    )
    .optionsGroup('What runs take:')
    .option(
      '--service <rows:ms,...>',
      'by size; sizes between lie between (default: as was recorded)',
      service,
    )
    .option('-m, --model <path>', 'measured, on an idle machine, with the model')
    .option('--calibration-seconds <count>', 'for how long', above(0), 10)
    .option(
      '--slowdown <factor>',
      'what runs take while another goes on, in times of what they take alone (default: as was found)',
      above(0),
    )
    .optionsGroup('What if:')
    .option(
      '--instances <count>',
      'instances of the model (default: as recorded, or 1)',
      whole(1, maxInstances),
    )
    .option(
      '--max-batch-size <rows>',
      'rows of a batch (default: as recorded, or the largest that is given)',
      whole(1, 2 ** 31 - 1),
    )
    .option(
      '--preferred-batch-sizes <list>',
      'sizes at which a batch is sent (default: as recorded)',
      list(1),
    )
    .option(
      '--max-batch-cost <cost>',
      'most that a batch may cost, with --costs (default: no limit)',
      above(0),
    )
    .option(
      '--max-padding-share <share>',
      'of what a batch costs, how much may be padding, with --costs (default: 0.1)',
      above(0, true, 1),
    )
    .addOption(
      new Option(
        '--join-by <what>',
        'whether batches are made of requests that cost about the same, with --costs, or in the order of arrival',
      )
        .choices(['cost', 'arrival'])
        .default('cost'),
    )
    .option(
      '--max-queue-delay-us <us>',
      'how long the oldest request may wait for others while an instance is idle (default: as recorded, or 0)',
      above(0, true),
    )
    .option(
      '--latency-target-ms <ms>',
      'as the latencyTargetMs of a configuration; 0 for none (default: as recorded)',
      above(0, true),
    )
    .option(
      '--priority-levels <count>',
      'levels of priority, of which a request without one has the last (default: as recorded)',
      whole(1),
    )
    .optionsGroup('Others:')
    .option('--seed <number>', 'of what is random', whole(0, 2 ** 32 - 1), 1)
    .option('-j, --json', 'print JSON', false)
}

/** The requests, and their recording, if any. */
export async function simulatedRequests(
  options: SimulateOptions,
): Promise<{ arrivals: SimulatedArrivals; recording: readonly Arrival[] | null }> {
  const { replay, replayModel = null, speed, requestRate, concurrency } = options
  const given = { '--replay': replay, '--request-rate': requestRate, '--concurrency': concurrency }
  const names = Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [name]))
  if (names.length !== 1)
    throw usage(
      `one of --replay, --request-rate and --concurrency has to be given${names.length === 0 ? '' : `, and not ${names.join(' and ')}`}`,
    )
  if (requestRate !== undefined)
    return { arrivals: { kind: 'poisson', ratePerSecond: requestRate }, recording: null }
  if (concurrency !== undefined)
    return { arrivals: { kind: 'closed', callers: concurrency }, recording: null }
  const recording = arrivalsOf(await loadArrivals(replay!), replayModel)
  return { arrivals: { kind: 'recorded', arrivals: recording, speed }, recording }
}

/** The error for an invalid command line. */
export function usage(text: string): CommanderError {
  return new CommanderError(usualExitCodes.usage, 'zerohop.usage', `error: ${text}`)
}

function service(text: string): ServiceTime[] {
  const table = text.split(',').map((pair) => {
    const [rows = '', ms = '', ...more] = pair.split(':')
    if (rows === '' || ms === '' || more.length > 0)
      throw new InvalidArgumentError('It has to be rows:ms,... as 1:5,8:21.')
    return { rows: whole(1)(rows), ms: above(0)(ms) }
  })
  return table.sort((a, b) => a.rows - b.rows)
}

function costs(text: string): CostShare[] {
  return text.split(',').map((pair) => {
    const [cost = '', share = '', ...more] = pair.split(':')
    if (cost === '' || share === '' || more.length > 0)
      throw new InvalidArgumentError('It has to be cost:share,... as 37:0.9,400:0.1.')
    return { cost: above(0)(cost), share: above(0)(share) }
  })
}
