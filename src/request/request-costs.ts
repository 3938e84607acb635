import { messageOf } from '../base/message-of.ts'
import { InferenceError, invalidArgument, invalidConfig } from '../errors.ts'
import type { CostedRequest, ResolvedCost } from '../options/batching.ts'
import { batchAxisOf, shownShape, type ModelMetadata } from '../tensor/metadata.ts'
import type { TensorData } from '../tensor/tensor.ts'
import type { InferRequest } from './infer-request.ts'
import type { Padding } from './padding.ts'

/** Finds out what requests of a model cost, and which cost too much. */
export class RequestCosts {
  readonly #metadata: ModelMetadata
  readonly #limits: ResolvedCost
  readonly #costOf: (request: InferRequest) => number

  private constructor(
    metadata: ModelMetadata,
    limits: ResolvedCost,
    costOf: (request: InferRequest) => number,
  ) {
    this.#metadata = metadata
    this.#limits = limits
    this.#costOf = costOf
  }

  /**
   * Fits what is said of costs to the model; `null` where nothing is.
   *
   * @throws InferenceError `ERR_MODEL_CONFIG` when the input does not exist or has no such variable dimension.
   */
  static of(
    metadata: ModelMetadata,
    limits: ResolvedCost | null,
    padding: Padding | null,
  ): RequestCosts | null {
    if (limits === null) return null
    const { of } = limits
    if (typeof of === 'function')
      return new RequestCosts(metadata, limits, (request) => of(costedRequest(metadata, request)))
    const index = indexOf(metadata, of.input, of.dim)
    const entry = padding?.byInput[index]
    const sizes =
      entry !== undefined && padding!.inputs[entry]!.axis === of.dim
        ? padding!.inputs[entry]!.sizes
        : 'longest'
    return new RequestCosts(metadata, limits, ({ data, dims, rows }) => {
      if (data[index] === null) return 0 // an optional input that was left out
      const own = dims![index]![of.dim]!
      return rows * (sizes === 'longest' ? own : (sizes.find((size) => size >= own) ?? own))
    })
  }

  /** Notes what a request costs; returns why it is refused, or `null`. */
  weigh(request: InferRequest): InferenceError | null {
    let units: unknown
    try {
      units = this.#costOf(request)
    } catch (cause) {
      return this.#wrong(request, 'a function that returns', messageOf(cause), { cause })
    }
    if (units instanceof Promise) units.catch(() => {}) // refused below: its rejection must not end the process
    if (typeof units !== 'number' || !Number.isFinite(units) || units < 0)
      return this.#wrong(request, 'a function that returns a finite number of 0 or more', units)
    request.cost = { units, order: 0 }
    const { maxBatchCost, overCostAction } = this.#limits
    if (units <= maxBatchCost || overCostAction === 'ALONE') return null
    const details = {
      model: this.#metadata.name,
      ...requestIdOf(request),
      hint: "Send less at once, raise maxBatchCost, or have it run by itself: overCostAction: 'ALONE'",
    }
    return invalidArgument(
      'feeds',
      `a cost of at most ${maxBatchCost} (dynamicBatching.maxBatchCost)`,
      units,
      details,
    )
  }

  #wrong(
    request: InferRequest,
    expected: string,
    received: unknown,
    cause: { cause?: unknown } = {},
  ): InferenceError {
    return invalidArgument('dynamicBatching.cost', expected, received, {
      model: this.#metadata.name,
      ...requestIdOf(request),
      ...cause,
      hint: 'It was called for this request',
    })
  }
}

function requestIdOf({ requestId }: InferRequest): { requestId?: string } {
  return requestId === undefined ? {} : { requestId }
}

function indexOf({ inputs, name: model }: ModelMetadata, input: string, dim: number): number {
  const index = inputs.findIndex(({ name }) => name === input)
  const wrong = (option: string, expected: string, received: unknown) =>
    invalidConfig(model, `dynamicBatching.cost.${option}`, expected, received)
  if (index === -1) throw wrong('input', `one of ${inputs.map(({ name }) => `'${name}'`).join(', ')}`, input)
  const { shape } = inputs[index]!
  if (typeof shape[dim] === 'string') return index
  throw wrong(
    'dim',
    `a variable dimension of '${input}' after the first, whose shape is ${shownShape(shape)}`,
    dim,
  )
}

/** A request as the user's function sees it. */
function costedRequest(metadata: ModelMetadata, { rows, data, dims, whole }: InferRequest): CostedRequest {
  const inputs: Record<string, CostedRequest['inputs'][string]> = {}
  for (const [index, input] of metadata.inputs.entries()) {
    const values = data[index]
    if (values === null || values === undefined || !('length' in values)) continue
    const own =
      dims?.[index] ??
      input.shape.map((dim, axis) => (!whole && axis === batchAxisOf(input) ? rows : (dim as number)))
    inputs[input.name] = {
      type: input.type as CostedRequest['inputs'][string]['type'],
      dims: own,
      data: values as TensorData,
    }
  }
  return { rows, inputs }
}
