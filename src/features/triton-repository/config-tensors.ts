import { join } from 'node:path'
import { readRegularFile } from '../../base/files.ts'
import type { WarmupSample } from '../../options/warmup-options.ts'
import type { Feeds, FeedValue } from '../../options/model-signature.ts'
import type { TensorConfig } from '../../options/tensor-config.ts'
import { prefixedStrings } from '../../tensor/elements.ts'
import { isSmallFloat, toSmallFloat } from '../../tensor/small-floats.ts'
import {
  byteLengthOf,
  elementCount,
  type ElementType,
  storageOf,
  type TensorData,
} from '../../tensor/tensor.ts'
import type { ConfigFields } from './config-fields.ts'

/** A label file and the index of its output in the configuration. */
export interface LabelFile {
  readonly output: number
  readonly name: string
  readonly fields: ConfigFields
}

const tensorRt = 'It is for TensorRT only: leave it out'

/** Reads `input`; `optional` has the names of inputs that a request may omit. */
export function readInputs(config: ConfigFields): { inputs: TensorConfig[]; optional: string[] } {
  const optional: string[] = []
  const inputs = config.messages('input').map((input) => {
    const tensor = readTensor(input)
    const format = input.enumerator('format')
    if (format !== undefined && format !== 'FORMAT_NONE') {
      if (tensor.dims!.length !== 3) input.fail('dims', `3 dims for ${format}`, tensor.dims)
      input.note('format', 'tensors are passed on as they are given')
    }
    if (input.boolean('optional') === true) optional.push(tensor.name)
    input.finish({
      refused: {
        is_shape_tensor: tensorRt,
        is_non_linear_format_io: tensorRt,
        allow_ragged_batch:
          'Requests of different shapes are never joined into one flat tensor; give padding in a config.ts to join them filled up to one length',
      },
    })
    return tensor
  })
  return { inputs, optional }
}

/** Reads `output`. */
export function readOutputs(config: ConfigFields): { outputs: TensorConfig[]; labelFiles: LabelFile[] } {
  const labelFiles: LabelFile[] = []
  const outputs = config.messages('output').map((output, index) => {
    const tensor = readTensor(output)
    const name = output.string('label_filename')
    if (name)
      labelFiles.push({ output: index, name: checkFileName(output, 'label_filename', name), fields: output })
    output.finish({ refused: { is_shape_tensor: tensorRt, is_non_linear_format_io: tensorRt } })
    return tensor
  })
  return { outputs, labelFiles }
}

function readTensor(tensor: ConfigFields): TensorConfig {
  const name = tensor.string('name')
  const type = tensor.enumerator('data_type')
  const dims = tensor.integers('dims')
  const reshape = tensor.message('reshape')
  if (!name) tensor.fail('name', 'the name of a tensor of the model', name)
  if (type === undefined || type === 'TYPE_INVALID')
    tensor.fail('data_type', 'a type, such as TYPE_FP32', type)
  if (dims.length === 0)
    tensor.fail('dims', 'at least one dimension, -1 for a variable one', tensor.has('dims') ? [] : undefined)
  const read = {
    name,
    type: elementTypes[type]!,
    dims,
    ...(reshape === undefined ? {} : { reshape: reshape.integers('shape') }),
  }
  reshape?.finish()
  return read
}

/** A relative path inside its folder. Any other path is refused. */
export function checkFileName(fields: ConfigFields, field: string, name: string): string {
  const parts = name.split(/[/\\]/)
  if (
    name.includes('\0') ||
    parts.some((part) => part === '' || part === '.' || part === '..') ||
    /^[A-Za-z]:/.test(name)
  ) {
    fields.fail(field, 'the name of a file in its folder', name)
  }
  return name
}

/** Element types by Triton's names. */
export const elementTypes: Readonly<Record<string, ElementType>> = {
  TYPE_BOOL: 'bool',
  TYPE_UINT8: 'uint8',
  TYPE_UINT16: 'uint16',
  TYPE_UINT32: 'uint32',
  TYPE_UINT64: 'uint64',
  TYPE_INT8: 'int8',
  TYPE_INT16: 'int16',
  TYPE_INT32: 'int32',
  TYPE_INT64: 'int64',
  TYPE_FP16: 'float16',
  TYPE_FP32: 'float32',
  TYPE_FP64: 'float64',
  TYPE_STRING: 'string',
  TYPE_BF16: 'bfloat16',
}

