import { Command, InvalidArgumentError } from 'commander'
import { cut } from '../errors.ts'
import type { DeclaredValue, ExternalFile, TensorTotals } from '../onnx/read-onnx-file.ts'
import { shownShape } from '../tensor/metadata.ts'
import { isElementType } from '../tensor/tensor.ts'
import { tell, printJson, oneLine } from './command-line.ts'
import { inspectModel, type Batching, type Inspection, type Serving } from './inspection.ts'
import { openingLimitMs } from './open-in-child.ts'

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
    const inspection = await inspectModel(path, run, timeout * 1000)
    if (json) printJson(inspection)
    else process.stdout.write(inspectionText(inspection))
    const { error } = inspection
    if (error === undefined) return
    tell(error)
    process.exitCode = error.exitCode
  })

function seconds(text: string): number {
  const value = Number(text)
  if (Number.isFinite(value) && value > 0 && value <= 86_400) return value
  throw new InvalidArgumentError('Expected a number of seconds, at most a day.')
}

/** Most operators listed. */
const operatorsShown = 8
/** Most characters of a text shown. */
const mostText = 200

/** An inspection as text: a table of what is known; empty fields are left out. */
function inspectionText(inspection: Inspection): string {
  const { inputs, outputs, initializedInputs = [], batching, executors, problems, error } = inspection
  const rows: [name: string, lines: readonly string[]][] = [
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
  ]
  return rows
    .map(([name, lines]) =>
      table(
        name,
        lines.filter((text) => text !== ''),
      ),
    )
    .join('')
}

function table(name: string, lines: readonly string[]): string {
  return lines.map((text, index) => `${(index === 0 ? name : '').padEnd(12)}${oneLine(text)}\n`).join('')
}

function formatOf({ format, irVersion, opsets = {} }: Inspection): string[] {
  if (format === 'ort') return ["ONNX Runtime's own, which says nothing without being opened"]
  const sets = Object.entries(opsets).map(([domain, version]) => `${line(domain)} ${version}`)
  return [`ONNX, IR version ${irVersion}, operators of ${sets.length === 0 ? 'no version' : sets.join(', ')}`]
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

function refused({ native, binding }: Inspection['executors']): string[] {
  const lines = [...refusedBy('native', native), ...refusedBy('binding', binding)]
  return lines.length === 0 ? ['nothing'] : lines
}

function refusedBy(executor: string, { reason, leftOut }: Serving): string[] {
  if (reason !== null) return [`the model, with executor: '${executor}': ${line(reason, 2 * mostText)}`]
  return leftOut.map(({ name, type }) => `output ${line(name)} (${type}), with executor: '${executor}'`)
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
