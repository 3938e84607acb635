import { beforeAll, describe, expect, it } from 'vitest'
import { readModelConfig } from '../../src/features/triton-repository/config-pbtxt.ts'
import { sharedEngine } from '../support/open.ts'
import { errorOf, temporaryFolder } from '../triton-repository/temporary.ts'
import { loadNumber, loadSum, one } from './arithmetic.ts'

const engine = sharedEngine()

beforeAll(async () => {
  await loadNumber(engine, 'twice', (x) => 2 * x)
  await loadNumber(engine, 'small', (x) => x, 4)
  await loadSum(engine, 'sum')
  await engine.loadFunction('text', {
    run: (() => ({})) as never,
    inputs: [{ name: 'x', type: 'string', dims: [1] }],
    outputs: [{ name: 'y', type: 'float32', dims: [1] }],
  })
})

const map = (field: string, names: Record<string, string>) =>
  Object.entries(names)
    .map(([key, value]) => `${field} { key: "${key}" value: "${value}" }`)
    .join(' ')
const tensor = (name: string, type = 'TYPE_FP32', dims = '[1]') =>
  `{ name: "${name}" data_type: ${type} dims: ${dims} }`
/** A step, on a line of its own. */
const step = (model: string, inputs: Record<string, string>, outputs: Record<string, string>, version = -1) =>
  `step { model_name: "${model}" model_version: ${version} ${map('input_map', inputs)} ${map('output_map', outputs)} }\n`
const twice = (from: string, to: string) => step('twice', { x: from }, { y: to })

interface Parts {
  readonly input?: string
  readonly output?: string
  readonly more?: string
}

/** An ensemble of these steps, which begin in line 3. */
const ensemble = (
  steps: string,
  {
    input = `input ${tensor('IN')}`,
    output = `output ${tensor('OUT')}`,
    more = 'platform: "ensemble" max_batch_size: 4',
  }: Parts = {},
) => `${more} ${input} ${output}\nensemble_scheduling {\n${steps}}`

