import { batchAxisOf, type ModelMetadata } from '../../tensor/metadata.ts'
import { InferRequest } from '../../request/infer-request.ts'
import { type TensorData, plainView } from '../../tensor/tensor.ts'
import type { SequenceInputs } from './sequence-inputs.ts'

/** Kept for other batches. */
const mostKept = 64

/** What stands in a slot whose sequence has no request: zeros, with the controls false and no correlation id. */
export class EmptyRows {
  readonly #metadata: ModelMetadata
  readonly #inputs: SequenceInputs
  readonly #byKey = new Map<string, InferRequest>()

  constructor(metadata: ModelMetadata, inputs: SequenceInputs) {
    this.#metadata = metadata
    this.#inputs = inputs
  }

  /** One that shares a run with a request. */
  like(request: InferRequest): InferRequest {
    const { bucketKey } = request
    let row = this.#byKey.get(bucketKey)
    if (row !== undefined) return row
    if (this.#byKey.size >= mostKept) this.#byKey.clear()
    this.#byKey.set(bucketKey, (row = this.#make(request)))
    return row
  }

  #make({ data, dims, bucketKey, level }: InferRequest): InferRequest {
    const empty = data.map((values, index) => {
      const control = this.#inputs.controls.find((each) => each.index === index)
      if (control !== undefined) return control.no
      if (batchAxisOf(this.#metadata.inputs[index]!) === -1) return values
      if (Array.isArray(values)) return values.map(() => '')
      return ArrayBuffer.isView(values) ? zeros(values as TensorData) : values
    })
    const nobody = () => {}
    const options = { outputs: [], requestId: undefined, report: false }
    const row = new InferRequest(
      { rows: 1, bucketKey, whole: false, data: empty, dims: dims && [...dims] },
      level,
      options,
      nobody,
      nobody,
    )
    row.settled = true
    return row
  }
}

function zeros(values: TensorData): TensorData {
  const { constructor, length } = plainView(values)
  return new (constructor as new (length: number) => TensorData)(length)
}
