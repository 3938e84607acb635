import { InferenceSession } from 'onnxruntime-node'
import type { Server } from '../side.ts'
import { plainOptions } from './plain-options.ts'

/** What an application does without this library: sessions on its own thread. */
export function plainServer(): Server {
  const sessions: InferenceSession[] = []
  return {
    async load({ model, ...settings }) {
      const session = await InferenceSession.create(model.path, plainOptions(settings))
      sessions.push(session)
      return { infer: (feeds) => session.run(feeds), meanBatchRows: () => 1 }
    },
    async close() {
      await Promise.all(sessions.map((session) => session.release()))
    },
  }
}
