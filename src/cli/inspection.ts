import { statSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { InferenceError, listNames } from '../errors.ts'
import type { ModelMetadata } from '../index.ts'
import { joiningAtLoad } from '../models/row-check/joining-at-load.ts'
import type { DeclaredValue, OnnxFile } from '../onnx/read-onnx-file.ts'
import { answerQuestions } from '../onnx/row-proof/prove-rows.ts'
import { readGraph } from '../onnx/row-proof/read-graph.ts'
import { resolveConfig } from '../options/model-config.ts'
import { floatTolerance } from '../schedule/joining.ts'
import { bindingCarrier, libraryCarrier, type Carrier, notStackable, servable } from '../tensor/metadata.ts'
import { failureOf, type Failure } from './command-line.ts'
import {
  completed,
  leavesOutShapes,
  leavesOutTypes,
  readModelFile,
  withShapes,
  type ModelValues,
} from './model-file.ts'
import { openModel, type OpenedModel } from './open-in-child.ts'

/** Whether requests share runs, if known. */
export interface Batching {
  /** `null` if it takes a run of the model to know. */
  readonly batchable: boolean | null
  readonly reason: string
  /** How it is known; see `metadata.joining`. */
  readonly how: ModelMetadata['joining']['how']
  /** The node at which rows meet, or that was not followed; `null` for none. */
  readonly node: string | null
  /** As in an engine; `null` if the model would have to run first, which was not requested. */
  readonly maxBatchSize: number | null
  readonly joining: ModelMetadata['joining'] | null
}

/** Whether an executor serves a model, by the types of its inputs and outputs. */
export interface Serving {
  readonly serves: boolean
  /** Why it does not serve the model. */
  readonly reason: string | null
  /** Outputs of types that it does not support. */
  readonly leftOut: readonly { readonly name: string; readonly type: string }[]
}

/** The result of `zerohop inspect`. A file in ONNX Runtime's own format has to be opened for it. */
export interface Inspection extends Partial<Omit<OnnxFile, keyof ModelValues>>, ModelValues<DeclaredValue> {
  readonly path: string
  readonly format: 'onnx' | 'ort'
  readonly byteLength: number
  readonly batching: Batching
  readonly executors: { readonly native: Serving; readonly binding: Serving }
  /** Problems that prevent loading, as far as the file shows. */
  readonly problems: readonly string[]
  /** How it was opened; `null` if it was not. */
  readonly opened: OpenedModel['executor'] | null
  /** Why it could not be opened, if that was requested. */
  readonly error?: Failure
}

/**
 * Inspects a model: its file, and what an engine finds, in a child process, if the file is incomplete or
 * `run` is set.
 *
 * @throws InferenceError `ERR_MODEL_NOT_FOUND` or `ERR_MODEL_LOAD` if the file cannot be read.
 */
export async function inspectModel(path: string, run: boolean, limitMs: number): Promise<Inspection> {
  const file = await readModelFile(path)
  const needed = run || file === null || leavesOutTypes(file)
  const opened = needed || leavesOutShapes(file) ? await attempt(() => openModel(path, limitMs)) : null
  if (file === null && opened instanceof Error) throw opened
  const model = opened instanceof Error ? null : opened
  const values = completed(file, model)
  const absolute = resolve(path)
  return {
    ...file,
    path: absolute,
    format: file === null ? 'ort' : 'onnx',
    byteLength: file?.byteLength ?? statSync(absolute).size,
    ...values,
    batching: model === null ? await provenBatching(absolute, values) : batchingOf(model),
    executors: {
      native: serving(path, values, libraryCarrier),
      binding: serving(path, values, bindingCarrier),
    },
    problems: file === null ? [] : problemsOf(file),
    opened: model?.executor ?? null,
    ...(needed && opened instanceof Error ? { error: failureOf(opened) } : {}),
  }
}

async function attempt<T>(work: () => Promise<T>): Promise<T | InferenceError> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof InferenceError) return error
    throw error
  }
}

/** As an engine has found it. */
function batchingOf({ metadata }: OpenedModel): Batching {
  const { maxBatchSize, joining } = metadata
  const { reason, how, node = null } = joining
  const batchable =
    maxBatchSize > 0 ? true : joining.rows === 'unknown' && notStackable(metadata) === null ? null : false
  return { batchable, reason, how, node, maxBatchSize, joining }
}

/** From the file alone, as far as it suffices. */
async function provenBatching(path: string, values: ModelValues<DeclaredValue>): Promise<Batching> {
  const unknown = (reason: string, node: string | null = null): Batching => ({
    batchable: null,
    reason,
    how: 'unknown',
    node,
    maxBatchSize: null,
    joining: null,
  })
  if (leavesOutTypes(values)) return unknown('the file does not say the types of all inputs and outputs')
  const untoldShape = [...values.inputs, ...values.outputs].find(({ shape }) => shape === null)
  if (untoldShape !== undefined) return unknown(`the file does not say the shape of '${untoldShape.name}'`)
  const { inputs, outputs } = withShapes(values) as ModelValues
  const graph = {
    note: () => '',
    setNote: () => {},
    prove: async (questions: Parameters<typeof answerQuestions>[1]) =>
      answerQuestions(() => readGraph(path), questions),
  }
  const { joining, maxBatchSize } = (
    await joiningAtLoad(
      '',
      resolveConfig('', { path }),
      { inputs, outputs, unservableOutputs: [], executionProviders: [] },
      floatTolerance,
      graph,
    )
  ).metadata
  const { rows, how, node = null, reason } = joining
  return rows === 'unknown'
    ? unknown(reason, node)
    : { batchable: rows === 'independent', reason, how, node, maxBatchSize, joining }
}

function serving(path: string, values: ModelValues<DeclaredValue>, carrier: Carrier): Serving {
  try {
    return {
      serves: true,
      reason: null,
      leftOut: servable(basename(path), withShapes(values), carrier).unservableOutputs,
    }
  } catch (error) {
    return { serves: false, reason: (error as Error).message, leftOut: [] }
  }
}

/** Operator domains that ONNX Runtime includes, besides ONNX's own. */
const knownDomains = new Set([
  'ai.onnx.ml', 'ai.onnx.training', 'ai.onnx.preview.training', 'com.microsoft', 'com.microsoft.experimental', 'com.microsoft.nchwc',
  'com.microsoft.dml', 'com.ms.internal.nhwc', 'org.pytorch.aten',
]) // prettier-ignore

/** Problems in a model's file that prevent loading. */
function problemsOf({ operators, functions, externalFiles, outputs }: OnnxFile): string[] {
  const problems = externalFiles.flatMap(({ location, problem }) =>
    problem === null ? [] : [`external data '${location}': ${problem}`],
  )
  const own = new Set(functions)
  const unknown = Object.keys(operators).filter(
    (name) => !knownDomains.has(domainOf(name)) && domainOf(name) !== '' && !own.has(name),
  )
  if (unknown.length > 0) problems.push(`operators that ONNX Runtime does not have: ${listNames(unknown)}`)
  if (outputs.length === 0) problems.push('it has no outputs')
  return problems
}

const domainOf = (operator: string): string => operator.slice(0, Math.max(0, operator.lastIndexOf(':')))
