import { statSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import { cut, InferenceError, listNames } from '../errors.ts'
import type { ModelMetadata } from '../index.ts'
import { joiningAtLoad } from '../models/row-check/joining-at-load.ts'
import type { DeclaredValue, ExternalFile, OnnxFile, TensorTotals } from '../onnx/read-onnx-file.ts'
import { answerQuestions } from '../onnx/row-proof/prove-rows.ts'
import { readGraph } from '../onnx/row-proof/read-graph.ts'
import { resolveConfig } from '../options/model-config.ts'
import { floatTolerance } from '../schedule/joining.ts'
import {
  bindingCarrier,
  libraryCarrier,
  type Carrier,
  notStackable,
  servable,
  shownShape,
} from '../tensor/metadata.ts'
import { isElementType } from '../tensor/tensor.ts'
import { failureOf, oneLine, printReport, tableText, type Failure } from './command-line.ts'
import {
  completed,
  leavesOutShapes,
  leavesOutTypes,
  openingLimitMs,
  openModel,
  readModelFile,
  withShapes,
  type ModelValues,
  type OpenedModel,
} from './model-file.ts'

interface InspectOptions {
  readonly run: boolean
  readonly timeout: number
  readonly json: boolean
}

/** `zerohop inspect model.onnx`: what a model consists of, and how it would be served. */
export const inspect = new Command('inspect')
  .description(
    "show a model's inputs, outputs, operators and parameters, whether requests can share runs, and what an engine would refuse",
  )
  .argument('<model>', 'path of an .onnx or .ort file')
  .option(
    '-r, --run',
    'also run the model, in its own process, to find out whether requests can share runs',
    false,
  )
  .option('-t, --timeout <seconds>', 'time limit of --run', seconds, openingLimitMs / 1000)
  .option('-j, --json', 'print JSON', false)
  .addHelpText(
    'after',
    '\nWithout --run the model is opened only if its file is incomplete (types, or shapes of outputs, are missing,\nor it is an .ort file). Weights are not read.',
  )
  .action(async (path: string, { run, timeout, json }: InspectOptions) => {
    printReport(await inspectModel(path, run, timeout * 1000), json, inspectionText)
  })

function seconds(text: string): number {
  const value = Number(text)
  if (Number.isFinite(value) && value > 0 && value <= 86_400) return value
  throw new InvalidArgumentError('Expected a number of seconds, at most a day.')
}

/** Whether requests share runs, if known. */
interface Batching {
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
interface Serving {
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
  const opened =
    needed || leavesOutShapes(file)
      ? await openModel(path, limitMs).catch((error: unknown) => {
          if (error instanceof InferenceError) return error
          throw error
        })
      : null
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

/** Most operators listed. */
const operatorsShown = 8
/** Most characters of a text shown. */
const mostText = 200

/** An inspection as text: a table of what is known; empty fields are left out. */
function inspectionText(inspection: Inspection): string {
  const { inputs, outputs, initializedInputs = [], batching, executors, problems, error } = inspection
  return tableText(12, [
    ['file', [`${inspection.path}, ${bytes(inspection.byteLength)}`]],
    ['format', formatOf(inspection)],
    ['made by', [line(`${inspection.producer?.name ?? ''} ${inspection.producer?.version ?? ''}`)]],
    ['model', modelOf(inspection)],
    ['inputs', inputs.map(shownValue)],
    ['outputs', outputs.map(shownValue)],
    [
      'with values',
      initializedInputs.map(
        (value) =>
          `${shownValue(value)}, an input and an initializer: requests may give it where optionalInputs or inputs name it`,
      ),
    ],
    ['parameters', totals(inspection.parameters)],
    ['constants', inspection.constants?.tensors === 0 ? [] : totals(inspection.constants)],
    ['operators', operatorsOf(inspection.operators)],
    ['functions', (inspection.functions ?? []).map((name) => line(name))],
    ['data', (inspection.externalFiles ?? []).map(externalFile)],
    [
      'metadata',
      Object.entries(inspection.metadata ?? {}).map(([name, value]) => `${line(name)}: ${line(value)}`),
    ],
    ['batchable', [shownBatching(batching)]],
    ['refused', refused(executors)],
    ['problems', problems],
    ['opened', opened(inspection)],
    ['not opened', error === undefined ? [] : [line(error.message)]],
  ])
}

function formatOf({ format, irVersion, opsets = {} }: Inspection): string[] {
  if (format === 'ort') return ["ONNX Runtime's own, which says nothing without being opened"]
  const sets = Object.entries(opsets).map(([domain, version]) => `${version} of ${line(domain)}`)
  return [`ONNX, IR version ${irVersion}, ${sets.length === 0 ? 'no opset' : `opset ${sets.join(', ')}`}`]
}

function modelOf({ graphName = '', domain = '', modelVersion = 0, description = '' }: Inspection): string[] {
  const version = modelVersion === 0 ? '' : `version ${modelVersion}`
  return [
    [graphName, domain, version]
      .filter(Boolean)
      .map((text) => line(text))
      .join(', '),
    line(description),
  ]
}

function shownValue({ name, type, shape }: DeclaredValue): string {
  const shown = shape === null ? ' of unknown shape' : isElementType(type) ? ` ${shownShape(shape)}` : ''
  return `${line(name)}  ${type === 'undefined' ? 'unknown' : type}${shown}`
}

function totals(of: TensorTotals | undefined): string[] {
  if (of === undefined) return []
  return [
    `${number(of.elements)} in ${number(of.tensors)} ${of.tensors === 1 ? 'tensor' : 'tensors'}, ${bytes(of.byteLength)}`,
  ]
}

function operatorsOf(operators: Inspection['operators']): string[] {
  if (operators === undefined) return []
  const all = Object.entries(operators)
  const shown = all.slice(0, operatorsShown).map(([name, times]) => `${times} ${line(name)}`)
  const more = all.length > operatorsShown ? `, and ${all.length - operatorsShown} more kinds` : ''
  return [
    `${number(all.reduce((sum, [, times]) => sum + times, 0))}${shown.length === 0 ? '' : `: ${shown.join(', ')}`}${more}`,
  ]
}

function externalFile({ location, byteLength, problem }: ExternalFile): string {
  return `${line(location)}, ${problem ?? bytes(byteLength!)}`
}

function shownBatching({ batchable, reason, maxBatchSize }: Batching): string {
  const word = batchable === null ? 'perhaps' : batchable ? `yes, up to ${maxBatchSize} rows` : 'no'
  return `${word}: ${reason}${batchable === null ? `. What settles it: ${maxBatchSize === null ? '--run, ' : ''}dims (inputs: [{ name, dims }]), warm-up samples, or maxBatchSize` : ''}`
}

function refused(executors: Inspection['executors']): string[] {
  const lines = Object.entries(executors).flatMap(([executor, { reason, leftOut }]) =>
    reason === null
      ? leftOut.map(({ name, type }) => `output ${line(name)} (${type}), with executor: '${executor}'`)
      : [`the model, with executor: '${executor}': ${line(reason, 2 * mostText)}`],
  )
  return lines.length === 0 ? ['nothing'] : lines
}

function opened({ opened: executor }: Inspection): string[] {
  if (executor === null) return []
  return [
    `in a separate process, with executor: '${executor.kind}'${executor.ortVersion === null ? '' : ` and ONNX Runtime ${executor.ortVersion}`}`,
  ]
}

/** Text from a file, or its beginning. */
function line(text: string, most = mostText): string {
  return cut(oneLine(text), most)
}

const number = (value: number): string => value.toLocaleString('en-US')

function bytes(count: number): string {
  const exact = `${number(count)} ${count === 1 ? 'byte' : 'bytes'}`
  if (count < 1024) return exact
  const units = ['KiB', 'MiB', 'GiB', 'TiB']
  const power = Math.min(units.length, Math.floor(Math.log2(count) / 10))
  return `${(count / 1024 ** power).toFixed(1)} ${units[power - 1]}`
}
