import { float, graph } from './builder.ts'
import type { GraphBuilder } from './builder.ts'
import { mulberry32, uniform } from './random.ts'
import type { Random } from './random.ts'

/** How large a transformer's encoder is. */
export interface EncoderSize {
  readonly hidden: number
  readonly heads: number
  readonly layers: number
}

/** Large enough to tell texts and images apart, and no more. */
export const tiny: EncoderSize = { hidden: 16, heads: 2, layers: 2 }
/** As the models that sentences are usually embedded by (MiniLM). */
export const small: EncoderSize = { hidden: 384, heads: 12, layers: 6 }

/** Builds the layers of an encoder of random weights, each value under a name of its own. */
export class EncoderBuilder {
  readonly model: GraphBuilder
  readonly size: EncoderSize
  readonly #random: Random
  #values = 0

  constructor(name: string, size: EncoderSize) {
    this.model = graph(name)
    this.size = size
    this.#random = mulberry32(name.length * 1000 + size.hidden)
  }

  /** The result of one operator. */
  op(
    op: string,
    inputs: readonly string[],
    attributes: Parameters<GraphBuilder['node']>[3] = {},
    output = this.#next(op),
  ): string {
    this.model.node(op, inputs, [output], attributes)
    return output
  }

  weights(dims: readonly number[], limit: number): string {
    const name = this.#next('weights')
    this.model.initializer(
      name,
      'float32',
      dims,
      uniform(
        this.#random,
        dims.reduce((product, dim) => product * dim, 1),
        limit,
      ),
    )
    return name
  }

  floats(...values: number[]): string {
    const name = this.#next('floats')
    this.model.initializer(name, 'float32', [values.length], values)
    return name
  }

  whole(...values: number[]): string {
    const name = this.#next('whole')
    this.model.initializer(name, 'int64', [values.length], values.map(BigInt))
    return name
  }

  dense(input: string, from: number, to: number, output?: string): string {
    const product = this.op('MatMul', [input, this.weights([from, to], Math.sqrt(6 / from))])
    return this.op('Add', [product, this.weights([to], 0.1)], {}, output)
  }

  normalised(input: string, output?: string): string {
    const { hidden } = this.size
    return this.op(
      'LayerNormalization',
      [input, this.floats(...Array.from({ length: hidden }, () => 1)), this.weights([hidden], 0.1)],
      { axis: -1, epsilon: float(1e-5) },
      output,
    )
  }

  /**
   * All layers.
   *
   * @param bias what is added to the scores of attention, to leave some out; `null` for nothing.
   */
  layers(input: string, bias: string | null, output?: string): string {
    const { layers } = this.size
    return Array.from({ length: layers }).reduce<string>(
      (value, _, layer) => this.#layer(value, bias, layer === layers - 1 ? output : undefined),
      input,
    )
  }

  #layer(input: string, bias: string | null, output?: string): string {
    const { hidden } = this.size
    const attended = this.normalised(this.op('Add', [input, this.#attention(input, bias)]))
    const active = this.op('Relu', [this.dense(attended, hidden, 4 * hidden)])
    return this.normalised(this.op('Add', [attended, this.dense(active, 4 * hidden, hidden)]), output)
  }

  #attention(input: string, bias: string | null): string {
    const { hidden, heads } = this.size
    const width = hidden / heads
    const part = (perm: readonly number[]) =>
      this.op(
        'Transpose',
        [this.op('Reshape', [this.dense(input, hidden, hidden), this.whole(0, 0, heads, width)])],
        { perm: [...perm] },
      )
    const scores = this.op('Mul', [
      this.op('MatMul', [part([0, 2, 1, 3]), part([0, 2, 3, 1])]),
      this.floats(1 / Math.sqrt(width)),
    ])
    const shares = this.op('Softmax', [bias === null ? scores : this.op('Add', [scores, bias])], { axis: -1 })
    const mixed = this.op('Transpose', [this.op('MatMul', [shares, part([0, 2, 1, 3])])], {
      perm: [0, 2, 1, 3],
    })
    return this.dense(this.op('Reshape', [mixed, this.whole(0, 0, hidden)]), hidden, hidden)
  }

  #next(what: string): string {
    return `${what}.${this.#values++}`
  }
}
