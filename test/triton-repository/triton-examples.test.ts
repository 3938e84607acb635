import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Tensor } from 'onnxruntime-common'
import { describe, expect, it, onTestFinished } from 'vitest'
import { InferenceEngine } from '../../src/engine.ts'

const path = fileURLToPath(new URL('../../../shared/models/triton-repository', import.meta.url))
const missing = existsSync(path) ? '' : ' (skipped: no ../shared/models/triton-repository)'

describe.skipIf(missing !== '')(`the example repository of Triton${missing}`, () => {
  it('loads with one call: five models serve, and those without a model file are reported', async () => {
    const engine = new InferenceEngine()
    onTestFinished(() => engine.close())
    const models = await engine.loadRepository(path)
    expect(models.map(({ name, metadata }) => [name, metadata.maxBatchSize])).toEqual([
      ['simple', 8],
      ['simple_dyna_sequence', 8],
      ['simple_int8', 8],
      ['simple_sequence', 8],
      ['simple_string', 8],
    ])
    expect([models.unsupported, models.failed]).toEqual([[], []])
    expect(models.missing.map(({ name, reason, error }) => [name, error.code, reason])).toEqual([
      ['densenet_onnx', 'ERR_MODEL_NOT_FOUND', expect.stringContaining('a version folder, such as 1')],
      ['inception_onnx', 'ERR_MODEL_NOT_FOUND', expect.stringContaining('a version folder, such as 1')],
    ])

    const one = Array.from({ length: 16 }, (_, index) => index)
    const feeds = {
      simple: { INPUT0: Int32Array.from(one), INPUT1: new Int32Array(16).fill(2) },
      simple_int8: { INPUT0: Int8Array.from(one), INPUT1: new Int8Array(16).fill(2) },
      simple_string: {
        INPUT0: one.map(String),
        INPUT1: new Tensor('string', Array<string>(16).fill('2'), [1, 16]),
      },
    }
    for (const [name, feed] of Object.entries(feeds)) {
      const { OUTPUT0: sum, OUTPUT1: difference } = await engine.infer(name, feed)
      expect([...(sum!.data as Int32Array)].map(Number)).toEqual(one.map((value) => value + 2))
      expect([...(difference!.data as Int32Array)].map(Number)).toEqual(one.map((value) => value - 2))
    }

    // As Triton's example client has them: 1 is added at the start, and the id of the sequence at the end of the other model's.
    const values = [0, 11, 7, 5, 3, 2, 0, 1]
    const send = async (name: string, id: number) => {
      const answers = values.map((value, index) =>
        engine.infer(
          name,
          { INPUT: Int32Array.of(value) },
          { sequenceId: id, sequenceStart: index === 0, sequenceEnd: index === values.length - 1 },
        ),
      )
      return (await Promise.all(answers)).map(({ OUTPUT }) => (OUTPUT!.data as Int32Array)[0])
    }
    const [plain, other, dynamic] = await Promise.all([
      send('simple_sequence', 1007),
      send('simple_sequence', 1008),
      send('simple_dyna_sequence', 1009),
    ])
    expect([plain, other]).toEqual([
      [1, 11, 7, 5, 3, 2, 0, 1],
      [1, 11, 7, 5, 3, 2, 0, 1],
    ])
    expect(dynamic).toEqual([1, 11, 7, 5, 3, 2, 0, 1010])
  })
})
