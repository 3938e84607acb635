import { InferenceEngine, Tensor } from 'zerohop'
import type { BenchModel } from './models.ts'
import { ourSides, type OurSide, type Server, type Side } from './side.ts'

/** Only the baselines import what they need, onnxruntime-node on this thread not least. */
export async function openServer(side: Side): Promise<Server> {
  switch (side) {
    case 'plain':
      return (await import('./baselines/plain-server.ts')).plainServer()
    case 'batcher':
      return (await import('./baselines/batcher-server.ts')).batcherServer()
    case 'dataloader':
      return (await import('./baselines/dataloader-server.ts')).dataloaderServer()
    case 'piscina':
      return (await import('./baselines/piscina-server.ts')).piscinaServer()
    default:
      return ourServer(side)
  }
}

function ourServer(side: OurSide): Server {
  let engine = new InferenceEngine(ourSides[side])
  return {
    async load({ model: { path }, intraOpNumThreads, instances, maxBatchSize, kind, plugin }) {
      if (plugin !== undefined) engine = new InferenceEngine({ ...ourSides[side], providers: { plugin } })
      const loaded = await engine.load(path, {
        path,
        ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
        ...(instances === undefined ? {} : { instanceGroup: [{ kind: 'cpu', count: instances }] }),
        ...(kind === undefined ? {} : { instanceGroup: [{ kind }] }),
        ...(plugin === undefined ? {} : { instanceGroup: [{ kind: 'plugin' }] }),
        ...(intraOpNumThreads === undefined ? {} : { sessionOptions: { intraOpNumThreads } }),
      })
      const meanBatchRows = () => {
        const { inferenceCount, executionCount } = loaded.stats()
        return inferenceCount / executionCount
      }
      return { infer: (feeds) => loaded.infer(feeds), meanBatchRows }
    },
    close: () => engine.close(),
  }
}

/** A request of its own for a caller, the same for both sides. */
export function feedsFor(model: BenchModel, caller: number, rows = 1): Record<string, Tensor> {
  const elements = rows * model.rowDims.reduce((count, dim) => count * dim, 1)
  return {
    [model.input]: new Tensor('float32', new Float32Array(elements).fill(caller / 100), [
      rows,
      ...model.rowDims,
    ]),
  }
}
