import { behindFastify, inProcess, threadsOf, type SettingsOf } from './node.ts'

const side =
  (name: 'plain' | 'dataloader'): SettingsOf =>
  (workload) => ({ side: name, intraOpNumThreads: threadsOf(workload), maxBatchSize: workload.maxBatchSize })

/** A session for each core, of a thread each. */
const piscina: SettingsOf = () => ({ side: 'piscina', intraOpNumThreads: 1, maxBatchSize: 1 })

const alone = { describe: "onnxruntime-node as it comes, on the callers' thread", settingsOf: side('plain') }
const joined = {
  describe: "onnxruntime-node, requests joined by the package dataloader on the callers' thread",
  settingsOf: side('dataloader'),
}
const pool = { describe: 'onnxruntime-node, a session in each thread of a Piscina', settingsOf: piscina }

export const plain = inProcess('onnxruntime-node', alone)
/** The hard baseline: for a small model nothing is nearer to the caller. */
export const sameThreadBatcher = inProcess('same-thread-batcher', joined)
export const piscinaInProcess = inProcess('piscina', pool)
export const fastifyPlain = behindFastify('fastify-onnxruntime', {
  ...alone,
  describe: 'onnxruntime-node as it comes behind Fastify',
})
export const fastifyDataloader = behindFastify('fastify-dataloader', {
  ...joined,
  describe: 'onnxruntime-node and dataloader behind Fastify',
})
export const fastifyPiscina = behindFastify('fastify-piscina', {
  ...pool,
  describe: 'a session in each thread of a Piscina behind Fastify',
})
