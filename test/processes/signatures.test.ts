import { describe, expectTypeOf, it } from 'vitest'
import type {
  EngineStatistics,
  InferenceEngine,
  Model,
  ModelSignature,
  ModelStatistics,
  Outputs,
  ReportedOutputs,
  Tensor,
} from '../../src/index.ts'
import type { connect, RemoteEngine, RemoteModel, serve } from '../../src/adapters/processes/processes.ts'

/** As the generator writes them. */
interface Classifier extends ModelSignature {
  inputs: { pixels: Float32Array }
  outputs: { scores: Tensor; label: Tensor }
}

// Only types are looked at: nothing of this is ever called.
declare const remote: RemoteEngine
declare const pixels: Float32Array

/** What takes either. */
type AnyEngine = Pick<InferenceEngine, 'infer'> & { stats(): EngineStatistics | Promise<EngineStatistics> }
type AnyModel<M extends ModelSignature> = Pick<Model<M>, 'name' | 'infer' | 'inferMany'> & {
  stats(): ModelStatistics | Promise<ModelStatistics>
  unload(): Promise<void>
}

describe('an engine of another process, to the compiler', () => {
  it('is asked as one of this process is', () => {
    expectTypeOf<RemoteEngine['infer']>().toEqualTypeOf<InferenceEngine['infer']>()
    expectTypeOf<RemoteEngine>().toExtend<AnyEngine>()
    expectTypeOf<InferenceEngine>().toExtend<AnyEngine>()
    expectTypeOf<RemoteModel<Classifier>['infer']>().toEqualTypeOf<Model<Classifier>['infer']>()
    expectTypeOf<RemoteModel<Classifier>>().toExtend<AnyModel<Classifier>>()
    expectTypeOf<Model<Classifier>>().toExtend<AnyModel<Classifier>>()
  })

  it('loads by the same arguments, and answers by the signature', () => {
    expectTypeOf<Parameters<RemoteEngine['load']>>().toEqualTypeOf<Parameters<InferenceEngine['load']>>()
    expectTypeOf(() => remote.load('m')).returns.resolves.toEqualTypeOf<RemoteModel>()
    expectTypeOf(async () =>
      (await remote.load<Classifier>('m')).infer({ pixels }),
    ).returns.resolves.toEqualTypeOf<Classifier['outputs']>()
    expectTypeOf(() =>
      remote.model<Classifier>('m').infer({ pixels }, { report: true }),
    ).returns.resolves.toEqualTypeOf<ReportedOutputs<Classifier['outputs']>>()
    expectTypeOf(() => remote.infer('m', {})).returns.resolves.toEqualTypeOf<Outputs>()
    const listed = () =>
      remote.load('m', {
        path: 'm.onnx',
        inputs: [{ name: 'pixels', image: {} }],
        outputs: [{ name: 'scores' }],
      })
    expectTypeOf(
      async () => (await (await listed()).infer({ pixels: Buffer.alloc(1) })).scores,
    ).returns.resolves.toEqualTypeOf<Tensor>()
    // @ts-expect-error no such input
    void (async () => (await listed()).infer({ image: pixels }))
    // @ts-expect-error an input is missing
    void (() => remote.model<Classifier>('m').infer({}))
  })

  it('has the statistics of that, as promises', () => {
    expectTypeOf<Awaited<ReturnType<RemoteEngine['stats']>>>().toEqualTypeOf<
      ReturnType<InferenceEngine['stats']>
    >()
    expectTypeOf<Awaited<ReturnType<RemoteModel['stats']>>>().toEqualTypeOf<ReturnType<Model['stats']>>()
  })

  it('is had by a path', () => {
    expectTypeOf<typeof connect>().returns.resolves.toEqualTypeOf<RemoteEngine>()
    expectTypeOf<typeof serve>().parameter(0).toEqualTypeOf<InferenceEngine>()
  })
})
