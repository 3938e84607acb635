import { Command } from 'commander'
import { type Arrival, printJson } from 'zerohop/internals'
import {
  checkPrediction,
  configIn,
  type PredictionCheck,
  recordedFigures,
} from '../simulation/recorded-run.ts'
import { seldomSizes, type SeldomSizes } from '../simulation/service-times.ts'
import { simulate as simulateLoad, type SimulationOptions } from '../simulation/simulate.ts'
import type { SimulationResult } from '../simulation/simulation-result.ts'
import { addSimulateOptions, simulatedRequests, usage, type SimulateOptions } from './simulate-options.ts'
import {
  knownService,
  type KnownService,
  recordedService,
  simulatedConfiguration,
} from './simulated-service.ts'
import { simulationText } from './simulation-text.ts'

/** `zerohop simulate --replay FILE`: predicts how a configuration serves a load. */
export const simulate = addSimulateOptions(new Command('simulate'))
  .description(
    'predict latency and throughput of a recorded or made-up load, with another configuration or speed, in seconds: the queue itself on a virtual clock',
  )
  .addHelpText(
    'after',
    '\nWhat was recorded is told beside the prediction where the load is the same, and how well the recording is predicted by itself.',
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
function simulatedCosts({
  costs: mix,
  joinBy,
  maxBatchCost,
  maxPaddingShare,
  service,
  maxBatchSize,
}: SimulateOptions): Pick<SimulationOptions, 'costs'> {
  const isLimited = maxBatchCost !== undefined || maxPaddingShare !== undefined
  if (mix === undefined) {
    if (isLimited) throw usage('--max-batch-cost and --max-padding-share need --costs')
    return {}
  }
  if (isLimited && joinBy === 'arrival')
    throw usage('--max-batch-cost and --max-padding-share limit nothing with --join-by arrival')
  if (service === undefined || maxBatchSize === undefined)
    throw usage('--costs needs --service, of what runs take by their cost, and --max-batch-size')
  return {
    costs: {
      mix,
      joinBy,
      ...(maxBatchCost === undefined ? {} : { maxBatchCost }),
      ...(maxPaddingShare === undefined ? {} : { maxPaddingShare }),
    },
  }
}
