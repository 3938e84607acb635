import { InferenceError } from '../errors.ts'
import { cutElements, joinElements, type Elements } from '../elements.ts'
import { elementCount, isPacked, makeTensor, putValue, type ElementType, type RawTensor, type Tensor, type TensorData, type TensorLike } from '../tensor.ts'
import { kindOf, plainView, viewAs } from '../typed-array.ts'
import type { OutputRows, ValueMetadata } from '../metadata.ts'
import type { OutputValue } from '../values.ts'
import type { BatchReport } from '../config/infer-options.ts'
import type { AnyOutputs } from '../config/model-signature.ts'
import { indexColumn, shiftRows } from './divided-entries.ts'
import type { Answer, ParsedFeeds } from './infer-request.ts'
import type { AnswerOptions } from '../config/check-infer-options.ts'

/** Most parts of one request: more would hold up the application's thread and everybody else's requests. */
export const maxParts = 10_000
/** Most parts of a request whose rows have no element: they cost their sender nothing, but each part is a run. */
export const maxEmptyParts = 100

/** Cuts a request into parts of at most `maxRows` rows; data is not copied but where elements share bytes. */
export function splitRows({ rows, bucketKey, data, dims }: ParsedFeeds, maxRows: number, inputs: readonly ValueMetadata[]): ParsedFeeds[] {
  const parts: ParsedFeeds[] = []
  const whole = data.map((values) => (ArrayBuffer.isView(values) ? plainView(values) : values))
  for (let start = 0; start < rows; start += maxRows) {
    const partRows = Math.min(maxRows, rows - start)
    const cut = (values: ParsedFeeds['data'][number], index: number) => {
      if (values === null) return null
      const { type, shape } = inputs[index]!
      if (isPacked(type as ElementType)) {
        const elements = elementCount((dims?.[index] ?? (shape as number[])).slice(1))
        return cutElements(type as ElementType, values as Elements, start * elements, (start + partRows) * elements)
      }
      const perRow = (values as Elements).length / rows
      const [from, to] = [start * perRow, (start + partRows) * perRow]
      return ArrayBuffer.isView(values) ? (values as Float32Array).subarray(from, to) : (values as readonly string[]).slice(from, to)
    }
    parts.push({
      rows: partRows,
      bucketKey,
      whole: false,
      isPart: true,
      data: whole.map(cut),
      dims: dims?.map((own) => (own.length === 0 ? own : [partRows, ...own.slice(1)])) ?? null,
    })
  }
  return parts
}

/** A request that was split, for its answer. */
export interface SplitFacts extends Pick<AnswerOptions, 'report' | 'requestId'> {
  readonly model: string
  /** Of the model. */
  readonly outputs: readonly ValueMetadata[]
  /** Of each part. */
  readonly rows: readonly number[]
}

/**
 * Joins the answers to the parts of a request, in their order.
 *
 * @throws InferenceError `ERR_EXECUTION` when rows of an output have one shape in one part and another in the next, or
 * there is no memory for all of them.
 */
export function joinRows(answers: readonly Answer[], { model, outputs: described, rows, report, requestId }: SplitFacts): Answer {
  const reported = answers as { outputs: AnyOutputs; report: BatchReport }[]
  const all = report ? reported.map(({ outputs }) => outputs) : (answers as AnyOutputs[])
  const outputs: AnyOutputs = {}
  for (const name of Object.keys(all[0]!)) {
    const values = all.map((part) => part[name]!)
    try {
      putValue(outputs, name, joinValues(values, described.find((output) => output.name === name)?.rows, rows))
    } catch (cause) {
      const received = (cause as Error).message
      const details = { model, name, expected: 'rows that can be joined', received, cause, ...(requestId === undefined ? {} : { requestId }) }
      throw new InferenceError('ERR_EXECUTION', `Output '${name}' of model '${model}' cannot be joined: ${received}.`, details)
    }
  }
  if (!report) return outputs
  const parts = reported.map((answer) => answer.report)
  return { outputs, report: { ...parts[0]!, parts } }
}

/** @throws Error when they cannot be joined. */
function joinValues(values: readonly OutputValue[], entries: OutputRows | undefined, rows: readonly number[]): OutputValue {
  if (Array.isArray(values[0])) return values.flatMap((items) => items as OutputValue[])
  const { type, dims, data } = joinTensors(values as (Tensor | RawTensor)[], indexColumn(entries), rows)
  return makeTensor(type, data, dims)
}

/**
 * Tensors one behind the other.
 *
 * @param column of the numbers of rows in them, which go on from one to the next; `null` for none.
 * @param rows of each, for these numbers.
 * @throws Error when rows have one shape in one of them and another in the next.
 */
export function joinTensors(tensors: readonly TensorLike[], column: number | null, rows: readonly number[]): JoinedTensor {
  const { type, dims } = tensors[0]!
  const other = tensors.find((tensor) => tensor.dims.length === 0 || tensor.dims.slice(1).join() !== dims.slice(1).join())
  if (other !== undefined) throw new Error(`parts of the request have [${dims.join(', ')}] and [${other.dims.join(', ')}]`)
  const parts = tensors.map(({ data, dims }) => ({ data: bitsOf(data as Elements), count: elementCount(dims) }))
  const joined = {
    type: type as ElementType,
    dims: [tensors.reduce((sum, tensor) => sum + tensor.dims[0]!, 0), ...dims.slice(1)],
    data: joinElements(type as ElementType, parts),
  }
  if (column === null) return joined
  let [entry, row] = [0, 0]
  for (const [index, part] of tensors.entries()) {
    shiftRows(joined, column, row, entry, (entry += part.dims[0]!))
    row += rows[index]!
  }
  return joined
}

/** A tensor with elements as they are stored. */
interface JoinedTensor {
  readonly type: ElementType
  readonly dims: number[]
  readonly data: TensorData | string[]
}

/** Newer Node shows float16 as numbers, older as bits. */
function bitsOf(data: Elements): Elements {
  return ArrayBuffer.isView(data) && kindOf(data) === 'Float16Array' ? viewAs(Uint16Array, data) : data
}
