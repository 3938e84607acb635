import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Tensor } from 'onnxruntime-common'
import { describe, expect, it, onTestFinished } from 'vitest'
import { InferenceEngine } from '../../src/engine.ts'
import { loadRepository } from '../../src/triton-repository/load-repository.ts'
import { readRepository } from '../../src/triton-repository/read-repository.ts'

const path = fileURLToPath(new URL('../../../shared/models/triton-repository', import.meta.url))
const missing = existsSync(path) ? '' : ' (skipped: no ../shared/models/triton-repository)'

describe.skipIf(missing !== '')(`the example repository of Triton${missing}`, () => {
  it('has models to serve, and says why the others are not', async () => {
    const { entries, failures } = await readRepository(path)
    expect(entries.map(({ name, config }) => [name, config.maxBatchSize])).toEqual([
      ['simple', 8], ['simple_int8', 8], ['simple_string', 8],
    ])
    expect(failures.map(({ model, code, argument }) => [model, code, argument])).toEqual([
      ['densenet_onnx', 'ERR_MODEL_NOT_FOUND', 'version'],
      ['inception_onnx', 'ERR_MODEL_NOT_FOUND', 'version'],
      ['simple_dyna_sequence', 'ERR_MODEL_CONFIG', 'sequence_batching'],
      ['simple_sequence', 'ERR_MODEL_CONFIG', 'sequence_batching'],
    ])
  })
  it('adds and subtracts, in numbers and in words', async () => {
    const engine = new InferenceEngine()
    onTestFinished(() => engine.close())
    const models = ['simple', 'simple_int8', 'simple_string']
    await loadRepository(path, { models }, (name, config) => engine.load(name, config))
    const one = Array.from({ length: 16 }, (_, index) => index)
    const feeds = {
      simple: { INPUT0: Int32Array.from(one), INPUT1: new Int32Array(16).fill(2) },
      simple_int8: { INPUT0: Int8Array.from(one), INPUT1: new Int8Array(16).fill(2) },
      simple_string: { INPUT0: one.map(String), INPUT1: new Tensor('string', Array<string>(16).fill('2'), [1, 16]) },
    }
    for (const [name, feed] of Object.entries(feeds)) {
      const { OUTPUT0: sum, OUTPUT1: difference } = await engine.infer(name, feed)
      expect([...(sum!.data as Int32Array)].map(Number)).toEqual(one.map((value) => value + 2))
      expect([...(difference!.data as Int32Array)].map(Number)).toEqual(one.map((value) => value - 2))
    }
  })
})
