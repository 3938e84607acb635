import { beforeAll, describe, expect, it } from 'vitest'
import type { PipelineConfig, PipelineStep } from '../../src/index.ts'
import { accumulator } from '../models/accumulator.ts'
import { identityUnbatched } from '../models/identity.ts'
import { accumulatorSequence } from '../sequences/accumulators.ts'
import { sharedEngine } from '../support/open.ts'
import { errorOf } from '../triton-repository/temporary.ts'
import { loadNumber, loadSum, step } from './arithmetic.ts'

const engine = sharedEngine()

beforeAll(async () => {
  await loadNumber(engine, 'twice', (x) => 2 * x)
  await loadNumber(engine, 'small', (x) => x, 4)
  await loadSum(engine, 'sum')
  const run = () => ({})
  await engine.loadFunction('text', {
    run: run as never,
    inputs: [{ name: 'x', type: 'string', dims: [1] }],
    outputs: [{ name: 'y', type: 'float32', dims: [1] }],
  })
  await engine.loadFunction('flat', {
    run: run as never,
    inputs: [{ name: 'x', type: 'float32' }],
    outputs: [{ name: 'y', type: 'float32' }],
  })
  await engine.loadFunction('wide', {
    run: run as never,
    inputs: [{ name: 'x', type: 'float32', dims: [3] }],
    outputs: [{ name: 'y', type: 'float32', dims: [4] }],
  })
  await engine.load('sequential', { path: accumulator(), maxBatchSize: 4, sequence: accumulatorSequence })
  await engine.load('unbatched', { path: identityUnbatched('float32', [2, 3]) })
  await engine.loadPipeline('inner', {
    inputs: ['in'],
    steps: [step('twice', 'in', 'out')],
    outputs: ['out'],
  })
})

const whole = { inputs: ['in'], outputs: ['out'] }
const steps = (...all: PipelineStep[]) => ({ ...whole, steps: all })
const twice = step('twice', 'in', 'out')

