import { InferenceError, invalidArgument } from '../errors.ts'
import { batchAxisOf, shownShape, type ValueMetadata } from '../tensor/metadata.ts'
import { dimsOf, resolveImageOptions, type ImageOptions, type ResolvedImageOptions } from './image-options.ts'

/**
 * How encoded images become rows of an input; as the options of `decodeImage`. What the shape of the input says need not be
 * repeated: `width`, `height`, `layout`, and `channels` `'gray'` for one and `'rgb'` for three.
 */
export type ImageInput = Partial<Omit<ImageOptions, 'dtype' | 'signal'>>

/**
 * The options for images of an input, checked against what the model has.
 *
 * @param option the path of `image` in the configuration, for errors.
 * @param batched whether the first dimension of the input is none of a row.
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function resolveImageInput(
  model: string,
  option: string,
  image: ImageInput,
  input: ValueMetadata,
  batched: boolean,
): ResolvedImageOptions {
  const { name, type, shape } = input
  const row = batched ? shape.slice(1) : shape.slice(-3)
  const isImage =
    row.length === 3 && batchAxisOf(input) === 0 && (batched || shape.slice(0, -3).every((dim) => dim === 1))
  const details = { code: 'ERR_MODEL_CONFIG', model } as const
  const expected = `an input of images, whose rows are [channels, height, width] or [height, width, channels]`
  if (!isImage) throw invalidArgument(option, expected, `'${name}' of shape ${shownShape(shape)}`, details)
  const layout = image.layout ?? (isChannelCount(row[2]) && !isChannelCount(row[0]) ? 'nhwc' : 'nchw')
  const [channelCount, height, width] = layout === 'nhwc' ? [row[2], row[0], row[1]] : row
  const fromShape = {
    channels: channelCount === 1 ? ('gray' as const) : ('rgb' as const),
    ...fixed('height', height),
    ...fixed('width', width),
  }
  const resolved = checked(model, option, { ...fromShape, ...image, layout, dtype: type } as ImageOptions)
  const dims = dimsOf(resolved).slice(1)
  if (row.every((dim, axis) => typeof dim !== 'number' || dim === dims[axis])) return resolved
  throw invalidArgument(
    option,
    `images of rows ${shownShape(row)}, as input '${name}' has them`,
    dims,
    details,
  )
}

function isChannelCount(dim: number | string | undefined): boolean {
  return dim === 1 || dim === 3
}

function fixed(name: 'height' | 'width', dim: number | string | undefined): Partial<ImageOptions> {
  return typeof dim === 'number' ? { [name]: dim } : {}
}

function checked(model: string, option: string, image: ImageOptions): ResolvedImageOptions {
  try {
    return resolveImageOptions(image)
  } catch (error) {
    if (!(error instanceof InferenceError) || error.argument === undefined) throw error
    throw invalidArgument(
      `${option}.${error.argument.replace(/^options\./, '')}`,
      String(error.expected),
      error.received,
      { code: 'ERR_MODEL_CONFIG', model },
    )
  }
}
