import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { Tensor, type Model, type ModelSignature, type OutputValue } from '../../src/index.ts'
import { largestBatch } from '../support/against-plain.ts'
import { describeNative } from '../support/native.ts'
import { load, sharedEngine } from '../support/open.ts'

/** As `zerohop types` writes them. */
interface Forest extends ModelSignature {
  inputs: { X: Float32Array | Tensor }
  outputs: { output_label: Tensor; output_probability: Map<bigint, number>[] }
}
interface Logistic extends ModelSignature {
  inputs: { X: Float32Array | Tensor }
  outputs: { output_label: Tensor; output_probability: Record<string, number>[] }
}

const pathOf = (file: string) => fileURLToPath(new URL(`../models/sklearn/${file}`, import.meta.url))

interface Answer {
  label: number | string
  probabilities: [key: number | string, value: number][]
}
/** What Python's onnxruntime answers to each row, run alone; written by test/models/sklearn/make.py. */
const known = JSON.parse(readFileSync(pathOf('answers.json'), 'utf8')) as {
  rows: number[][]
  forest: Answer[]
  logistic: Answer[]
}
const rows = known.rows.map((row) => Float32Array.from(row))

/** An answer to one row in the form of the file. */
function shown({
  output_label: label,
  output_probability: probabilities,
}: Record<string, OutputValue>): Answer {
  const [of] = probabilities as OutputValue[]
  const entries =
    of instanceof Map ? [...of].map(([key, value]) => [Number(key), value]) : Object.entries(of as object)
  const own = (label as Tensor).data[0]!
  return {
    label: typeof own === 'bigint' ? Number(own) : String(own),
    probabilities: entries as Answer['probabilities'],
  }
}

describeNative('a classifier of scikit-learn, with the native executor', () => {
  const engine = sharedEngine({ executor: 'native', cpuWorkers: 1 })

  describe.each(['forest', 'logistic'] as const)('%s', (name) => {
    const open = (config = {}): Promise<Model> => load(engine, pathOf(`${name}.onnx`), config)

    it('is known for what it is', async () => {
      const { metadata } = await open()
      expect(metadata.outputs).toEqual([
        { name: 'output_label', type: name === 'forest' ? 'int64' : 'string', shape: [''] },
        {
          name: 'output_probability',
          type: name === 'forest' ? 'seq(map(int64, float32))' : 'seq(map(string, float32))',
          shape: [],
        },
      ])
      expect([metadata.maxBatchSize, metadata.joining.rows, metadata.unservableOutputs]).toEqual([
        32,
        'independent',
        [],
      ])
    })

    it('answers 32 callers in batches as ONNX Runtime answers each alone, bit by bit', async () => {
      const [model, alone] = [await open(), await open({ maxBatchSize: 0 })]
      const callers = Array.from({ length: 32 }, async (_, caller) => {
        for (let request = 0; request < 20; request++) {
          const at = (caller * 7 + request) % rows.length
          expect(shown(await model.infer({ X: rows[at]! }))).toEqual(known[name][at])
        }
      })
      await Promise.all(callers)
      expect(largestBatch(model)).toBe(32)
      for (const [at, row] of rows.entries())
        expect(shown(await alone.infer({ X: new Tensor('float32', row, [1, 4]) }))).toEqual(known[name][at])
      expect(largestBatch(alone)).toBe(1)
    })

    it('answers a request of several rows, and one that is split into parts, with an entry for each', async () => {
      const model = await open({ maxBatchSize: 4, splitOversized: true })
      const all = Float32Array.from(known.rows.flat())
      for (const count of [0, 1, 3, 4, rows.length]) {
        const { output_probability } = (await model.infer({
          X: new Tensor('float32', all.slice(0, 4 * count), [count, 4]),
        })) as Record<string, OutputValue>
        expect(
          (output_probability as OutputValue[]).map((of) =>
            of instanceof Map
              ? [...of].map(([key, value]) => [Number(key), value])
              : Object.entries(of as object),
          ),
        ).toEqual(known[name].slice(0, count).map(({ probabilities }) => probabilities))
      }
    })

    it('gives only what is asked for', async () => {
      const model = await open()
      const [label, probability] = await Promise.all([
        model.infer({ X: rows[0]! }, { outputs: ['output_label'] }),
        model.infer({ X: rows[0]! }, { outputs: ['output_probability'] }),
      ])
      expect([Object.keys(label), Object.keys(probability)]).toEqual([
        ['output_label'],
        ['output_probability'],
      ])
    })
  })

  it('has typed answers with a signature', async () => {
    const forest = await engine.load<Forest>('forest', { path: pathOf('forest.onnx') })
    const { output_label, output_probability } = await forest.infer({ X: rows[0]! })
    const [probabilities] = output_probability
    expect(probabilities!.get((output_label.data as BigInt64Array)[0]!)).toBe(
      known.forest[0]!.probabilities[0]![1],
    )
    const logistic = await engine.load<Logistic>('logistic', { path: pathOf('logistic.onnx') })
    const answer = await logistic.infer({ X: rows[0]! })
    expect(answer.output_probability[0]!['setosa']).toBe(known.logistic[0]!.probabilities[0]![1])
  })

  it('rejectNonFinite looks at its probabilities', async () => {
    const model = await load(engine, pathOf('logistic.onnx'), { rejectNonFinite: 'outputs' })
    await expect(
      model.infer({ X: Float32Array.of(NaN, 1, 1, 1) }, { outputs: ['output_probability'] }),
    ).rejects.toMatchObject({ code: 'ERR_EXECUTION', argument: 'output_probability' })
    expect(shown(await model.infer({ X: rows[0]! }))).toEqual(known.logistic[0])
  })
})

it('the binding serves the label alone', async () => {
  const engine = sharedEngine({ executor: 'binding' })
  const model = await engine.load('forest', { path: pathOf('forest.onnx') })
  expect(Object.keys(await model.infer({ X: rows[0]! }))).toEqual(['output_label'])
  expect(model.metadata.unservableOutputs).toEqual([
    { name: 'output_probability', type: 'a sequence, map, optional or sparse value' },
  ])
})
