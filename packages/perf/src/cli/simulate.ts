import Table from 'cli-table3'
import { Command, InvalidArgumentError, Option } from 'commander'
import { type Arrival, maxInstances, printJson } from 'zerohop/internals'
import { loadArrivals } from '../recordings/read-arrivals.ts'
import { arrivalsOf } from '../perf/replay/replay.ts'
import type { CostShare } from '../simulation/simulated-costs.ts'
import {
  fewestRuns,
  type SeldomSizes,
  seldomSizes,
  type ServiceTime,
  trustedSeldomShare,
} from '../simulation/service-times.ts'
import {
  checkPrediction,
  configIn,
  isWithin,
  type PredictionCheck,
  type RecordedFigures,
  recordedFigures,
  trustedWithin,
} from '../simulation/recorded-run.ts'
import {
  simulate as simulateLoad,
  type SimulatedArrivals,
  type SimulationOptions,
} from '../simulation/simulate.ts'
import type { SimulationResult } from '../simulation/simulation-result.ts'
import { withoutUndefined } from '../without-undefined.ts'
import { above, list, namesOfGiven, whole } from './perf-measure-options.ts'
import {
  knownService,
  type KnownService,
  recordedService,
  type SimulatedConfiguration,
  simulatedConfiguration,
  usage,
} from './simulated-service.ts'

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

/** `zerohop simulate --replay FILE`: predicts how a configuration serves a load. */
export const simulate = addSimulateOptions(new Command('simulate'))
  .description(
    'predict latency and throughput of a recorded or generated load with another configuration or speed, by running the queue on a virtual clock',
  )
  .addHelpText(
    'after',
    '\nFor a recording at its own speed, the recorded figures are shown beside the prediction. How well the\nsimulation predicts the recording itself is always shown.',
  )
  .action(async (options: SimulateOptions) => {
    const { arrivals, recording } = await simulatedRequests(options)
    const service = await knownService(options, recording)
    const { levels, splitOversized, ...configuration } = simulatedConfiguration(options, recording, service)
    const { requestCount, batchSize, seed, speed } = options
    const costs = simulatedCosts(options)
    const predicted = simulateLoad({
      ...service,
      ...configuration,
      levels,
      splitOversized,
      arrivals,
      requests: requestCount,
      seed,
      rows: [{ rows: batchSize, share: 1 }],
      ...costs,
    })
    const recorded = recording === null || speed !== 1 ? null : recordedFigures(recording)
    const { serviceTimes } = service
    const sizes = 'recorded' in serviceTimes ? seldomSizes(serviceTimes.recorded, predicted) : null
    const check = recording === null ? null : checkOf(recording, service, seed, sizes)
    const { priorityLevels } = levels
    if (options.json)
      printJson({
        configuration: { ...configuration, priorityLevels, ...costs },
        recorded,
        predicted: withoutTarget(predicted),
        check,
        sizes,
      })
    else process.stdout.write(simulationText(predicted, recorded, configuration, check, sizes))
  })

/** Adds the options to a command. */
function addSimulateOptions(command: Command): Command {
  return command
    .optionsGroup('Requests:')
    .option('--replay <file>', 'recorded requests (engine.recordArrivals)')
    .option('--replay-model <name>', 'model to replay, if the recording has several')
    .option('--speed <factor>', 'replay this many times as fast', above(0), 1)
    .option(
      '--request-rate <count>',
      'requests per second, as a Poisson process, instead of --replay',
      above(0),
    )
    .option(
      '--concurrency <callers>',
      'concurrent callers that wait for answers, instead of --replay',
      whole(1, 1_000_000),
    )
    .option('--request-count <count>', 'number of requests without --replay', whole(1, 10_000_000), 10_000)
    .option('-b, --batch-size <rows>', 'rows per request without --replay', whole(1), 1)
    .option(
      '--costs <cost:share,...>',
      'cost of a row (such as its length) and share of requests with it; --service then maps the cost of a padded batch to its run time',
      costs,
    )
    .optionsGroup('Run times:')
    .option(
      '--service <rows:ms,...>',
      'run times by batch size, interpolated (default: as recorded)',
      service,
    )
    .option('-m, --model <path>', 'measure the run times of this model; the machine must be idle')
    .option('--calibration-seconds <count>', 'duration of measuring with --model', above(0), 10)
    .option(
      '--slowdown <factor>',
      'factor on run times for each concurrent run (default: as measured)',
      above(0),
    )
    .optionsGroup('Configuration to predict:')
    .option(
      '--instances <count>',
      'instances of the model (default: as recorded, or 1)',
      whole(1, maxInstances),
    )
    .option(
      '--max-batch-size <rows>',
      'rows per batch (default: as recorded, or the largest in --service)',
      whole(1, 2 ** 31 - 1),
    )
    .option(
      '--preferred-batch-sizes <list>',
      'batch sizes at which a batch is sent at once (default: as recorded)',
      list(1),
    )
    .option('--max-batch-cost <cost>', 'limit of batch cost, with --costs (default: no limit)', above(0))
    .option(
      '--max-padding-share <share>',
      'largest share of padding in the cost of a batch, with --costs (default: 0.1)',
      above(0, true, 1),
    )
    .addOption(
      new Option('--join-by <what>', 'batch requests of similar cost, with --costs, or in order of arrival')
        .choices(['cost', 'arrival'])
        .default('cost'),
    )
    .option(
      '--max-queue-delay-us <us>',
      'how long an idle instance waits for more rows (default: as recorded, or 0)',
      above(0, true),
    )
    .option(
      '--latency-target-ms <ms>',
      'target for the p99 latency; 0: none (default: as recorded)',
      above(0, true),
    )
    .option(
      '--priority-levels <count>',
      'priority levels; requests without one have the last (default: as recorded)',
      whole(1),
    )
    .optionsGroup('Others:')
    .option('--seed <number>', 'seed of random intervals', whole(0, 2 ** 32 - 1), 1)
    .option('-j, --json', 'print JSON', false)
}

