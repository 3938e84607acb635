import { InferenceError } from '../errors.ts'
import { elementCount, makeTensor, type Tensor, type TensorData, type TensorType } from '../tensor.ts'
import type { BatchReport } from '../config/infer-options.ts'
import type { Outputs } from '../config/model-signature.ts'
import type { Answer, ParsedFeeds } from './infer-request.ts'
import type { AnswerOptions } from '../config/check-infer-options.ts'

/** Cuts a request into parts of at most `maxRows` rows; the data is not copied. */
export function splitRows({ rows, bucketKey, data, dims }: ParsedFeeds, maxRows: number): ParsedFeeds[] {
  const parts: ParsedFeeds[] = []
  for (let start = 0; start < rows; start += maxRows) {
    const partRows = Math.min(maxRows, rows - start)
    const cut = (values: ParsedFeeds['data'][number]) => {
      if (values === null) return null
      const perRow = values.length / rows
      const [from, to] = [start * perRow, (start + partRows) * perRow]
      return ArrayBuffer.isView(values) ? (values as Float32Array).subarray(from, to) : (values as readonly string[]).slice(from, to)
    }
    parts.push({
      rows: partRows,
      bucketKey,
      whole: false,
      data: data.map(cut),
      dims: dims?.map((own) => (own.length === 0 ? own : [partRows, ...own.slice(1)])) ?? null,
    })
  }
  return parts
}

/**
 * Joins the answers to the parts of a request, in their order.
 *
 * @throws InferenceError `ERR_EXECUTION` when rows of an output have one shape in one part and another in the next.
 */
export function joinRows(answers: readonly Answer[], model: string, { report, requestId }: Pick<AnswerOptions, 'report' | 'requestId'>): Answer {
  const reported = answers as { outputs: Outputs; report: BatchReport }[]
  const all = report ? reported.map(({ outputs }) => outputs) : (answers as Outputs[])
  const outputs: Outputs = {}
  for (const name in all[0]) {
    const tensors = all.map((part) => part[name]!)
    const { dims } = tensors[0]!
    const other = tensors.find((tensor) => tensor.dims.slice(1).join() !== dims.slice(1).join())
    if (other !== undefined) {
      const shapes = `[${dims.join(', ')}] and [${other.dims.join(', ')}]`
      const details = { model, name, expected: 'rows of one shape', received: shapes, ...(requestId === undefined ? {} : { requestId }) }
      const message = `Output '${name}' of model '${model}' cannot be joined: parts of the request have ${shapes}.`
      throw new InferenceError('ERR_EXECUTION', message, details)
    }
    outputs[name] = joinTensors(tensors)
  }
  if (!report) return outputs
  const parts = reported.map((answer) => answer.report)
  return { outputs, report: { ...parts[0]!, parts } }
}

function joinTensors(tensors: readonly Tensor[]): Tensor {
  const { type, dims, data } = tensors[0]!
  const joinedDims = [tensors.reduce((rows, tensor) => rows + tensor.dims[0]!, 0), ...dims.slice(1)]
  if (Array.isArray(data)) return makeTensor(type as TensorType, tensors.flatMap((tensor) => tensor.data as string[]), joinedDims)
  const joined = new (data.constructor as new (length: number) => TensorData)(elementCount(joinedDims)) as Float32Array
  let at = 0
  for (const tensor of tensors) {
    joined.set(tensor.data as Float32Array, at)
    at += tensor.data.length
  }
  return makeTensor(type as TensorType, joined, joinedDims)
}
