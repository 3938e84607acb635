import { InferenceError } from '../errors.ts'
import type { MailedValue } from '../tensor/values.ts'
import { isElementType, type TensorData } from '../tensor/tensor.ts'
import { plainView } from '../tensor/typed-array.ts'
import type { WarmupSample } from '../options/model-config.ts'
import type { Feeds } from '../options/model-signature.ts'
import type { FeedParser } from '../request/feeds.ts'
import type { ParsedFeeds } from '../request/infer-request.ts'
import { batchAxisOf, type ModelMetadata } from '../tensor/metadata.ts'

/** A sample ready to be sent to a worker. */
export interface PreparedWarmup {
  /** One per input; `null` for an optional one that is not given. */
  readonly feeds: readonly (MailedValue | null)[]
  /** Where requests like this one are batched. */
  readonly bucketKey: string
  /** How often it is run. */
  readonly count: number
}

/**
 * The samples that a user gave for warming up.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` when a sample does not fit the model.
 */
export function prepareWarmup(
  metadata: ModelMetadata,
  parser: FeedParser,
  samples: readonly WarmupSample[],
): PreparedWarmup[] {
  return samples.map(({ feeds, count = 1 }, index) => {
    const { data, dims, rows, bucketKey } = parseSample(parser, feeds, index)
    const mailed = metadata.inputs.map((input, index): MailedValue | null => {
      const { type, shape } = input
      if (data[index] === null) return null
      if (!isElementType(type)) return data[index] as MailedValue
      const inputDims =
        dims?.[index] ??
        (metadata.maxBatchSize > 0
          ? shape.map((dim, axis) => (axis === batchAxisOf(input) ? rows : dim))
          : shape)
      const value = data[index]!
      return {
        type,
        dims: inputDims as number[],
        data: type === 'string' ? (value as string[]) : bytesOf(value as TensorData),
      }
    })
    return { feeds: mailed, bucketKey, count }
  })
}

/** What is wrong with feeds is said as of a request; here it is part of the configuration. */
function parseSample(parser: FeedParser, feeds: Feeds, index: number): ParsedFeeds {
  try {
    return parser.parse(feeds)
  } catch (error) {
    const { message, model, expected, received } = error as InferenceError
    const name = `warmup[${index}].feeds`
    const details = { name, expected, received, cause: error, ...(model === undefined ? {} : { model }) }
    throw new InferenceError('ERR_MODEL_CONFIG', `${name}: ${message}`, details)
  }
}

function bytesOf(data: TensorData): ArrayBuffer {
  const { buffer, byteOffset, byteLength } = plainView(data)
  const bytes = new Uint8Array(byteLength)
  bytes.set(new Uint8Array(buffer, byteOffset, byteLength))
  return bytes.buffer
}
