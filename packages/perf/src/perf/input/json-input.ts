import { invalidArgument, NotReadable, readRegularText } from 'zerohop/internals'
import type { InputShape } from './input-shapes.ts'
import { readJsonTensor } from './json-tensor.ts'
import type { RowTensor } from './row-tensors.ts'
import type { Step, Stream } from './step.ts'

/** What the inputs and outputs of a model are like. */
export interface ModelShapes {
  readonly inputs: readonly InputShape[]
  /** Names of those that a request may leave out. */
  readonly optionalInputs: ReadonlySet<string>
  readonly outputs: readonly InputShape[]
}

/**
 * Reads a file of data as perf_analyzer has them: `{ "data": [entries], "validation_data": [entries] }`, entries with a tensor for
 * each input, or arrays of such entries, which are sequences.
 *
 * @throws InferenceError `ERR_INVALID_ARG`, and what reading the file throws.
 */
export async function readJsonInput(
  path: string,
  { inputs, optionalInputs, outputs }: ModelShapes,
): Promise<Stream[]> {
  const { data, validation_data: validation } = await parsed(path)
  if (!Array.isArray(data) || data.length === 0)
    throw invalidArgument(`${path}: data`, 'an array of entries', data)
  if (validation !== undefined && (!Array.isArray(validation) || validation.length !== data.length))
    throw invalidArgument(
      `${path}: validation_data`,
      `an array of ${data.length} entries, as data has`,
      validation,
    )
  const streams: Stream[] = []
  const loose: Step[] = []
  for (const [index, entry] of data.entries()) {
    const where = `${path}: data[${index}]`
    const expected = (validation as unknown[] | undefined)?.[index]
    const step = (each: unknown, wanted: unknown, at: string): Step => ({
      inputs: readEntry(each, inputs, optionalInputs, at),
      outputs:
        wanted === undefined
          ? new Map<string, RowTensor>()
          : readEntry(
              wanted,
              outputs,
              new Set(outputs.map(({ name }) => name)),
              at.replace(': data', ': validation_data'),
            ),
    })
    if (!Array.isArray(entry)) loose.push(step(entry, expected, where))
    else if (entry.length === 0) throw invalidArgument(where, 'a sequence of at least one entry', entry)
    else {
      if (expected !== undefined && (!Array.isArray(expected) || expected.length !== entry.length))
        throw invalidArgument(
          `${path}: validation_data[${index}]`,
          `an array of ${entry.length} entries, as the sequence has`,
          expected,
        )
      streams.push(
        entry.map((each, at) => step(each, (expected as unknown[] | undefined)?.[at], `${where}[${at}]`)),
      )
    }
  }
  if (loose.length > 0 && streams.length > 0)
    throw invalidArgument(`${path}: data`, 'either entries or sequences of entries', 'both')
  return loose.length > 0 ? [loose] : streams
}

async function parsed(path: string): Promise<{ data?: unknown; validation_data?: unknown }> {
  try {
    return Object(JSON.parse(await readRegularText(path))) as object
  } catch (cause) {
    if (cause instanceof SyntaxError || cause instanceof NotReadable)
      throw invalidArgument(path, 'a file of JSON', cause.message, { cause })
    throw cause
  }
}

function readEntry(
  entry: unknown,
  values: readonly InputShape[],
  optional: ReadonlySet<string>,
  where: string,
): Map<string, RowTensor> {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry))
    throw invalidArgument(where, 'an object with a tensor under each name', entry)
  const strange = Object.keys(entry).find((name) => !values.some((value) => value.name === name))
  if (strange !== undefined)
    throw invalidArgument(where, `names of the model (${values.map(({ name }) => name).join(', ')})`, strange)
  const tensors = new Map<string, RowTensor>()
  for (const value of values) {
    const given = Object.hasOwn(entry, value.name)
      ? (entry as Record<string, unknown>)[value.name]
      : undefined
    if (given !== undefined) tensors.set(value.name, readJsonTensor(given, value, `${where}.${value.name}`))
    else if (!optional.has(value.name)) throw invalidArgument(`${where}.${value.name}`, 'a tensor', given)
  }
  return tensors
}
