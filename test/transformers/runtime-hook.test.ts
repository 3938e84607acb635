// Alone: transformers.js takes a runtime once in a process.
import { expect, it } from 'vitest'
import ort from '../../src/adapters/ort/ort-exports.ts'
import { bert } from '../models/pipelines.ts'

it("transformers.js takes the whole runtime by its hook, where the device is 'auto', and finds no other device", async () => {
  Object.assign(globalThis, { [Symbol.for('onnxruntime')]: ort })
  const { env, pipeline } = await import('@huggingface/transformers')
  const { root, name } = bert('text-classification')
  Object.assign(env, { allowRemoteModels: false, useFSCache: false, localModelPath: root })
  await expect(pipeline('text-classification', name, { dtype: 'fp32' })).rejects.toThrow(
    /Unsupported device: "cpu"/,
  )
  const classify = await pipeline('text-classification', name, { dtype: 'fp32', device: 'auto' })
  expect(await classify('the queue is fast')).toEqual([
    { label: expect.any(String), score: expect.any(Number) },
  ])
  // The other is an operator of its own (TopK), which it gives to the runtime as bytes.
  expect(ort.engine.models().map((model) => [model.name, model.stats().inferenceCount])).toEqual([
    ['model.onnx#1', 1],
    ['model#2', 1],
  ])
  await classify.dispose()
})
