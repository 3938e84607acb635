import { Command } from 'commander'
import { invalidArgument } from '../errors.ts'
import { recordedFigures } from '../simulation/recorded-figures.ts'
import { simulate as simulateLoad } from '../simulation/simulate.ts'
import { oneLevel } from '../simulation/simulated-request.ts'
import { printJson } from './print-json.ts'
import { addSimulateOptions, simulatedRequests, type SimulateOptions } from './simulate-options.ts'
import { knownService } from './simulated-service.ts'
import { simulationText } from './simulation-text.ts'

/** `zerohop simulate --replay FILE`: what a configuration would make of a load. */
export const simulate = addSimulateOptions(new Command('simulate'))
  .description('predict latency and throughput of a recorded or made-up load, with another configuration or speed, in seconds: the queue itself on a virtual clock')
  .addHelpText('after', '\nWhat was recorded is told beside the prediction where the load is the same.')
  .action(async (options: SimulateOptions) => {
    const { arrivals, recording } = await simulatedRequests(options)
    const service = await knownService(options, recording)
    const { requestCount, batchSize, preferredBatchSizes, maxQueueDelayUs, latencyTargetMs, priorityLevels, seed, speed } = options
    const configuration = { instances: service.instances, maxBatchSize: service.maxBatchSize, preferredBatchSizes, maxQueueDelayMs: maxQueueDelayUs / 1000 }
    const largest = recording?.reduce((most, { rows }) => Math.max(most, rows), 1) ?? batchSize
    if (largest > service.maxBatchSize) throw invalidArgument('--max-batch-size', `at least ${largest}, the rows of the largest request`, service.maxBatchSize)
    const predicted = simulateLoad({
      ...service, ...configuration, arrivals, requests: requestCount, seed,
      rows: [{ rows: batchSize, share: 1 }],
      ...(priorityLevels === undefined ? {} : { levels: { ...oneLevel, priorityLevels, defaultPriorityLevel: priorityLevels } }),
      ...(latencyTargetMs === undefined ? {} : { latencyTargetMs }),
    })
    const recorded = recording === null || speed !== 1 ? null : recordedFigures(recording)
    if (options.json) printJson({ configuration, recorded, predicted })
    else process.stdout.write(simulationText(predicted, recorded))
  })