/** What is wrong, and the error that says so. */
const wrong: [
  what: string,
  config: unknown,
  error: { argument: string; expected: RegExp; received: unknown; code?: string },
][] = [
  [
    'no step',
    { ...whole, steps: [] },
    { argument: 'steps', expected: /at least one step/, received: expect.anything() },
  ],
  [
    'no input',
    { steps: [twice], inputs: [], outputs: ['out'] },
    { argument: 'inputs', expected: /at least one input/, received: expect.anything() },
  ],
  [
    'no output',
    { steps: [twice], inputs: ['in'], outputs: [] },
    { argument: 'outputs', expected: /at least one output/, received: expect.anything() },
  ],
  [
    'a step without inputs',
    steps({ ...twice, inputs: {} }),
    { argument: 'steps[0].inputs', expected: /at least one input of the model/, received: 'none' },
  ],
  [
    'an unknown option of a step',
    steps({ ...twice, modle: 'x' } as never),
    { argument: 'steps[0].modle', expected: /model/, received: 'modle' },
  ],
  [
    'a model that is not loaded',
    steps(step('none', 'in', 'out')),
    {
      argument: 'steps[0].model',
      expected: /a loaded model \(loaded: (?!.*'wrong')/,
      received: 'none',
      code: 'ERR_MODEL_NOT_FOUND',
    },
  ],
  [
    'a version that is not loaded',
    steps({ ...twice, version: 7 }),
    {
      argument: 'steps[0].version',
      expected: /a loaded version \(loaded: 1\)/,
      received: 7,
      code: 'ERR_MODEL_NOT_FOUND',
    },
  ],
  [
    'an input that the model has not',
    steps({ ...twice, inputs: { z: 'in' } }),
    { argument: 'steps[0].inputs.z', expected: /an input of model 'twice' \('x'\)/, received: 'z' },
  ],
  [
    'an output that the model has not',
    steps({ ...twice, outputs: { z: 'out' } }),
    { argument: 'steps[0].outputs.z', expected: /an output of model 'twice' \('y'\)/, received: 'z' },
  ],
  [
    'an input of the model without a tensor',
    steps({ model: 'sum', inputs: { b: 'in' }, outputs: { sum: 'out' } }),
    {
      argument: 'steps[0].inputs',
      expected: /a tensor for input 'a' of model 'sum'/,
      received: "tensors for 'b'",
    },
  ],
  [
    'a tensor that nothing makes',
    steps(step('twice', 'inn', 'out')),
    {
      argument: 'steps[0].inputs.x',
      expected: /an input of the pipeline or an output of a step \('in', 'out'\)/,
      received: 'inn',
    },
  ],
  [
    'an output that nothing makes',
    { ...steps(twice), outputs: ['nothing'] },
    { argument: 'outputs[0]', expected: /^an output of a step \('out'\)/, received: 'nothing' },
  ],
  [
    'a tensor that two steps make',
    steps(twice, step('small', 'in', 'out')),
    {
      argument: 'steps[1].outputs.y',
      expected: /a name of no other tensor/,
      received: "'out', which is made by step 'twice'",
    },
  ],
  [
    'a tensor that is made and given',
    steps(step('twice', 'in', 'in')),
    {
      argument: 'steps[0].outputs.y',
      expected: /a name of no other tensor/,
      received: "'in', which is an input of the pipeline",
    },
  ],
  [
    'an input that nobody takes',
    { ...steps(twice), inputs: ['in', 'other'] },
    { argument: 'inputs[1]', expected: /an input that a step takes/, received: 'other' },
  ],
  [
    'a tensor that nobody takes',
    steps(twice, step('small', 'in', 'other')),
    {
      argument: 'steps[1].outputs.y',
      expected: /that a step takes or the pipeline answers with/,
      received: 'other',
    },
  ],
  [
    'steps for nobody',
    steps(twice, { ...step('small', 'a', 'b') }, { ...step('twice', 'b', 'a') }),
    {
      argument: 'steps[1].inputs',
      expected: /do not depend on outputs of the step itself/,
      received: "a circle: 'small' waits for 'twice-2' waits for 'small'",
    },
  ],
  [
    'a circle',
    steps(
      { model: 'sum', inputs: { a: 'in', b: 'back' }, outputs: { sum: 'out' } },
      step('twice', 'out', 'back'),
    ),
    {
      argument: 'steps[0].inputs',
      expected: /do not depend on outputs/,
      received: "a circle: 'sum' waits for 'twice' waits for 'sum'",
    },
  ],
  [
    'an answer that is an input',
    { ...steps(twice), outputs: ['out', 'in'] },
    { argument: 'outputs[1]', expected: /an output of a step/, received: "'in', an input of the pipeline" },
  ],
  [
    'a tensor of another type',
    steps(step('twice', 'in', 'a'), step('text', 'a', 'out')),
    {
      argument: 'steps[1].inputs.x',
      expected: /string, the type of input 'x' of model 'text'/,
      received: "float32 ('a', made by output 'y' of step 'twice')",
    },
  ],
  [
    'an input that two models take as different types',
    steps({ ...step('twice', 'in', 'a') }, step('text', 'in', 'b'), {
      model: 'sum',
      inputs: { a: 'a', b: 'b' },
      outputs: { sum: 'out' },
    }),
    {
      argument: 'steps[1].inputs.x',
      expected: /string, the type/,
      received: "float32 ('in', taken by input 'x' of step 'twice')",
    },
  ],
  [
    'a tensor of another rank',
    steps(step('twice', 'in', 'a'), step('flat', 'a', 'out')),
    {
      argument: 'steps[1].inputs.x',
      expected: /shape \[rows\], of input 'x' of model 'flat'/,
      received: "[rows, 1] ('a', made by output 'y' of step 'twice')",
    },
  ],
  [
    'a tensor of other dims',
    steps(step('wide', 'in', 'a'), { ...step('wide', 'a', 'out') }),
    {
      argument: 'steps[1].inputs.x',
      expected: /shape \[rows, 3\]/,
      received: "[rows, 4] ('a', made by output 'y' of step 'wide')",
    },
  ],
  [
    'an input declared as another type',
    { ...steps(twice), inputs: [{ name: 'in', type: 'int64', dims: [1] }] },
    {
      argument: 'steps[0].inputs.x',
      expected: /float32, the type/,
      received: "int64 ('in', declared by inputs[0])",
    },
  ],
  [
    'an input declared as another shape',
    { ...steps(twice), inputs: [{ name: 'in', type: 'float32', dims: [2] }] },
    {
      argument: 'steps[0].inputs.x',
      expected: /shape \[rows, 1\]/,
      received: "[rows, 2] ('in', declared by inputs[0])",
    },
  ],
  [
    'an output declared as another type',
    { ...steps(twice), outputs: [{ name: 'out', type: 'int64' }] },
    { argument: 'outputs[0].type', expected: /float32, the type of 'out'/, received: 'int64' },
  ],
  [
    'an output declared as another shape',
    { ...steps(twice), outputs: [{ name: 'out', dims: [5] }] },
    { argument: 'outputs[0].dims', expected: /dims that fit shape \[rows, 1\] of 'out'/, received: [5] },
  ],
  [
    'more rows than a model takes',
    { ...steps(step('small', 'in', 'out')), maxBatchSize: 8 },
    { argument: 'maxBatchSize', expected: /at most 4, as model 'small' of step 'small' takes/, received: 8 },
  ],
  [
    'rows of a request where a model takes none',
    { ...steps(step('unbatched', 'in', 'out')), maxBatchSize: 4 },
    { argument: 'maxBatchSize', expected: /0, since 'in' has the fixed shape \[2, 3\]/, received: 4 },
  ],
  [
    'a model with sequences',
    steps({ model: 'sequential', inputs: { x: 'in' }, outputs: { sum: 'out' } }),
    { argument: 'steps[0].model', expected: /a model without sequences/, received: 'sequential' },
  ],
  [
    'two steps of one name',
    steps({ ...step('twice', 'in', 'a'), name: 's' }, { ...step('twice', 'a', 'out'), name: 's' }),
    { argument: 'steps[1].name', expected: /a name of its own/, received: 's' },
  ],
  [
    'needs without when',
    steps({ ...twice, needs: ['in'] }),
    { argument: 'steps[0].needs', expected: /to be omitted without when/, received: ['in'] },
  ],
  [
    'a need that nothing makes',
    steps({ ...twice, when: () => true, needs: ['score'] }),
    {
      argument: 'steps[0].needs[0]',
      expected: /an input of the pipeline or an output of a step/,
      received: 'score',
    },
  ],
  [
    'when that is no function',
    steps({ ...twice, when: 'always' as never }),
    { argument: 'steps[0].when', expected: /a function/, received: 'always' },
  ],
  [
    'itself as a step',
    steps(step('wrong', 'in', 'out')),
    {
      argument: 'steps[0].model',
      expected: /does not have this pipeline as a step itself/,
      received: 'wrong -> wrong',
    },
  ],
]

describe('a pipeline that is wrong', () => {
  it.each(wrong)(
    'is refused with step, field, what was expected and what was received: %s',
    async (_, config, { expected, ...error }) => {
      const refused = await errorOf(engine.loadPipeline('wrong', config as PipelineConfig))
      expect(refused).toMatchObject({
        name: 'InferenceError',
        code: 'ERR_MODEL_CONFIG',
        model: 'wrong',
        ...error,
      })
      expect(String(refused['expected'])).toMatch(expected)
      expect(engine.models().map(({ name }) => name)).not.toContain('wrong')
    },
  )

  it('is refused where it is a step of a step of itself, and what serves goes on', async () => {
    await engine.loadPipeline('outer', {
      inputs: ['in'],
      steps: [{ model: 'inner', inputs: { in: 'in' }, outputs: { out: 'out' } }],
      outputs: ['out'],
    })
    const circle = {
      inputs: ['in'],
      steps: [{ model: 'outer', inputs: { in: 'in' }, outputs: { out: 'out' } }],
      outputs: ['out'],
    }
    await expect(engine.loadPipeline('inner', circle)).rejects.toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument: 'steps[0].model',
      received: 'inner -> outer -> inner',
    })
    expect((await engine.infer('outer', { in: Float32Array.of(3) }))['out']!.data).toEqual(Float32Array.of(6))
  })

  it('is read once: what a getter gives then is what counts, and one that throws is a typed error', async () => {
    let reads = 0
    const inputs = { get x() { return reads++ === 0 ? 'in' : (7 as never) } } // prettier-ignore
    const model = await engine.loadPipeline('once', { ...whole, steps: [{ ...twice, inputs }] })
    expect([reads, (await model.infer({ in: Float32Array.of(3) }))['out']!.data]).toEqual([
      1,
      Float32Array.of(6),
    ])
    const throwing = { get x(): string { throw new Error('not to be read') } } // prettier-ignore
    await expect(
      engine.loadPipeline('never', { ...whole, steps: [{ ...twice, inputs: throwing }] }),
    ).rejects.toMatchObject({ name: 'InferenceError', model: 'never' })
  })
})
