import { InferenceError } from '../errors.ts'
import type { AnswerOptions, BatchReport } from '../options/infer-options.ts'
import type { AnyOutputs } from '../options/model-signature.ts'
import { copyBlocks, cutElements, joinElements, type Elements } from '../tensor/elements.ts'
import type { ValueMetadata } from '../tensor/metadata.ts'
import {
  elementCount,
  isPacked,
  kindOf,
  makeTensor,
  plainView,
  putValue,
  storageOf,
  viewAs,
  type ElementType,
  type RawTensor,
  type Tensor,
  type TensorData,
  type TensorLike,
} from '../tensor/tensor.ts'
import type { OutputValue } from '../tensor/values.ts'
import type { Answer, ParsedFeeds } from './infer-request.ts'
import { indexColumn, shiftRows } from './output-rows.ts'

/** Most parts of one request: more would hold up the application's thread and everybody else's requests. */
export const maxParts = 10_000
/** Most parts of a request whose rows have no element: they cost their sender nothing, but each part is a run. */
export const maxEmptyParts = 100

/** Cuts a request into parts of at most `maxRows` rows; data is not copied but where elements share bytes. */
export function splitRows(
  { rows, bucketKey, data, dims }: ParsedFeeds,
  maxRows: number,
  inputs: readonly ValueMetadata[],
): ParsedFeeds[] {
  const parts: ParsedFeeds[] = []
  const whole = data.map((values) => (ArrayBuffer.isView(values) ? plainView(values) : values))
  for (let start = 0; start < rows; start += maxRows) {
    const partRows = Math.min(maxRows, rows - start)
    const cut = (values: ParsedFeeds['data'][number], index: number) => {
      if (values === null) return null
      const { type, shape } = inputs[index]!
      if (isPacked(type as ElementType)) {
        const elements = elementCount((dims?.[index] ?? (shape as number[])).slice(1))
        return cutElements(
          type as ElementType,
          values as Elements,
          start * elements,
          (start + partRows) * elements,
        )
      }
      const perRow = (values as Elements).length / rows
      const [from, to] = [start * perRow, (start + partRows) * perRow]
      return ArrayBuffer.isView(values)
        ? (values as Float32Array).subarray(from, to)
        : (values as readonly string[]).slice(from, to)
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
interface SplitFacts extends Pick<AnswerOptions, 'report' | 'requestId'> {
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
export function joinRows(
  answers: readonly Answer[],
  { model, outputs: described, rows, report, requestId }: SplitFacts,
): Answer {
  const reported = answers as { outputs: AnyOutputs; report: BatchReport }[]
  const all = report ? reported.map(({ outputs }) => outputs) : (answers as AnyOutputs[])
  const outputs: AnyOutputs = {}
  for (const name of Object.keys(all[0]!)) {
    const values = all.map((part) => part[name]!)
    try {
      putValue(
        outputs,
        name,
        joinValues(values, described.find((output) => output.name === name) ?? {}, rows),
      )
    } catch (cause) {
      const received = (cause as Error).message
      const details = {
        model,
        name,
        expected: 'rows that can be joined',
        received,
        cause,
        ...(requestId === undefined ? {} : { requestId }),
      }
      throw new InferenceError(
        'ERR_EXECUTION',
        `Output '${name}' of model '${model}' cannot be joined: ${received}.`,
        details,
      )
    }
  }
  if (!report) return outputs
  const parts = reported.map((answer) => answer.report)
  return { outputs, report: { ...parts[0]!, parts } }
}

/** @throws Error when they cannot be joined. */
function joinValues(
  values: readonly OutputValue[],
  output: Pick<ValueMetadata, 'rows' | 'batchAxis'>,
  rows: readonly number[],
): OutputValue {
  if (values.every(Array.isArray)) return values.flatMap((items) => items as OutputValue[])
  const strange = values.findIndex(
    (value) => !Array.isArray((value as Partial<TensorLike> | null | undefined)?.dims),
  )
  if (strange !== -1)
    throw new Error(
      values[strange] == null
        ? `part ${strange} of the request has none`
        : 'parts of the request have values that are no tensors',
    )
  const { type, dims, data } = joinTensors(values as (Tensor | RawTensor)[], rows, {
    axis: output.batchAxis ?? 0,
    column: indexColumn(output.rows),
  })
  return makeTensor(type, data, dims)
}

/** How tensors are joined. */
interface Joint {
  /** The dimension that counts their rows. */
  readonly axis: number
  /** The column of the numbers of rows in them, which go on from one to the next; `null` for none. */
  readonly column: number | null
}

/**
 * Tensors one behind the other.
 *
 * @param rows of each, for the numbers in a column.
 * @throws Error when rows have one shape in one of them and another in the next.
 */
export function joinTensors(
  tensors: readonly TensorLike[],
  rows: readonly number[],
  { axis, column }: Joint,
): JoinedTensor {
  const type = tensors[0]!.type as ElementType
  const { dims } = tensors[0]!
  const rowDims = (own: readonly number[]) => own.filter((_, at) => at !== axis).join()
  const other = tensors.find((tensor) => tensor.dims.length <= axis || rowDims(tensor.dims) !== rowDims(dims))
  if (other !== undefined)
    throw new Error(`parts of the request have [${dims.join(', ')}] and [${other.dims.join(', ')}]`)
  const total = tensors.reduce((sum, tensor) => sum + tensor.dims[axis]!, 0)
  const joined = {
    type,
    dims: dims.map((dim, at) => (at === axis ? total : dim)),
    data: axis === 0 ? joinElements(type, tensors.map(partOf)) : joinBlocks(type, tensors, axis),
  }
  if (column === null) return joined
  let [entry, row] = [0, 0]
  for (const [index, part] of tensors.entries()) {
    shiftRows(joined, column, row, entry, (entry += part.dims[0]!))
    row += rows[index]!
  }
  return joined
}

function partOf({ data, dims }: TensorLike): { data: Elements; count: number } {
  return { data: bitsOf(data as Elements), count: elementCount(dims) }
}

/** Tensors whose rows lie along another dimension than the first. */
function joinBlocks(type: ElementType, tensors: readonly TensorLike[], axis: number): TensorData {
  const { dims } = tensors[0]!
  const blocks = elementCount(dims.slice(0, axis))
  const inner = elementCount(dims.slice(axis + 1))
  const total = tensors.reduce((sum, tensor) => sum + tensor.dims[axis]!, 0)
  const joined: TensorData = new (storageOf(type))(blocks * total * inner)
  let row = 0
  for (const { dims: own, data } of tensors) {
    copyBlocks(
      bitsOf(data as Elements) as TensorData,
      own[axis]!,
      0,
      joined,
      total,
      row,
      own[axis]!,
      blocks,
      inner,
    )
    row += own[axis]!
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
