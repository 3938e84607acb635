import DataLoader from 'dataloader'
import { InferenceSession, Tensor } from 'onnxruntime-node'
import type { Answer, Server } from '../side.ts'
import { plainOptions } from './plain-options.ts'

/** The batcher that an application can write itself: what was asked for together is joined, and run on its own thread. */
export function dataloaderServer(): Server {
  const sessions: InferenceSession[] = []
  return {
    async load({ model, maxBatchSize = Infinity, ...settings }) {
      const session = await InferenceSession.create(model.path, plainOptions(settings))
      sessions.push(session)
      let [requests, runs] = [0, 0]
      const runTogether = async (rows: readonly Tensor[]): Promise<Answer[]> => {
        requests += rows.length
        runs++
        return split(await session.run({ [model.input]: joined(rows) }), rows.length)
      }
      // By setImmediate it joins what came in one turn of the event loop; with its own scheduling never two requests of a server.
      const loader = new DataLoader(runTogether, {
        cache: false,
        maxBatchSize,
        batchScheduleFn: (callback) => setImmediate(callback),
      })
      return {
        infer: (feeds) => loader.load(feeds[model.input] as Tensor),
        meanBatchRows: () => requests / runs,
      }
    },
    async close() {
      await Promise.all(sessions.map((session) => session.release()))
    },
  }
}

function joined(rows: readonly Tensor[]): Tensor {
  const { data, dims } = rows[0]!
  if (rows.length === 1) return rows[0]!
  const all = new Float32Array(rows.length * data.length)
  for (const [index, row] of rows.entries()) all.set(row.data as Float32Array, index * data.length)
  return new Tensor('float32', all, [rows.length, ...dims.slice(1)])
}

/** The answers are views of the run's outputs. */
function split(outputs: InferenceSession.OnnxValueMapType, count: number): Answer[] {
  const answers: Record<string, Answer[string]>[] = Array.from({ length: count }, () => ({}))
  for (const [name, { data, dims }] of Object.entries(outputs as Record<string, Tensor>)) {
    const [rowDims, length] = [[1, ...dims.slice(1)], data.length / count]
    for (const [index, answer] of answers.entries()) {
      answer[name] = {
        data: (data as Float32Array).subarray(index * length, (index + 1) * length),
        dims: rowDims,
      }
    }
  }
  return answers
}