/** Triton's name of a type; `undefined` if it has none. */
export function tritonType(type: string): string | undefined {
  return Object.keys(elementTypes).find((name) => elementTypes[name] === type)
}

/** One `model_warmup`, before its files are read. */
export interface WarmupPlan {
  /** Index among the samples of the configuration. */
  readonly place: number
  readonly count: number
  readonly inputs: readonly (readonly [name: string, plan: TensorPlan])[]
}

/**
 * Reads `model_warmup`. A sample with a batch size runs as a batch of so many equal rows; without batching it
 * runs so many times, one by one.
 *
 * @param maxBatchSize `undefined` if it is to be derived from the model.
 */
export function readModelWarmup(config: ConfigFields, maxBatchSize: number | undefined): WarmupPlan[] {
  return config.messages('model_warmup').flatMap((sample, place) => {
    const name = sample.string('name')
    const batchSize = sample.integer('batch_size') ?? 0
    const count = sample.integer('count') || 1
    const inputs = sample.messageMap<string>('inputs')
    sample.finish()
    if (!name) sample.fail('name', 'a name of the sample', name)
    if (batchSize === 0) {
      sample.note(sample.has('batch_size') ? 'batch_size' : 'name', 'a sample of batch size 0 is not run')
      return []
    }
    if (maxBatchSize !== undefined && maxBatchSize > 0 && batchSize > maxBatchSize) {
      sample.fail('batch_size', `at most ${maxBatchSize} (max_batch_size)`, batchSize)
    }
    if (inputs.length === 0) sample.fail('inputs', 'every input of the model', 'none')
    const rows = maxBatchSize === 0 ? null : batchSize
    const plans = inputs.map(([input, fields]) => [input, warmupInput(input, fields, rows)] as const)
    return [{ place, count: rows === null ? count * batchSize : count, inputs: plans }]
  })
}

function warmupInput(name: string, fields: ConfigFields, rows: number | null): TensorPlan {
  const type = fields.enumerator('data_type')
  const dims = fields.integers('dims')
  const file = fields.string('input_data_file')
  const zero = fields.boolean('zero_data')
  const random = fields.boolean('random_data')
  fields.finish()
  if (type === undefined || type === 'TYPE_INVALID')
    fields.fail('data_type', `the type of input '${name}', such as TYPE_FP32`, type)
  if (dims.some((dim) => dim < 1))
    fields.fail('dims', 'dims of at least 1, without the batch dimension', dims)
  const data = file
    ? { folder: 'warmup', file: checkFileName(fields, 'input_data_file', file) }
    : zero
      ? 'zero'
      : random
        ? 'random'
        : null
  if (data === null) return fields.fail('zero_data', 'true, or random_data, or an input_data_file', zero)
  const plan: TensorPlan = { fields, field: 'input_data_file', type: elementTypes[type]!, dims, rows, data }
  checkSize(plan)
  return plan
}

/**
 * Makes the samples. Their files are in `warmup/` of the model's folder.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for a file that does not fit.
 */
export function makeSamples(modelFolder: string, plans: readonly WarmupPlan[]): Promise<WarmupSample[]> {
  return Promise.all(
    plans.map(async ({ count, inputs }) => {
      const feeds = await Promise.all(
        inputs.map(async ([name, plan]) => [name, await makeTensorFeed(modelFolder, plan)] as const),
      )
      return { count, feeds: Object.fromEntries(feeds) as Feeds }
    }),
  )
}

/** A tensor described in a configuration. Its data file, if any, is read when it is made. */
export interface TensorPlan {
  /** The message that describes it, and the field with its file, for errors. */
  readonly fields: ConfigFields
  readonly field: string
  readonly type: ElementType
  /** Without the batch dimension. */
  readonly dims: readonly number[]
  /** The batch dimension: the data is repeated so many times. `null` for none. */
  readonly rows: number | null
  readonly data: 'zero' | 'random' | { readonly folder: string; readonly file: string }
}

