import { graph } from './builder.ts'
import type { GraphBuilder } from './builder.ts'
import { modelPath } from './cache.ts'
import { heWeights, mulberry32, uniform } from './random.ts'
import type { Random } from './random.ts'

/** A perceptron 64-256-256-10 with ReLU: `input` float32 ['N', 64], `output` float32 ['N', 10]; about 0.3 MB. */
export function mlp(): string {
  return modelPath('mlp', () => {
    const random = mulberry32(1)
    const model = graph('mlp').input('input', 'float32', ['N', 64]).output('output', 'float32', ['N', 10])
    dense(model, random, 'input', 'hidden1', 64, 256)
    model.node('Relu', ['hidden1'], ['active1'])
    dense(model, random, 'active1', 'hidden2', 256, 256)
    model.node('Relu', ['hidden2'], ['active2'])
    dense(model, random, 'active2', 'output', 256, 10)
    return model.build()
  })
}

/** ResNet-50: `input` float32 ['N', 3, 224, 224], `output` float32 ['N', 1000]; about 102 MB. */
export const resnet50 = (): string => resnet('resnet50', [3, 4, 6, 3])

/** ResNet-152: `input` float32 ['N', 3, 224, 224], `output` float32 ['N', 1000]; about 241 MB. */
export const resnet152 = (): string => resnet('resnet152', [3, 8, 36, 3])

/**
 * A bottleneck ResNet of the original layer sizes, with the stride in the 3 x 3 convolution as today's training code has
 * it. The weights are random, so the classes mean nothing, but different images get different ones.
 */
function resnet(name: string, blocksPerStage: readonly number[]): string {
  return modelPath(name, () => {
    const model = graph(name)
      .input('input', 'float32', ['N', 3, 224, 224])
      .output('output', 'float32', ['N', 1000])
    const net = new ConvolutionalNetwork(model, mulberry32(blocksPerStage.length * 1000 + blocksPerStage[2]!))
    const blocks = blocksPerStage.reduce((sum, count) => sum + count)
    let value = net.relu(net.conv('input', 3, 64, { kernel: 7, stride: 2 }))
    model.node('MaxPool', [value], ['pooled'], { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] })
    value = 'pooled'
    let channels = 64
    blocksPerStage.forEach((count, stage) => {
      const width = 64 * 2 ** stage
      for (let block = 0; block < count; block++) {
        const stride = block === 0 && stage > 0 ? 2 : 1
        value = bottleneck(net, value, channels, width, stride, 1 / Math.sqrt(blocks))
        channels = width * 4
      }
    })
    model.node('GlobalAveragePool', [value], ['average'])
    model.node('Flatten', ['average'], ['features'], { axis: 1 })
    dense(model, net.random, 'features', 'output', channels, 1000)
    return model.build()
  })
}

// `gain` keeps the sum over all blocks at the scale of the first one.
function bottleneck(
  net: ConvolutionalNetwork,
  input: string,
  channels: number,
  width: number,
  stride: number,
  gain: number,
): string {
  const reduced = net.relu(net.conv(input, channels, width))
  const spatial = net.relu(net.conv(reduced, width, width, { kernel: 3, stride }))
  const branch = net.conv(spatial, width, width * 4, { gain })
  const shortcut = channels === width * 4 ? input : net.conv(input, channels, width * 4, { stride })
  return net.relu(net.add(branch, shortcut))
}

function dense(
  model: GraphBuilder,
  random: Random,
  input: string,
  output: string,
  from: number,
  to: number,
): void {
  model
    .initializer(`${output}.weight`, 'float32', [to, from], heWeights(random, to, from))
    .initializer(`${output}.bias`, 'float32', [to], uniform(random, to, 0.1))
    .node('Gemm', [input, `${output}.weight`, `${output}.bias`], [output], { transB: 1 })
}

/** Adds the layers of a convolutional network to a model, each with weights of its own. */
class ConvolutionalNetwork {
  readonly model: GraphBuilder
  readonly random: Random
  #layers = 0

  constructor(model: GraphBuilder, random: Random) {
    this.model = model
    this.random = random
  }

  /** A convolution without bias and the batch normalisation behind it, whose scale is around `gain`. */
  conv(input: string, from: number, to: number, { kernel = 1, stride = 1, gain = 1 } = {}): string {
    const name = `conv${++this.#layers}`
    const pad = (kernel - 1) / 2
    const normalisation = ['scale', 'shift', 'mean', 'variance'].map((part) => `${name}.${part}`)
    const [scale, shift, mean, variance] = normalisation as [string, string, string, string]
    const around = (centre: number) => uniform(this.random, to, 0.1).map((value) => centre * (1 + value))
    this.model
      .initializer(
        `${name}.weight`,
        'float32',
        [to, from, kernel, kernel],
        heWeights(this.random, to, from * kernel * kernel),
      )
      .initializer(scale, 'float32', [to], around(gain))
      .initializer(shift, 'float32', [to], uniform(this.random, to, 0.1 * gain))
      .initializer(mean, 'float32', [to], uniform(this.random, to, 0.1))
      .initializer(variance, 'float32', [to], around(1))
      .node('Conv', [input, `${name}.weight`], [name], {
        kernel_shape: [kernel, kernel],
        strides: [stride, stride],
        pads: [pad, pad, pad, pad],
      })
      .node('BatchNormalization', [name, ...normalisation], [`${name}.normal`], { epsilon: 1e-5 })
    return `${name}.normal`
  }

  /** The sum of two values. */
  add(a: string, b: string): string {
    const name = `sum${++this.#layers}`
    this.model.node('Add', [a, b], [name])
    return name
  }

  /** max(0, value). */
  relu(value: string): string {
    this.model.node('Relu', [value], [`${value}.relu`])
    return `${value}.relu`
  }
}