const at = 'ensemble_scheduling.step'
/** What is wrong, the configuration, the field, what was expected, what was received, and the line. */
const wrong: [
  what: string,
  text: string,
  argument: string,
  expected: RegExp,
  received: unknown,
  line?: number,
][] = [
  ['no step', ensemble(''), 'ensemble_scheduling.step', /at least one step/, 'none', 2],
  [
    'no ensemble_scheduling',
    `platform: "ensemble" max_batch_size: 4 input ${tensor('IN')} output ${tensor('OUT')}`,
    'ensemble_scheduling',
    /to be given, as the platform is 'ensemble'/,
    undefined,
    0,
  ],
  [
    'another platform',
    ensemble(twice('IN', 'OUT'), { more: 'platform: "onnxruntime_onnx"' }),
    'platform',
    /'ensemble', as there is ensemble_scheduling/,
    'onnxruntime_onnx',
    1,
  ],
  [
    'a backend',
    ensemble(twice('IN', 'OUT'), { more: 'backend: "onnxruntime"' }),
    'backend',
    /to be omitted beside ensemble_scheduling/,
    'onnxruntime',
    1,
  ],
  [
    'another way of scheduling beside it',
    ensemble(twice('IN', 'OUT'), { more: 'dynamic_batching { }' }),
    'ensemble_scheduling',
    /one of dynamic_batching, sequence_batching, ensemble_scheduling/,
    ['dynamic_batching', 'ensemble_scheduling'],
  ],
  [
    'instances',
    ensemble(twice('IN', 'OUT'), { more: 'instance_group { count: 2 }' }),
    'instance_group',
    /to be omitted/,
    expect.anything(),
    1,
  ],
  ['no input', ensemble(twice('IN', 'OUT'), { input: '' }), 'input', /at least one input/, 'none', 0],
  ['no output', ensemble(twice('IN', 'OUT'), { output: '' }), 'output', /at least one output/, 'none', 0],
  [
    'a step without a model',
    ensemble(`step { ${map('input_map', { x: 'IN' })} ${map('output_map', { y: 'OUT' })} }\n`),
    `${at}[0].model_name`,
    /the name of a model/,
    undefined,
    3,
  ],
  [
    'a version that there cannot be',
    ensemble(step('twice', { x: 'IN' }, { y: 'OUT' }, -2)),
    `${at}[0].model_version`,
    /-1 for the latest, or the number of a version/,
    -2,
    3,
  ],
  [
    'a step without inputs',
    ensemble(step('twice', {}, { y: 'OUT' })),
    `${at}[0].input_map`,
    /at least one input of the model/,
    'none',
    3,
  ],
  [
    'a step without outputs',
    ensemble(step('twice', { x: 'IN' }, {})),
    `${at}[0].output_map`,
    /at least one output of the model/,
    'none',
    3,
  ],
  [
    'an input without a tensor',
    ensemble(step('twice', { x: '' }, { y: 'OUT' })),
    `${at}[0].input_map`,
    /the name of a tensor of the ensemble for 'x'/,
    '',
    3,
  ],
  [
    'a namespace',
    ensemble(
      'step { model_name: "twice" model_namespace: "n" input_map { key: "x" value: "IN" } output_map { key: "y" value: "OUT" } }\n',
    ),
    `${at}[0].model_namespace`,
    /nothing/,
    'n',
    3,
  ],
  [
    'a model that is not there',
    ensemble(step('none', { x: 'IN' }, { y: 'OUT' })),
    `${at}[0].model_name`,
    /a loaded model/,
    'none',
    3,
  ],
  [
    'a version that is not there',
    ensemble(step('twice', { x: 'IN' }, { y: 'OUT' }, 9)),
    `${at}[0].model_version`,
    /a loaded version \(loaded: 1\)/,
    9,
    3,
  ],
  [
    'an input that the model has not',
    ensemble(step('twice', { z: 'IN' }, { y: 'OUT' })),
    `${at}[0].input_map.z`,
    /an input of model 'twice' \('x'\)/,
    'z',
    3,
  ],
  [
    'an output that the model has not',
    ensemble(step('twice', { x: 'IN' }, { z: 'OUT' })),
    `${at}[0].output_map.z`,
    /an output of model 'twice' \('y'\)/,
    'z',
    3,
  ],
  [
    'an input of the model that is left out',
    ensemble(step('sum', { b: 'IN' }, { sum: 'OUT' })),
    `${at}[0].input_map`,
    /a tensor for input 'a' of model 'sum'/,
    "tensors for 'b'",
    3,
  ],
  [
    'a tensor that nothing makes',
    ensemble(twice('IN', 'A') + twice('B', 'OUT')),
    `${at}[1].input_map.x`,
    /an input of the pipeline or an output of a step/,
    'B',
    4,
  ],
  [
    'a tensor that is made twice',
    ensemble(twice('IN', 'OUT') + twice('IN', 'OUT')),
    `${at}[1].output_map.y`,
    /a name of no other tensor/,
    "'OUT', which is made by step 'twice'",
    4,
  ],
  [
    'an input that is not used',
    ensemble(twice('IN', 'OUT'), { input: `input ${tensor('IN')} input ${tensor('MORE')}` }),
    'input[1]',
    /an input that a step takes/,
    'MORE',
    1,
  ],
  [
    'a tensor that is not used',
    ensemble(twice('IN', 'OUT') + twice('IN', 'A')),
    `${at}[1].output_map.y`,
    /that a step takes or the pipeline answers with/,
    'A',
    4,
  ],
  [
    'an output that is not made',
    ensemble(twice('IN', 'A'), { output: `output ${tensor('OUT')}` }),
    'output[0]',
    /an output of a step/,
    'OUT',
    1,
  ],
  [
    'a circle',
    ensemble(step('sum', { a: 'IN', b: 'B' }, { sum: 'OUT' }) + twice('OUT', 'B')),
    `${at}[0].input_map`,
    /do not depend on outputs/,
    "a circle: 'sum' waits for 'twice' waits for 'sum'",
    3,
  ],
  [
    'a tensor of another type',
    ensemble(twice('IN', 'A') + step('text', { x: 'A' }, { y: 'OUT' })),
    `${at}[1].input_map.x`,
    /string, the type of input 'x'/,
    "float32 ('A', made by output 'y' of step 'twice')",
    4,
  ],
  [
    'an input of another type',
    ensemble(twice('IN', 'OUT'), { input: `input ${tensor('IN', 'TYPE_INT64')}` }),
    `${at}[0].input_map.x`,
    /float32, the type of input 'x'/,
    "int64 ('IN', declared by inputs[0])",
    3,
  ],
  [
    'an input of another shape',
    ensemble(twice('IN', 'OUT'), { input: `input ${tensor('IN', 'TYPE_FP32', '[2]')}` }),
    `${at}[0].input_map.x`,
    /shape \[rows, 1\]/,
    "[rows, 2] ('IN', declared by inputs[0])",
    3,
  ],
  [
    'an output of another type',
    ensemble(twice('IN', 'OUT'), { output: `output ${tensor('OUT', 'TYPE_INT64')}` }),
    'output[0].data_type',
    /TYPE_FP32/,
    'TYPE_INT64',
    1,
  ],
  [
    'more rows than a model takes',
    ensemble(step('small', { x: 'IN' }, { y: 'OUT' }), { more: 'max_batch_size: 8' }),
    'max_batch_size',
    /at most 4, as model 'small'/,
    8,
    1,
  ],
]

