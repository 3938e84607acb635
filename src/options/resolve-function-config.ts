import { resolve } from 'node:path'
import * as v from 'valibot'
import { invalidArgument, type InferenceError } from '../errors.ts'
import { filePath } from '../base/files.ts'
import { defaultMaxBatchSize, type RawValueMetadata } from '../tensor/metadata.ts'
import type { TensorType } from '../tensor/tensor.ts'
import { checkConfig } from './check-config.ts'
import { threadEntries, type WorkerOptions } from './engine-options.ts'
import type { FunctionWorkerOptions } from './function-config.ts'
import type { ModelFunction } from './function-module.ts'
import { optionsOf, properties } from './options-schema.ts'
import { resolveConfig, type ResolvedConfig } from './resolve-model-config.ts'
import { scalingEntries } from './scaling-options.ts'
import { carriedType } from './tensor-config.ts'
import { wholeNumber } from './whole-number.ts'

/** More would only wait for each other. */
const maxConcurrency = 1024

const dim = v.union([
  v.pipe(v.number(), v.integer('a whole number')),
  v.pipe(v.string(), v.minLength(1, 'a name')),
])
const entries = {
  name: v.pipe(v.string(), v.minLength(1, 'a name')),
  type: carriedType,
  dims: v.optional(v.array(dim), []),
}
/** A URL of what is no file; a drive of Windows has one letter. */
const otherScheme = /^(?!file:)[a-z][a-z\d+.-]+:/i
/** What takes some microseconds is not divided among threads. */
const oneThread = { sessionOptions: { intraOpNumThreads: 1 } }
/** Checked as a model's. */
const asOfModels = v.optional(v.unknown())

const schema = optionsOf({
  module: v.optional(v.unknown()),
  run: v.optional({
    ...v.custom<ModelFunction>((given) => typeof given === 'function'),
    expects: 'a function',
  }),
  inputs: v.pipe(
    v.array(optionsOf({ ...entries, optional: v.optional(v.boolean(), false) })),
    v.minLength(1, 'at least one input'),
  ),
  outputs: v.pipe(
    v.array(optionsOf({ ...entries, labels: v.optional(v.array(v.string())) })),
    v.minLength(1, 'at least one output'),
  ),
  graph: v.optional(v.unknown()),
  maxBatchSize: v.optional(wholeNumber(0), defaultMaxBatchSize),
  instanceGroup: v.optional(v.pipe(v.array(optionsOf(scalingEntries)), v.length(1, 'one group')), [{}]),
  concurrency: v.optional(wholeNumber(1, maxConcurrency), 1),
  parameters: v.optional(properties, {}),
  workers: v.optional(optionsOf(threadEntries), {}),
  rerunAfterCrash: v.optional(v.boolean(), true),
  warmup: v.optional(v.array(v.unknown()), []),
  version: asOfModels,
  dynamicBatching: asOfModels,
  latencyTargetMs: asOfModels,
  maxRunMs: asOfModels,
  rejectNonFinite: asOfModels,
  splitOversized: asOfModels,
  responseCache: asOfModels,
  coalesce: asOfModels,
})

/**
 * Turns what the caller gave for a function into the configuration of a model, checked, complete and frozen.
 *
 * @param workers of the engine, for what the function's own leave out.
 * @throws InferenceError `ERR_MODEL_CONFIG` with the option's path, what was expected and what was received.
 */
export function resolveFunctionConfig(
  model: string,
  config: unknown,
  workers: WorkerOptions,
): ResolvedConfig {
  const {
    module,
    run,
    graph,
    inputs,
    outputs,
    maxBatchSize,
    instanceGroup,
    concurrency,
    parameters,
    workers: ownWorkers,
    warmup,
    ...shared
  } = checkConfig(schema, model, config)
  const groups = instanceGroup.map((group) => ({ kind: 'cpu', ...group }))
  if (graph !== undefined) {
    const resolved = resolveConfig(model, {
      ...shared,
      ...warmed(warmup),
      bytes: graph,
      maxBatchSize,
      checkRows: false,
      instanceGroup: groups,
      ...oneThread,
    })
    return Object.freeze({ ...resolved, isSmallGraph: true })
  }
  const path = moduleFile(model, module, run)
  checkTensors(model, 'inputs', inputs)
  checkTensors(model, 'outputs', outputs)
  checkPosted(model, parameters)
  const labelled = outputs.some(({ labels }) => labels !== undefined)
  const resolved = resolveConfig(model, {
    ...shared,
    path: path === '' ? import.meta.url : path, // any will do where there is none
    maxBatchSize,
    checkRows: false,
    warmup,
    instanceGroup: groups,
    optionalInputs: inputs.filter(({ optional }) => optional).map(({ name }) => name),
    ...(labelled && { outputs: outputs.map(({ name, labels }) => ({ name, ...(labels && { labels }) })) }),
  })
  const batched = maxBatchSize > 0
  return Object.freeze({
    ...resolved,
    path: path === '' ? '' : resolve(path),
    function: {
      inputs: inputs.map((input) => metadataOf(input, batched)),
      outputs: outputs.map((output) => metadataOf(output, batched)),
      batched, model, parameters, concurrency, run: run ?? null,
      workers: { ...workers, ...ownWorkers } as FunctionWorkerOptions,
    },
  }) // prettier-ignore
}

/** A graph is warmed as any model where no samples are given. */
function warmed(warmup: readonly unknown[]): { warmup?: readonly unknown[] } {
  return warmup.length === 0 ? {} : { warmup }
}

/** The path of its module; '' for one that has none. */
function moduleFile(model: string, module: unknown, run: ModelFunction | undefined): string {
  if (run !== undefined) {
    if (module === undefined) return ''
    throw wrong(model, 'run', 'to be left out beside module: a function comes from one of them', run)
  }
  const path = typeof module === 'string' && otherScheme.test(module) ? null : filePath(module)
  if (path === null)
    throw wrong(
      model,
      'module',
      `the path or file: URL of a module${module === undefined ? ', or run: a function' : ''}`,
      module instanceof URL ? module.href : module,
    )
  return path
}

interface Entry {
  readonly name: string
  readonly type: TensorType
  readonly dims: readonly (number | string)[]
}

function metadataOf({ name, type, dims }: Entry, batched: boolean): RawValueMetadata {
  const shape = dims.map((each) => (each === -1 ? '' : each))
  if (!batched) return { name, type, shape }
  return { name, type, shape: ['rows', ...shape], ...(dims.includes(-1) && { ragged: true }) }
}

function checkTensors(model: string, option: 'inputs' | 'outputs', tensors: readonly Entry[]): void {
  const names = tensors.map(({ name }) => name)
  for (const [index, { name, dims }] of tensors.entries()) {
    if (names.indexOf(name) !== index)
      throw wrong(model, `${option}[${index}].name`, 'a name of its own', name)
    const strange = dims.find((each) => typeof each === 'number' && each < 1 && each !== -1)
    if (strange !== undefined)
      throw wrong(
        model,
        `${option}[${index}].dims`,
        'dims of at least 1, names, or -1 for one that each row has its own',
        strange,
      )
  }
}

function checkPosted(model: string, parameters: unknown): void {
  try {
    structuredClone(parameters)
  } catch (error) {
    throw wrong(model, 'parameters', 'values that can be posted to a thread', (error as Error).message)
  }
}

function wrong(model: string, name: string, expected: string, received: unknown): InferenceError {
  return invalidArgument(name, expected, received, { code: 'ERR_MODEL_CONFIG', model })
}
