import { InferenceSession } from 'onnxruntime-node'
import type { Server } from '../side.ts'
import { batcher } from './batcher.mjs'
import { plainOptions } from './plain-options.ts'

/** The smallest batcher that an application could write for itself: `batcher.mjs`. */
export function batcherServer(): Server {
  const sessions: InferenceSession[] = []
  return {
    async load({ model, maxBatchSize = 64, ...settings }) {
      const session = await InferenceSession.create(model.path, plainOptions(settings))
      sessions.push(session)
      const { inputNames, outputNames } = session
      let [requests, runs] = [0, 0]
      const run = (feeds: InferenceSession.FeedsType) => {
        runs++
        return session.run(feeds)
      }
      const infer = batcher({ inputNames, outputNames, run }, maxBatchSize)
      return {
        infer(feeds) {
          requests++
          return infer(feeds[model.input]!.data as Float32Array)
        },
        meanBatchRows: () => requests / runs,
      }
    },
    async close() {
      await Promise.all(sessions.map((session) => session.release()))
    },
  }
}