describe('ensemble_scheduling', () => {
  it('is read as a pipeline', () => {
    const text = ensemble(
      `${step('a', { X: 'IN' }, { Y: 'MIDDLE' })}${step('b', { P: 'MIDDLE' }, { Q: 'OUT' }, 2)}max_inflight_requests: 3`,
      {
        input: `input ${tensor('IN', 'TYPE_UINT8', '[-1, 3]')}`,
        output: `output ${tensor('OUT', 'TYPE_FP32', '[10]')}`,
      },
    )
    expect(readModelConfig({ model: 'm', file: 'm/config.pbtxt', text })).toMatchObject({
      options: {},
      pipeline: {
        inputs: [{ name: 'IN', type: 'uint8', dims: [-1, 3] }],
        outputs: [{ name: 'OUT', type: 'float32', dims: [10] }],
        steps: [
          { model: 'a', inputs: { X: 'IN' }, outputs: { Y: 'MIDDLE' } },
          { model: 'b', version: 2, inputs: { P: 'MIDDLE' }, outputs: { Q: 'OUT' } },
        ],
        maxBatchSize: 4,
        maxInFlight: 3,
      },
    })
  })

  it('is served under the name of its folder', async () => {
    const folder = temporaryFolder({
      'quadruple/config.pbtxt': ensemble(twice('IN', 'A') + twice('A', 'OUT')),
      'quadruple/1/.keep': '',
    })
    const [model] = await engine.loadRepository(folder)
    expect((await model!.infer({ IN: one(3) }))['OUT']!.data).toEqual(one(12))
    await model!.unload()
  })

  it.each(wrong)(
    'that is wrong is refused with step, field, what was expected, what was received, and the line: %s',
    async (_, text, argument, expected, received, line) => {
      const folder = temporaryFolder({ 'm/config.pbtxt': text, 'm/1/.keep': '' })
      const { cause } = await errorOf(engine.loadRepository(folder))
      const [error] = (cause as AggregateError).errors as (Error & Record<string, unknown>)[]
      expect(error).toMatchObject({
        name: 'InferenceError',
        model: 'm',
        argument,
        ...(received !== undefined && { received }),
      })
      expect(String(error!['expected'])).toMatch(expected)
      expect(error!.message).toMatch(
        line ? new RegExp(`config\\.pbtxt:${line}:\\d+$`) : /config\.pbtxt:\d+:\d+$/,
      )
    },
  )
})
