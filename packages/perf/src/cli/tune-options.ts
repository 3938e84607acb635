import { Option, type Command } from 'commander'
import type { EngineOptions, ModelOptions } from 'zerohop'
import { addPlugin, json, type NamedPlugin } from './perf-engine-options.ts'
import { shape } from './perf-input-options.ts'
import { above, collect, list, whole } from './perf-measure-options.ts'

/** Options of `zerohop tune`, in commander's form. */
export interface TuneOptions {
  readonly latencyP99?: number
  readonly memory?: number
  readonly budget: number
  readonly concurrency?: number
  readonly requestRate?: number
  readonly batchSize: number
  readonly shape: readonly (readonly [name: string, dims: readonly number[]])[]
  readonly inputData: readonly string[]
  readonly instances?: readonly number[]
  readonly intraOpThreads?: readonly number[]
  readonly maxBatchSizes?: readonly number[]
  readonly maxQueueDelaysUs?: readonly number[]
  readonly maxBatchCosts?: readonly number[]
  readonly provider: string
  readonly plugin: readonly NamedPlugin[]
  readonly modelConfig: ModelOptions
  readonly engineOptions: EngineOptions
  readonly out?: string
  readonly format: 'json' | 'pbtxt'
  readonly state?: string
  readonly fresh: boolean
  readonly json: boolean
}

/** Adds the options to a command. */
export function addTuneOptions(command: Command): Command {
  return command
    .optionsGroup('Goal:')
    .option(
      '--latency-p99 <ms>',
      'the best throughput of which 99 of 100 requests are answered within so long',
      above(0),
    )
    .option(
      '--memory <MB>',
      'most memory of the process, with weights, arenas and staging memory, in megabytes',
      above(0),
    )
    .addOption(
      new Option(
        '--concurrency <callers>',
        'tune for so many callers that each wait for their answer (default: two full batches for each instance)',
      )
        .argParser(whole(1))
        .conflicts('requestRate'),
    )
    .option(
      '--request-rate <requests>',
      'tune for so many requests a second, at random moments: the lowest p99 of those that keep up',
      above(0),
    )
    .option('--budget <seconds>', 'longest time of all together', above(0), 120)
    .optionsGroup('Requests:')
    .option('-b, --batch-size <rows>', 'rows of a request', whole(1), 1)
    .addOption(
      new Option(
        '--shape <name:dims>',
        'dims of an input that the model leaves open, without the batch dimension; may be given several times',
      )
        .argParser(collect(shape))
        .default([], 'none'),
    )
    .addOption(
      new Option(
        '--input-data <what>',
        'random, zero, either of one input as NAME:zero, or a file of JSON or a folder with requests, as for zerohop perf; may be given several times',
      )
        .argParser(collect(String))
        .default([], 'random'),
    )
    .optionsGroup('What is searched:')
    .option('--instances <counts>', 'numbers of instances (default: 1, 2, 4 ... as many as cores)', list(1))
    .option(
      '--intra-op-threads <counts>',
      "intra-op threads of each (default: as many as the machine's cores allow for)",
      list(1),
    )
    .option(
      '--max-batch-sizes <rows>',
      'most rows in a run (default: 1, 2, 4 ... 128); given, rows are believed to be independent',
      list(1),
    )
    .option(
      '--max-queue-delays-us <list>',
      'longest waits for a batch to grow, in microseconds (default: 0, and parts of what a run takes)',
      amounts,
    )
    .option(
      '--max-batch-costs <list>',
      'most that a batch may cost, 0 for no limit, where --model-config has dynamicBatching.cost (default: half, once and twice its maxBatchCost, or 1024, 4096, 16384; and none)',
      amounts,
    )
    .optionsGroup('What stays as it is:')
    .option(
      '--provider <kind>',
      'where instances run: auto, cpu, cuda, webgpu, or the name of a --plugin',
      'auto',
    )
    .addOption(
      new Option('--plugin <name=library>', 'a provider plugin; may be given several times')
        .argParser(addPlugin)
        .default([], 'none'),
    )
    .addOption(
      new Option('--model-config <json>', 'other options of engine.load(), as JSON or in a file of it')
        .argParser(json)
        .default({}, 'none'),
    )
    .addOption(
      new Option('--engine-options <json>', 'options of the engine, likewise')
        .argParser(json)
        .default({}, 'none'),
    )
    .optionsGroup('Results:')
    .option(
      '-o, --out <file>',
      'the configuration that was found (default: zerohop-config.json, or config.pbtxt)',
    )
    .addOption(
      new Option('--format <format>', 'for engine.load(), or for a model repository')
        .choices(['json', 'pbtxt'])
        .default('json'),
    )
    .option(
      '--state <file>',
      'what was measured, for the next call to go on from (default: beside the output)',
    )
    .option('--fresh', 'forget what was measured', false)
    .option('-j, --json', 'print JSON', false)
}

const amounts = (text: string): number[] => text.split(',').map(above(0, true))
