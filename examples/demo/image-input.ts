import type { ImageDataType, ImageLayout, ImageOptions } from 'zerohop/image'
import type { DemoOptions } from './options.ts'
import { UsageError } from './usage-error.ts'

/** One input or output, as `model.metadata` has it. */
export interface ValueInfo {
  readonly name: string
  readonly type: string
  readonly shape: readonly (number | string)[]
}

const DATA_TYPES: readonly string[] = [
  'float32',
  'float64',
  'float16',
  'uint8',
  'int8',
  'int32',
] satisfies ImageDataType[]

/** How images have to be decoded for the model's one input; the command line fills in what the model leaves open. */
export function imageOptionsFor(inputs: readonly ValueInfo[], options: Partial<DemoOptions>): ImageOptions {
  const [input] = inputs
  if (input === undefined || inputs.length !== 1) {
    throw new UsageError(
      `the model is no image classifier: it has ${inputs.length} inputs, and not one, of images`,
    )
  }
  const { type, shape } = input
  const shown = shownValue('input', input)
  if (shape.length !== 4) {
    throw new UsageError(
      `the model is no image classifier: ${shown} has not the 4 dimensions batch, channels, height and width`,
    )
  }
  if (!DATA_TYPES.includes(type)) throw new UsageError(`${shown}: images cannot be made into ${type}`)
  const layout = options.layout ?? layoutOf(shape)
  if (layout === undefined)
    throw new UsageError(`${shown} does not tell where its channels are: give --layout`)
  const [, channelCount, height, width] = layout === 'nchw' ? shape : [shape[0], shape[3], shape[1], shape[2]]
  const channels = options.channels ?? (channelCount === 1 ? 'gray' : 'rgb')
  if (typeof channelCount === 'number' && channelCount !== (channels === 'gray' ? 1 : 3)) {
    throw new UsageError(
      `${shown} has ${channelCount} channels as ${layout}, which ${channels} images do not have`,
    )
  }
  const { fit, scale, mean, std } = options
  return {
    width: sideOf(shown, 'width', width, options.size?.width),
    height: sideOf(shown, 'height', height, options.size?.height),
    channels,
    layout,
    dtype: type as ImageDataType,
    ...(fit && { fit }),
    ...(scale !== undefined && { scale }),
    ...(mean && { mean: oneOrAll(mean) }),
    ...(std && { std: oneOrAll(std) }),
  }
}

/** An input or output for a message; what no name is known of is a question mark. */
export function shownValue(kind: 'input' | 'output', { name, shape }: ValueInfo): string {
  return `${kind} '${name}' [${shape.map((dim) => (dim === '' ? '?' : dim)).join(', ')}]`
}

function layoutOf([, second, , fourth]: ValueInfo['shape']): ImageLayout | undefined {
  if (second === 1 || second === 3) return 'nchw'
  return fourth === 1 || fourth === 3 ? 'nhwc' : undefined
}

function sideOf(
  shown: string,
  name: string,
  inModel: number | string | undefined,
  given: number | undefined,
): number {
  if (typeof inModel === 'number') {
    if (given === undefined || given === inModel) return inModel
    throw new UsageError(`${shown} fixes the ${name} to ${inModel}, and --size says ${given}`)
  }
  if (given !== undefined) return given
  throw new UsageError(`${shown} leaves the ${name} open: give --size`)
}

function oneOrAll(values: number[]): number | number[] {
  return values.length === 1 ? values[0]! : values
}
