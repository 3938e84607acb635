import type { MailedTensor } from '../pool/protocol.ts'
import { copyOf, makeTensor, storageOf, type TensorData } from '../tensor.ts'
import type { Outputs } from './config.ts'
import type { ModelMetadata } from './metadata.ts'
import type { FinishedBatch } from './model-instance.ts'
import type { InferRequest } from './request.ts'
import type { ViewedLayout } from './staging-slot.ts'

/** The outputs of each request of a batch, cut from the slot and from what came by message, in the batch's order. */
export function scatter(metadata: ModelMetadata, { requests, slot, mailed }: FinishedBatch): Outputs[] {
  const layout = slot.layout!
  const results: Outputs[] = []
  const mailedValues = mailed?.map((tensor) => (tensor ? mailedData(tensor) : null))
  let row = 0
  for (let member = 0; member < requests.length; member++) {
    const request = requests[member]!
    const outputs: Outputs = {}
    for (let index = 0; index < metadata.outputs.length; index++) {
      if (request.outputs !== null && !request.outputs.includes(index)) continue
      const { name, type } = metadata.outputs[index]!
      const tensor = mailed?.[index]
      if (tensor) {
        const { data, dims } = cutMailed(tensor, mailedValues![index]!, request, row, requests.length === 1)
        outputs[name] = makeTensor(type, data, dims)
      } else {
        outputs[name] = cutFromSlot(metadata, layout, index, request, row)
      }
    }
    results.push(outputs)
    row += request.rows
  }
  return results
}

function cutFromSlot(metadata: ModelMetadata, layout: ViewedLayout, index: number, request: InferRequest, row: number) {
  const { type } = metadata.outputs[index]!
  const view = layout.outputViews[index] as Float32Array
  const { dims } = layout.outputs[index]!
  const own = [...dims]
  // A copy: the caller owns what it gets, and the slot can be filled again.
  if (metadata.maxBatchSize === 0) return makeTensor(type, copyOf(view, 0, view.length), own)
  const elements = layout.outputRowElements[index]!
  own[0] = request.rows
  return makeTensor(type, copyOf(view, row * elements, (row + request.rows) * elements), own)
}

function mailedData({ type, data }: MailedTensor): TensorData | string[] {
  return data instanceof ArrayBuffer ? new (storageOf(type))(data) : (data as string[])
}

function cutMailed(
  { dims }: MailedTensor,
  data: TensorData | string[],
  request: InferRequest,
  row: number,
  alone: boolean,
): { data: TensorData | string[]; dims: readonly number[] } {
  if (alone) return { data, dims }
  const elements = dims.slice(1).reduce((count, dim) => count * dim, 1)
  return { data: data.slice(row * elements, (row + request.rows) * elements), dims: [request.rows, ...dims.slice(1)] }
}

/** The first output that cannot be divided among the rows of a batch, or `null`. */
export function indivisibleOutput(metadata: ModelMetadata, { requests, rows, mailed }: FinishedBatch): string | null {
  if (mailed === null || requests.length === 1) return null
  const index = mailed.findIndex((tensor) => tensor && tensor.dims[0] !== rows)
  return index === -1 ? null : metadata.outputs[index]!.name
}