/** Largest tensor, and largest data file. */
const limitBytes = 2 ** 30
/** JavaScript's memory for a string in an array. */
const stringBytes = 8

/**
 * Checks the size of a tensor before allocating it: a typo in a number could use all memory.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkSize({ fields, type, dims, rows }: TensorPlan): void {
  const count = (rows ?? 1) * elementCount(dims)
  const bytes = type === 'string' ? stringBytes * count : byteLengthOf(type, count)
  if (bytes <= limitBytes) return
  fields.fail(
    'dims',
    `a tensor of at most ${limitBytes} bytes${rows === null || rows === 1 ? '' : `, with the ${rows} rows of batch_size`}`,
    dims,
  )
}

/**
 * Makes a tensor. Random floats are from -1 to 1, random integers 0 or 1, which every embedding has.
 *
 * @param modelFolder where the folder of its file is.
 * @throws InferenceError `ERR_MODEL_CONFIG` for a file that is missing, or of another size.
 */
export async function makeTensorFeed(modelFolder: string, plan: TensorPlan): Promise<FeedValue> {
  const { type, dims, rows, data } = plan
  const times = rows ?? 1
  const allDims = rows === null ? dims : [rows, ...dims]
  const count = elementCount(dims)
  if (typeof data === 'string')
    return { type, dims: allDims, data: made(type, times * count, data === 'random') } as never
  const bytes = await readData(modelFolder, plan, data.folder, data.file)
  if (type === 'string') {
    const row = readStrings(plan, bytes, count)
    return { type, dims: allDims, data: Array.from({ length: times }, () => row).flat() } as never
  }
  const expected = byteLengthOf(type, count)
  if (bytes.length !== expected)
    wrongSize(plan, `a file of ${expected} bytes (${count} elements of ${type})`, `${bytes.length} bytes`)
  const all = new Uint8Array(times * expected)
  for (let row = 0; row < times; row++) all.set(bytes, row * expected)
  return { type, dims: allDims, data: new (storageOf(type))(all.buffer) } as never
}

function made(type: ElementType, count: number, random: boolean): TensorData | string[] {
  if (type === 'string') return Array<string>(count).fill('')
  const values = new (storageOf(type))(count) as Float32Array
  if (!random) return values
  for (let index = 0; index < count; index++) values[index] = randomValue(type) as number
  return values
}

function randomValue(type: ElementType): number | bigint {
  const float = 2 * Math.random() - 1
  if (isSmallFloat(type)) return toSmallFloat(type, float)
  if (type === 'float32' || type === 'float64') return float
  return type.endsWith('int64') ? BigInt(float > 0) : Number(float > 0)
}

async function readData(
  modelFolder: string,
  { fields, field }: TensorPlan,
  folder: string,
  file: string,
): Promise<Buffer> {
  const path = join(modelFolder, folder, file)
  return readOwnFile(path, limitBytes, 'no such file').catch(({ message }: Error) =>
    fields.fail(field, `a file of data at ${path}`, message),
  )
}

/**
 * Reads a file that a configuration names.
 *
 * @param absent what to say if it does not exist.
 * @throws Error with a plain message if it cannot be read.
 */
export async function readOwnFile(path: string, limitBytes: number, absent: string): Promise<Buffer> {
  try {
    return await readRegularFile(path, limitBytes)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw new Error(absent)
    throw new Error(code === 'EFBIG' ? `${message}, of at most ${limitBytes}` : message)
  }
}

/** Each string is stored as its length, in 4 bytes, little-endian, and its bytes. */
function readStrings(plan: TensorPlan, bytes: Buffer, count: number): string[] {
  const strings = prefixedStrings(bytes)
  if (typeof strings === 'number')
    wrongSize(
      plan,
      'strings, each behind its length in 4 bytes',
      `one that ends after the file of ${bytes.length} bytes`,
    )
  if (strings.length !== count)
    wrongSize(plan, `${count} strings, each behind its length in 4 bytes`, `${strings.length} strings`)
  return strings
}

function wrongSize({ fields, field }: TensorPlan, expected: string, received: string): never {
  return fields.fail(field, expected, received)
}
