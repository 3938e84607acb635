import type { TypedTensor } from 'onnxruntime-common'
import { describe, expectTypeOf, it } from 'vitest'
import {
  Tensor,
  type InferenceEngine,
  type Model,
  type ModelSignature,
  type PipelineConfig,
} from '../../src/index.ts'

const steps = [{ model: 'm', inputs: { x: 'text' }, outputs: { y: 'ids' } }]
const text = new Tensor('string', ['a'], [1])

describe('a pipeline in TypeScript', () => {
  it('has feeds and answers typed from what is declared of them', () => {
    const load = (engine: InferenceEngine) =>
      engine.loadPipeline('p', {
        inputs: [
          { name: 'text', type: 'string' },
          { name: 'bias', type: 'float32', dims: [3], optional: true },
          'mask',
        ],
        steps,
        outputs: [{ name: 'ids', type: 'int64', dims: [-1] }, 'scores', { name: 'label', labels: ['a'] }],
      })
    const use = (model: Awaited<ReturnType<typeof load>>) => {
      const mask = Uint8Array.of(1)
      expectTypeOf(model.infer({ text: ['a text'], mask })).resolves.toEqualTypeOf<{
        ids: TypedTensor<'int64'>
        scores: Tensor
        label: Tensor
      }>()
      void model.infer({ text, bias: Float32Array.of(1, 2, 3), mask: new Tensor('bool', [true], [1]) })
      // @ts-expect-error an input that is not optional
      void model.infer({ text })
      // @ts-expect-error of another type
      void model.infer({ text: Float32Array.of(1), mask })
      // @ts-expect-error of another type
      void model.infer({ text, bias: Float64Array.of(1, 2, 3), mask })
      // @ts-expect-error no input
      void model.infer({ text, mask, words: ['a'] })
      expectTypeOf(model.infer({ text, mask }, { outputs: ['ids'] })).resolves.toEqualTypeOf<{
        ids: TypedTensor<'int64'>
      }>()
      // @ts-expect-error no output
      void model.infer({ text, mask }, { outputs: ['words'] })
      const any: Model = model // where any model may be given
      return any
    }
    void use
  })

  it('has any tensors where its names are known at run time only', () => {
    const load = (engine: InferenceEngine, config: PipelineConfig) => engine.loadPipeline('p', config)
    const use = (model: Awaited<ReturnType<typeof load>>) => {
      expectTypeOf(model.infer({ anything: text })).resolves.toEqualTypeOf<Record<string, Tensor>>()
      const any: Model = model
      return any
    }
    void use
  })

  it('has the signature that it is given', () => {
    interface Reader extends ModelSignature {
      inputs: { text: readonly string[] }
      outputs: { ids: TypedTensor<'int64'> }
    }
    const load = (engine: InferenceEngine) =>
      engine.loadPipeline<Reader>('p', { inputs: ['text'], steps, outputs: ['ids'] })
    expectTypeOf(load).returns.resolves.toEqualTypeOf<Model<Reader>>()
  })

  it('refuses declarations that say nothing', () => {
    const load = (engine: InferenceEngine) => {
      // @ts-expect-error no such type
      void engine.loadPipeline('p', { inputs: [{ name: 'x', type: 'float' }], steps, outputs: ['y'] })
      // @ts-expect-error no such option
      void engine.loadPipeline('p', { inputs: ['x'], steps, outputs: ['y'], dynamicBatching: {} })
    }
    void load
  })
})
