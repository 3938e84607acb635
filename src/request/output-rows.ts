import type { ResolvedConfig } from '../options/resolve-model-config.ts'
import { invalidArgument, listNames, type InferenceError } from '../errors.ts'
import { shownShape, type ModelMetadata, type OutputRows, type ValueMetadata } from '../tensor/metadata.ts'
import { isSmallFloat, significantBits } from '../tensor/small-floats.ts'
import { isElementType, isFloatType, isPacked } from '../tensor/tensor.ts'

type Config = Pick<ResolvedConfig, 'maxBatchSize' | 'defaultMaxBatchSize' | 'outputs' | 'sequence'>

/** Where it is said. */
interface Said {
  readonly model: string
  readonly option: string
}

/**
 * The tensors of a model, with how the entries of its outputs belong to rows where that is said of them.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for an output that is not there, or cannot be divided or read so.
 */
export function withOutputRows<T extends Pick<ModelMetadata, 'outputs'>>(
  model: string,
  config: Config,
  served: T,
): T {
  const entries = config.outputs ?? []
  if (entries.every(({ rows }) => rows === undefined)) return served
  if (config.sequence !== null) {
    throw invalid(
      { model, option: `outputs[${entries.findIndex(({ rows }) => rows !== undefined)}].rows` },
      'to be left out for a model with sequences, each of whose requests is one row of every output',
      'rows',
    )
  }
  const byName = new Map<string, OutputRows>()
  for (const [index, { name, rows }] of entries.entries()) {
    if (rows === undefined) continue
    const said = { model, option: `outputs[${index}].rows` }
    const output = served.outputs.find((value) => value.name === name)
    if (output === undefined) continue // the name is checked with all others
    checkEntries(said, output)
    if (rows.counts !== undefined) checkCounts(said, rows.counts, output, served.outputs)
    else checkIndex(said, rows, output, served.outputs, config.maxBatchSize ?? config.defaultMaxBatchSize)
    byName.set(name, rows)
  }
  for (const [index, { rows }] of entries.entries()) {
    const { index: column, of, counts } = rows ?? {}
    if (counts !== undefined && byName.has(counts))
      throw invalid(
        { model, option: `outputs[${index}].rows.counts` },
        'an output with one entry per row',
        `'${counts}', whose rows are ${JSON.stringify(byName.get(counts))}`,
      )
    if (of === undefined) continue
    const own = byName.get(of)
    if (own !== undefined && (own.index !== column || (own.of ?? of) !== of))
      throw invalid(
        { model, option: `outputs[${index}].rows.of` },
        `an output whose own rows are { index: ${column} }`,
        `'${of}', whose rows are ${JSON.stringify(own)}`,
      )
    byName.set(of, { index: column! })
  }
  return {
    ...served,
    outputs: served.outputs.map((value) =>
      byName.has(value.name) ? { ...value, rows: byName.get(value.name)! } : value,
    ),
  }
}

/** Its first dimension counts entries, of which there may be any number. */
function checkEntries(said: Said, { name, type, shape }: ValueMetadata): void {
  if (!isElementType(type)) throw invalid(said, `to be left out, since '${name}' is no tensor`, type)
  if (shape.length > 0 && typeof shape[0] !== 'string')
    throw invalid(
      said,
      `an output whose first dimension is variable, as it counts entries`,
      `'${name}' of shape ${shownShape(shape)}`,
    )
}

function checkIndex(
  said: Said,
  { index: column, of }: OutputRows,
  output: ValueMetadata,
  outputs: readonly ValueMetadata[],
  maxBatchSize: number,
): void {
  const source = of === undefined ? output : find({ ...said, option: `${said.option}.of` }, of, outputs)
  if (source !== output) checkEntries({ ...said, option: `${said.option}.of` }, source)
  const { name, type, shape } = source
  const option = `${said.option}.index`
  const columns = shape.length === 1 ? 1 : (shape[1] ?? '')
  if (shape.length > 2 || (typeof columns === 'number' && column! >= columns)) {
    throw invalid({ ...said, option }, `a column of '${name}', whose shape is ${shownShape(shape)}`, column)
  }
  if (!isNumeric(type)) throw invalid({ ...said, option }, 'a column of numbers', `'${name}' of ${type}`)
  const most = largestWhole(type)
  if (most < maxBatchSize - 1)
    throw invalid(
      { ...said, option },
      `a type that counts ${maxBatchSize} rows (maxBatchSize)`,
      `'${name}' of ${type}, which counts to ${most}`,
    )
}

function checkCounts(
  said: Said,
  counts: string,
  output: ValueMetadata,
  outputs: readonly ValueMetadata[],
): void {
  const option = `${said.option}.counts`
  const { name, type, shape } = find({ ...said, option }, counts, outputs)
  if (name === output.name)
    throw invalid({ ...said, option }, 'another output than the one that is divided', counts)
  if (!isNumeric(type)) throw invalid({ ...said, option }, 'an output of numbers', `'${name}' of ${type}`)
  if (
    typeof shape[0] !== 'string' ||
    shape.length > 2 ||
    (shape.length === 2 && typeof shape[1] === 'number' && shape[1] !== 1)
  ) {
    throw invalid(
      { ...said, option },
      'an output of shape [rows] or [rows, 1]',
      `'${name}' of shape ${shownShape(shape)}`,
    )
  }
}

function find(said: Said, name: string, outputs: readonly ValueMetadata[]): ValueMetadata {
  const found = outputs.find((value) => value.name === name)
  if (found === undefined)
    throw invalid(
      said,
      `one of the outputs of the model (${listNames(outputs.map((each) => each.name))})`,
      name,
    )
  return found
}

/** Whether there are whole numbers among its values, each in bytes of its own. */
function isNumeric(type: ValueMetadata['type']): boolean {
  return (
    isElementType(type) &&
    type !== 'string' &&
    type !== 'bool' &&
    !isPacked(type) &&
    !type.startsWith('float8')
  )
}

/** Up to where a type has every whole number. */
function largestWhole(type: ValueMetadata['type']): number {
  if (isSmallFloat(type)) return 2 ** significantBits[type]
  if (!isElementType(type) || isFloatType(type)) return type === 'float32' ? 2 ** 24 : 2 ** 53
  const bits = Number(/\d+/.exec(type)![0])
  return Math.min(2 ** 53, 2 ** (type.startsWith('u') ? bits : bits - 1) - 1)
}

function invalid({ model, option }: Said, expected: string, received: unknown): InferenceError {
  return invalidArgument(option, expected, received, { code: 'ERR_MODEL_CONFIG', model })
}
