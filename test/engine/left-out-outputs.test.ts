import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { NativeExecutor } from '../../src/run/executors/native/native-executor.ts'
import type { Model, ModelOptions } from '../../src/index.ts'
import { manyOutputs, outputsBeside } from '../models/left-out-outputs.ts'
import { batchSizes } from '../support/against-plain.ts'
import { decided } from '../support/decided.ts'
import { runsInPlace } from '../support/native.ts'
import { findDropped } from '../support/garbage.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { ortForm } from '../support/ort-form.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'

const engine = sharedEngine({ cpuWorkers: 1 })
const onlyY: ModelOptions = { outputs: [{ name: 'y' }] }
const held: ModelOptions = { dynamicBatching: { holdUntilQueued: 4 } }

/** Four requests at once, each of a row of its own. */
async function joined(model: Model): Promise<void> {
  const answers = await Promise.all(
    [1, 2, 3, 4].map((value) => model.infer({ x: Float32Array.of(value, -value, 0, 1) })),
  )
  expect(
    answers.map((outputs) =>
      Object.entries(outputs).map(([name, { data, dims }]) => [name, [...(data as Float32Array)], dims]),
    ),
  ).toEqual([1, 2, 3, 4].map((value) => [['y', [value, 0, 0, 1], [1, 4]]]))
  expect(batchSizes(model)).toEqual([4])
}

const kinds = [
  'a constant',
  'a constant with rows',
  'a scalar loss',
  'hidden states of layers',
  'rows that meet',
] as const

describe.each(kinds)(
  'an output that a configuration leaves out does not keep requests from being joined: %s',
  (kind) => {
    // Hidden states have their rows along another dimension, by which they are divided.
    it.skipIf(kind === 'hidden states of layers')(
      'though it does where all outputs are answered',
      async () => {
        const model = await load(engine, outputsBeside(kind))
        expect(model.metadata).toMatchObject({ maxBatchSize: 0, joining: { rows: 'dependent' } })
      },
    )

    it.each([{}, { maxBatchSize: 8 }])('with outputs that list the others, %j', async (config) => {
      await findDropped()
      const warn = vi.spyOn(process, 'emitWarning')
      const model = await load(engine, outputsBeside(kind), { ...onlyY, ...held, ...config })
      expect(model.metadata.joining).toMatchObject({
        rows: 'maxBatchSize' in config ? 'declared' : 'independent',
      })
      await joined(model)
      expect(warn).not.toHaveBeenCalled()
      warn.mockRestore()
    })

    it('with the binding', async () => {
      await joined(
        await load(ownEngine({ cpuWorkers: 1, executor: 'binding' }), outputsBeside(kind), {
          ...onlyY,
          ...held,
        }),
      )
    })

    it('where only runs show it', async () => {
      const model = await load(engine, await ortForm(outputsBeside(kind)), { ...onlyY, ...held })
      expect(await decided(model)).toMatchObject({ rows: 'independent', how: 'checked' })
      await joined(model)
    })

    it("in a folder of Triton's", async () => {
      const folder = temporaryFolder({
        'm/config.pbtxt':
          'max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "y" data_type: TYPE_FP32 dims: 4 } dynamic_batching {}',
      })
      mkdirSync(join(folder, 'm/1'))
      copyFileSync(outputsBeside(kind), join(folder, 'm/1/model.onnx'))
      const own = ownEngine({ cpuWorkers: 1 })
      await own.loadRepository(folder)
      const model = own.model('m')!
      expect(model.metadata).toMatchObject({ maxBatchSize: 8, joining: { rows: 'declared' } })
      const answers = await Promise.all(
        [1, 2, 3, 4].map((value) =>
          model.infer({ x: Float32Array.of(value, -value, 0, 1) }, { report: true }),
        ),
      )
      expect(answers.map(({ outputs }) => [...(outputs['y']!.data as Float32Array)])).toEqual(
        [1, 2, 3, 4].map((value) => [value, 0, 0, 1]),
      )
      expect(Math.max(...answers.map(({ report }) => report.batchSize))).toBeGreaterThan(1)
    })
  },
)

describe('a model of many outputs', () => {
  it('is joined where those past the 31st are left out', async () => {
    await joined(await load(engine, manyOutputs(), { ...onlyY, ...held }))
  })

  it.skipIf(!runsInPlace)(
    'asks ONNX Runtime for none of those that are left out, where the native executor runs it',
    async () => {
      const layouts = vi.spyOn(NativeExecutor.prototype, 'defineLayout')
      await joined(await load(engine, outputsBeside('hidden states of layers'), { ...onlyY, ...held }))
      expect(
        layouts.mock.calls.map(([, , { outputs }]) => outputs.map((place) => place !== undefined)),
      ).toEqual([[true, false]])
      layouts.mockRestore()
    },
  )
})
