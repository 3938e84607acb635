import type { TypedTensor } from 'onnxruntime-common'
import { describe, expectTypeOf, it } from 'vitest'
import { defineFunction } from '../../src/options/function-module.ts'
import { Tensor, type BatchInput, type InferenceEngine, type Model } from '../../src/index.ts'

const declared = {
  inputs: [
    { name: 'text', type: 'string' },
    { name: 'bias', type: 'float32', dims: [3], optional: true },
  ],
  outputs: [
    { name: 'ids', type: 'int64', dims: [-1] },
    { name: 'scores', type: 'float32', dims: [3] },
  ],
} as const
const text = new Tensor('string', ['a'], [1])

describe('a function in TypeScript', () => {
  it('has feeds and answers typed from its declaration', () => {
    const load = (engine: InferenceEngine) => engine.loadFunction('f', { module: 'f.js', ...declared })
    type Loaded = Awaited<ReturnType<typeof load>>
    const use = (model: Loaded) => {
      expectTypeOf(model.infer({ text: ['a text'] })).resolves.toEqualTypeOf<{
        ids: TypedTensor<'int64'>
        scores: TypedTensor<'float32'>
      }>()
      void model.infer({ text, bias: Float32Array.of(1, 2, 3) })
      // @ts-expect-error an input that is not optional
      void model.infer({ bias: Float32Array.of(1, 2, 3) })
      // @ts-expect-error of another type
      void model.infer({ text: Float32Array.of(1) })
      // @ts-expect-error of another type
      void model.infer({ text: ['a text'], bias: Float64Array.of(1, 2, 3) })
      // @ts-expect-error no input
      void model.infer({ text: ['a text'], words: ['a'] })
      expectTypeOf(model.infer({ text: ['a text'] }, { outputs: ['ids'] })).resolves.toEqualTypeOf<{
        ids: TypedTensor<'int64'>
      }>()
      const any: Model = model // where any model may be given
      return any
    }
    void use
  })

  it('has what it is called with and what it returns typed by defineFunction', () => {
    defineFunction(declared, ({ text, bias }, { state, rows }) => {
      expectTypeOf(text).toEqualTypeOf<BatchInput<'string'>>()
      expectTypeOf(bias).toEqualTypeOf<BatchInput<'float32'> | undefined>()
      expectTypeOf(text.data).toEqualTypeOf<string[]>()
      expectTypeOf(text.row(0)).toEqualTypeOf<string[]>()
      expectTypeOf(state).toEqualTypeOf<unknown>()
      return { ids: Array.from({ length: rows }, () => [1n, 2]), scores: new Float32Array(3 * rows) }
    })
    defineFunction(declared, async () => ({
      ids: { dims: [1, 1], data: BigInt64Array.of(1n) },
      scores: [[1, 2, 3]],
    }))
    // @ts-expect-error an output is missing
    defineFunction(declared, () => ({ ids: [[1n]] }))
    // @ts-expect-error of another type
    defineFunction(declared, () => ({ ids: [[1n]], scores: new Float64Array(3) }))
  })

  it('refuses declarations that say nothing', () => {
    const load = (engine: InferenceEngine) => {
      // @ts-expect-error no such type
      void engine.loadFunction('f', { module: 'f.js', inputs: [{ name: 'x', type: 'float' }], outputs: [] })
      // @ts-expect-error no such option
      void engine.loadFunction('f', { module: 'f.js', ...declared, padding: [] })
    }
    void load
  })
})
