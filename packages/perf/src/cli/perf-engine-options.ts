import { resolve } from 'node:path'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { DynamicBatchingConfig, EngineOptions, ExecutorChoice, ModelOptions } from 'zerohop'
import { fileErrorText, readRegularTextSync } from 'zerohop/internals'
import { withoutUndefined } from '../without-undefined.ts'
import { above, list, several, whole } from './perf-measure-options.ts'

/** Options of the engine and its model, in commander's form. */
export interface EngineCommandOptions {
  readonly instances?: number
  readonly provider?: string
  readonly maxBatchSize?: number
  readonly preferredBatchSizes?: number[]
  readonly maxQueueDelayUs?: number
  readonly maxQueueSize?: number
  readonly preserveOrdering?: true
  readonly dynamicBatching: boolean
  readonly latencyTargetMs?: number
  readonly responseCache?: true
  readonly rowCheck: boolean
  readonly cpuWorkers?: number
  readonly intraOpThreads?: number
  readonly executor?: ExecutorChoice
  readonly inline: boolean
  readonly plugin: readonly NamedPlugin[]
  readonly modelConfig?: ModelOptions
  readonly engineOptions?: EngineOptions
}

/** Adds the options to a command. */
export function addEngineOptions(command: Command): Command {
  return command
    .optionsGroup("Engine and model, overriding the configuration in the model's folder:")
    .option('--instances <count>', 'instances of the model', whole(1, 1024))
    .option('--provider <kind>', 'cpu, cuda, webgpu, or the name of a --plugin')
    .option('--max-batch-size <rows>', 'rows per run; 0: no batching', whole(0))
    .option(
      '--preferred-batch-sizes <list>',
      'batch sizes at which a batch is sent at once, such as 4,8',
      list(1),
    )
    .option('--max-queue-delay-us <us>', 'how long an idle instance waits for more rows', above(0, true))
    .option('--max-queue-size <count>', 'requests that may wait; further ones are refused', whole(0))
    .option('--preserve-ordering', 'answer in the order of requests')
    .option('--no-dynamic-batching', 'run each request alone')
    .option('--latency-target-ms <ms>', 'target for the p99 latency', above(0))
    .option('--response-cache', 'cache answers for equal requests')
    .option('--no-row-check', 'do not check on load whether rows are independent')
    .option('--cpu-workers <count>', 'most worker threads for the CPU', whole(1, 1024))
    .option('--intra-op-threads <count>', 'threads per run', whole(0))
    .addOption(
      new Option('--executor <kind>', 'how ONNX Runtime is called').choices(['auto', 'native', 'binding']),
    )
    .option('--no-inline', 'never run a model on the calling thread')
    .addOption(several('--plugin <name=library>', 'provider plugin', plugin))
    .option('--model-config <json>', 'options of engine.load(), as JSON or a JSON file', json)
    .option('--engine-options <json>', 'options of the engine, as JSON or a JSON file', json)
}

/** Converts the options to engine options. */
export function engineOptionsOf(options: EngineCommandOptions): EngineOptions {
  const { cpuWorkers, executor, inline } = options
  const given = { cpuWorkers, executor, inline: inline ? undefined : (false as const) }
  return {
    ...options.engineOptions,
    ...withoutUndefined({ ...given, providers: providersOf(options.plugin) }),
  }
}

/** The option `providers` of an engine; `undefined` without plugins. */
export function providersOf(plugins: readonly NamedPlugin[]): EngineOptions['providers'] {
  return plugins.length === 0
    ? undefined
    : Object.fromEntries(plugins.map(({ name, library }) => [name, { library }]))
}

/**
 * Converts the options to model options. `before` has those from elsewhere; they stay unless an option
 * replaces them.
 */
export function modelOptionsOf(options: EngineCommandOptions, before: ModelOptions): ModelOptions {
  const { modelConfig = {}, instances, provider, maxQueueDelayUs, maxQueueSize, intraOpThreads } = options
  const model = { ...before, ...modelConfig }
  const batching: DynamicBatchingConfig = withoutUndefined({
    preferredBatchSize: options.preferredBatchSizes,
    maxQueueDelayMs: maxQueueDelayUs === undefined ? undefined : maxQueueDelayUs / 1000,
    defaultQueuePolicy: maxQueueSize === undefined ? undefined : { maxQueueSize },
    preserveOrdering: options.preserveOrdering,
  })
  return {
    ...modelConfig,
    ...withoutUndefined({
      instanceGroup:
        instances === undefined && provider === undefined
          ? undefined
          : [{ ...model.instanceGroup?.[0], ...withoutUndefined({ kind: provider, count: instances }) }],
      maxBatchSize: options.maxBatchSize,
      dynamicBatching: !options.dynamicBatching
        ? (false as const)
        : Object.keys(batching).length === 0
          ? undefined
          : { ...(model.dynamicBatching === false ? {} : model.dynamicBatching), ...batching },
      latencyTargetMs: options.latencyTargetMs,
      responseCache: options.responseCache,
      checkRows: options.rowCheck ? undefined : false,
      sessionOptions:
        intraOpThreads === undefined
          ? undefined
          : { ...model.sessionOptions, intraOpNumThreads: intraOpThreads },
    }),
  }
}

/** Parses a JSON object, given as text or as a file's name. */
export function json(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(/^\s*[{[]/.test(text) ? text : readRegularTextSync(resolve(text)))
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
  } catch (error) {
    throw new InvalidArgumentError(
      `Expected a JSON object or the path of a JSON file: ${fileErrorText(error)}.`,
    )
  }
  throw new InvalidArgumentError('Expected a JSON object or the path of a JSON file.')
}

/** A provider plugin: its name and its library. */
export interface NamedPlugin {
  readonly name: string
  readonly library: string
}

/** Parses `name=library`. */
export function plugin(value: string): NamedPlugin {
  const [, name, library] = /^([a-z][a-z0-9_-]*)=(.+)$/.exec(value) ?? []
  if (name === undefined || library === undefined)
    throw new InvalidArgumentError('Expected a name and a path, such as openvino=plugins/openvino.so.')
  return { name, library: resolve(library) }
}