/** The requests, and their recording, if any. */
async function simulatedRequests(
  options: SimulateOptions,
): Promise<{ arrivals: SimulatedArrivals; recording: readonly Arrival[] | null }> {
  const { replay, replayModel = null, speed, requestRate, concurrency } = options
  const names = namesOfGiven({
    '--replay': replay,
    '--request-rate': requestRate,
    '--concurrency': concurrency,
  })
  if (names.length !== 1)
    throw usage(
      `give one of --replay, --request-rate and --concurrency${names.length === 0 ? '' : `, not ${names.join(' and ')}`}`,
    )
  if (requestRate !== undefined)
    return { arrivals: { kind: 'poisson', ratePerSecond: requestRate }, recording: null }
  if (concurrency !== undefined)
    return { arrivals: { kind: 'closed', callers: concurrency }, recording: null }
  const recording = arrivalsOf(await loadArrivals(replay!), replayModel)
  return { arrivals: { kind: 'recorded', arrivals: recording, speed }, recording }
}

function service(text: string): ServiceTime[] {
  const read = (rows: string, ms: string) => ({ rows: whole(1)(rows), ms: above(0)(ms) })
  return pairs(text, 'rows:ms,..., such as 1:5,8:21', read).sort((a, b) => a.rows - b.rows)
}

function costs(text: string): CostShare[] {
  const read = (cost: string, share: string) => ({ cost: above(0)(cost), share: above(0)(share) })
  return pairs(text, 'cost:share,..., such as 37:0.9,400:0.1', read)
}

function pairs<T>(text: string, form: string, read: (first: string, second: string) => T): T[] {
  return text.split(',').map((pair) => {
    const [first = '', second = '', ...more] = pair.split(':')
    if (first === '' || second === '' || more.length > 0) throw new InvalidArgumentError(`Expected ${form}.`)
    return read(first, second)
  })
}

/**
 * How well the simulation predicts a recording under its own configuration, with the recorded run times or
 * else with the given ones; `null` if its configuration is not known.
 */
function checkOf(
  recording: readonly Arrival[],
  service: KnownService,
  seed: number,
  sizes: SeldomSizes | null,
): PredictionCheck | null {
  const config = configIn(recording)
  if (config === null) return null
  const { instances, maxBatchSize } = config
  const own = recordedService(recording) ?? service
  const configuration = simulatedConfiguration({ batchSize: 1 }, recording, {
    ...own,
    instances,
    maxBatchSize,
  })
  const predicted = simulateLoad({
    ...own,
    ...configuration,
    arrivals: { kind: 'recorded', arrivals: recording },
    seed,
  })
  return checkPrediction(recordedFigures(recording), predicted, sizes)
}

/** Without a target the field is left out, as JSON cannot express infinity. */
function withoutTarget({ targetMs, ...others }: SimulationResult): object {
  return targetMs === Infinity ? others : { targetMs, ...others }
}

/** The given costs of requests. */
function simulatedCosts(options: SimulateOptions): Pick<SimulationOptions, 'costs'> {
  const { costs: mix, joinBy, maxBatchCost, maxPaddingShare } = options
  const isLimited = maxBatchCost !== undefined || maxPaddingShare !== undefined
  if (mix === undefined) {
    if (isLimited) throw usage('--max-batch-cost and --max-padding-share need --costs')
    return {}
  }
  if (isLimited && joinBy === 'arrival')
    throw usage(
      '--max-batch-cost and --max-padding-share have no effect with --join-by arrival: omit one or the other',
    )
  if (options.service === undefined || options.maxBatchSize === undefined)
    throw usage('--costs needs --service, with run times by cost, and --max-batch-size')
  return { costs: withoutUndefined({ mix, joinBy, maxBatchCost, maxPaddingShare }) }
}

/** A prediction, next to the recording if that had the same configuration, and how reliable it is. */
function simulationText(
  predicted: SimulationResult,
  recorded: RecordedFigures | null,
  configuration: Omit<SimulatedConfiguration, 'levels' | 'splitOversized'>,
  check: PredictionCheck | null,
  sizes: SeldomSizes | null,
): string {
  const ms = (value: number | null) => (value === null ? '-' : value.toFixed(3))
  const number = (value: number | null) => (value === null ? '-' : value.toFixed(2))
  const lines: [string, (of: RecordedFigures | SimulationResult) => string][] = [
    ['requests', ({ requests }) => String(requests)],
    ['answered', ({ answered }) => String(answered)],
    ['p50 ms', ({ p50Ms }) => ms(p50Ms)],
    ['p90 ms', ({ p90Ms }) => ms(p90Ms)],
    ['p95 ms', ({ p95Ms }) => ms(p95Ms)],
    ['p99 ms', ({ p99Ms }) => ms(p99Ms)],
    ['max ms', ({ maxMs }) => ms(maxMs)],
    ['answers/s', ({ throughputPerSecond }) => number(throughputPerSecond)],
    ['rows/s', ({ rowsPerSecond }) => number(rowsPerSecond)],
    ['mean rows of a batch', ({ meanBatchRows }) => number(meanBatchRows)],
  ]
  const columns = recorded === null ? ['predicted'] : ['recorded', 'predicted']
  const colAligns = ['left', ...columns.map(() => 'right')] as ('left' | 'right')[]
  const table = new Table({
    head: ['', ...columns],
    style: { head: [], border: [], compact: true },
    colAligns,
  })
  for (const [name, cell] of lines)
    table.push([name, ...(recorded === null ? [] : [cell(recorded)]), cell(predicted)])
  const { batches, costs, utilisation, maxQueued, refused, dropped } = predicted
  const byRows = Object.entries(batches).map(([rows, count]) => `${rows}: ${count}`)
  const rest = [
    configurationText(configuration),
    `batches by rows: ${byRows.join(', ')}`,
    costs !== null &&
      `a batch costs ${costs.meanBatchCost.toFixed(1)} on average, ${costs.largestBatchCost.toFixed(1)} at most; ${(100 * costs.paddingShare).toFixed(1)} % of that is padding`,
    `instances busy ${(utilisation * 100).toFixed(1)} % of the time; at most ${maxQueued} requests waiting`,
    refused + dropped > 0 && `refused: ${refused}; dropped from the queue: ${dropped}`,
    check !== null && checkText(check),
    ...(sizes === null ? [] : sizesText(sizes)),
  ]
  return `${table.toString()}\n${rest.filter((line) => line !== false).join('\n')}\n`
}

function checkText({ p99Off, throughputOff }: PredictionCheck): string {
  const percent = (share: number) => `${share < 0 ? '' : '+'}${(share * 100).toFixed(1)} %`
  const off = `prediction error for the recording itself: p99 ${percent(p99Off)}, answers/s ${percent(throughputOff)}`
  if (isWithin({ p99Off, throughputOff })) return off
  return `${off}\nnot reliable: the error exceeds ${trustedWithin.p99 * 100} % of the p99 or ${trustedWithin.throughput * 100} % of the answers, and other configurations may be predicted worse`
}

function sizesText({ batches, neverRan, seldomRan, isTrusted }: SeldomSizes): string[] {
  if (neverRan + seldomRan === 0) return []
  const told = `of ${batches} predicted batches, ${neverRan} have sizes that never ran in the recording, and ${seldomRan} sizes that ran fewer than ${fewestRuns} times: their run times are estimated from other sizes`
  const doubt = `not reliable: that is more than ${trustedSeldomShare * 100} % of the batches; measure their times with -m model.onnx, or give them by --service`
  return isTrusted ? [told] : [told, doubt]
}

function configurationText(configuration: Parameters<typeof simulationText>[2]): string {
  const { instances, preferredBatchSizes, maxQueueDelayMs, latencyTargetMs } = configuration
  const parts = [
    instances === 1 ? '1 instance' : `${instances} instances`,
    configuration.joinRequests
      ? `batches of up to ${configuration.maxBatchSize} rows`
      : 'each request by itself',
    preferredBatchSizes.length > 0 && `preferably ${preferredBatchSizes.join(', ')}`,
    maxQueueDelayMs > 0 && `a delay of ${maxQueueDelayMs} ms`,
    latencyTargetMs > 0 && `a latency target of ${latencyTargetMs} ms`,
  ]
  return `predicted for ${parts.filter((part) => part !== false).join(', ')}`
}
