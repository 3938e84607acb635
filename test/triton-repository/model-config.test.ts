import { describe, expect, it } from 'vitest'
import { readModelConfig } from '../../src/features/triton-repository/config-pbtxt.ts'
import { resolveConfig } from '../../src/options/model-config.ts'
import { errorOf } from './temporary.ts'

const read = (text: string) => readModelConfig({ model: 'm', file: 'm/config.pbtxt', text })

describe('a config.pbtxt', () => {
  it('that is empty leaves everything to the defaults', () => {
    expect(read('')).toMatchObject({
      options: {
        instanceGroup: [{ kind: 'auto', count: 1, cpuCount: 2, gpus: 'all' }],
        defaultMaxBatchSize: 4,
      },
      fileName: undefined,
      namesBackend: false,
      versionPolicy: { kind: 'latest', count: 1 },
      labelFiles: [],
      warmups: [],
      notes: [],
    })
  })
  it('becomes options that the engine accepts', () => {
    const { options, fileName, notes } = read(`
      name: "m"  platform: "onnxruntime_onnx"  backend: "onnxruntime"
      max_batch_size: 16
      default_model_filename: "net.onnx"
      dynamic_batching {
        preferred_batch_size: [ 4, 8 ]
        max_queue_delay_microseconds: 1500
        preserve_ordering: false
        default_queue_policy { timeout_action: REJECT max_queue_size: 100 default_timeout_microseconds: 250000 }
      }
      instance_group [ { kind: KIND_CPU, count: 2 }, { kind: KIND_GPU, gpus: [ 0, 1 ] }, {} ]
      optimization { graph { level: 1 } }`)
    expect(options).toEqual({
      maxBatchSize: 16,
      dynamicBatching: {
        preferredBatchSize: [4, 8],
        maxQueueDelayMs: 1.5,
        defaultQueuePolicy: { timeoutAction: 'REJECT', maxQueueSize: 100, defaultTimeoutMs: 250 },
      },
      instanceGroup: [
        { kind: 'cpu', count: 2 },
        { kind: 'cuda', count: 1, gpus: [0, 1] },
        { kind: 'auto', count: 1, cpuCount: 2, gpus: 'all' },
      ],
      sessionOptions: { graphOptimizationLevel: 'extended' },
    })
    expect(fileName).toBe('net.onnx')
    expect(notes).toEqual([])
    expect(resolveConfig('m', { path: 'net.onnx', ...options }).preferredBatchSizes).toEqual([4, 8])
  })
  it('takes priorities, their policies and the order of responses over', () => {
    const { options, notes } = read(`dynamic_batching {
      priority_levels: 18446744073709551615 default_priority_level: 2
      default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5000 allow_timeout_override: true }
      priority_queue_policy [ { key: 1 value { max_queue_size: 3 } }, { key: 18446744073709551615 value { timeout_action: REJECT } } ]
    }`)
    expect(options.dynamicBatching).toEqual({
      priorityLevels: 2 ** 64,
      defaultPriorityLevel: 2,
      defaultQueuePolicy: { timeoutAction: 'DELAY', defaultTimeoutMs: 5, allowTimeoutOverride: true },
      priorityQueuePolicy: { 1: { maxQueueSize: 3 }, [2 ** 64]: { timeoutAction: 'REJECT' } },
    })
    expect(notes).toEqual([])
    expect(resolveConfig('m', { path: 'x', ...options }).levels.policies.get(2 ** 64)).toMatchObject({
      timeoutAction: 'REJECT',
    })
    expect(read('dynamic_batching { preserve_ordering: true }').options.dynamicBatching).toEqual({
      preserveOrdering: true,
    })
  })
  it('keeps a max_batch_size of 0, and joins requests of a model without dynamic_batching', () => {
    expect(read('max_batch_size: 0').options).toMatchObject({ maxBatchSize: 0 })
    expect(resolveConfig('m', { path: 'x', ...read('max_batch_size: 8').options }).joinRequests).toBe(true)
  })
  it('takes enumerators by number, repeated fields one by one, and zero as unset', () => {
    const text = `instance_group { kind: 2 count: 0 gpus: [] } instance_group { kind: 1 gpus: 0 gpus: 3 }
      dynamic_batching { priority_levels: 0 preserve_ordering: f } response_cache { enable: false }
      model_transaction_policy { decoupled: False } platform: '' version_policy { latest { } }`
    expect(read(text).options).toEqual({
      instanceGroup: [
        { kind: 'cpu', count: 2 },
        { kind: 'cuda', count: 1, gpus: [0, 3] },
      ],
      dynamicBatching: {},
      defaultMaxBatchSize: 4,
    })
    expect(read(text).notes).toEqual([])
  })
  it('takes an empty list as none', () => {
    expect(read('input [] output: []').options).toEqual(read('').options)
  })
  it('lists the tensors', () => {
    expect(
      read(
        'input { name: "x" data_type: TYPE_FP32 dims: [-1, 3] } output [{ name: "y" data_type: TYPE_STRING dims: 1 }]',
      ).options,
    ).toMatchObject({
      maxBatchSize: 0,
      inputs: [{ name: 'x', type: 'float32', dims: [-1, 3] }],
      outputs: [{ name: 'y', type: 'string', dims: [1] }],
    })
  })
  it.each([
    ['all {}', { kind: 'all' }],
    ['latest { num_versions: 3 }', { kind: 'latest', count: 3 }],
    [
      'specific { versions: [1, 2024010100000000000] }',
      { kind: 'specific', versions: ['1', '2024010100000000000'] },
    ],
  ])('has a version policy %s', (policy, expected) => {
    expect(read(`version_policy: { ${policy} }`).versionPolicy).toEqual(expected)
  })
  it('notes what changes nothing, with its line', () => {
    const { notes } = read(`
      max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: [1, 3, 3] format: FORMAT_NCHW }
      optimization { input_pinned_memory { enable: true } output_pinned_memory { enable: false } cuda { graphs: true } priority: PRIORITY_MAX }
      instance_group { name: "g" kind: KIND_GPU host_policy: "p" }

      parameters { key: "gpu_id" value: { string_value: "2" } }
      parameters [ { key: "x" value { string_value: "y" } } ]
      metric_tags { key: "a" value: "b" } metric_tags { key: "c" value: "d" }
      model_warmup { name: "w" }  runtime: "r"`)
    expect(notes.map((note) => note.split(':')[0])).toEqual([
      'input[0].format (line 2)',
      'instance_group[0].name (line 4)',
      'instance_group[0].host_policy (line 4)',
      'optimization.input_pinned_memory (line 3)',
      'optimization.output_pinned_memory (line 3)',
      'optimization.cuda (line 3)',
      'optimization.priority (line 3)',
      'parameters (line 6)',
      'parameters (line 6)',
      'model_warmup[0].name (line 9)',
      'metric_tags (line 8)',
      'runtime (line 9)',
    ])
    expect(notes.join('\n')).toContain("'gpu_id' is no parameter")
  })
})

describe('a config.pbtxt is refused', () => {
  it.each([
    ['name: "other"', 'name'],
    ['platform: "tensorrt_plan" backend: "onnxruntime"', 'platform'],
    ['model_transaction_policy { decoupled: true }', 'model_transaction_policy.decoupled'],
    ['instance_group [{}, { kind: KIND_MODEL gpus: 1 }]', 'instance_group[1].gpus'],
    ['instance_group { passive: true }', 'instance_group[0].passive'],
    ['instance_group { rate_limiter {} }', 'instance_group[0].rate_limiter'],
    [
      'input { name: "x" data_type: TYPE_FP32 dims: 1 allow_ragged_batch: true }',
      'input[0].allow_ragged_batch',
    ],
    ['output { name: "x" data_type: TYPE_FP32 dims: 1 is_shape_tensor: true }', 'output[0].is_shape_tensor'],
    ['optimization { graph { level: 3 } }', 'optimization.graph.level'],
    ['batch_input {}', 'batch_input'],
    ['model_repository_agents {}', 'model_repository_agents'],
    ['model_operations {}', 'model_operations'],
    ['instance_group { kind: KIND_GPU } cc_model_filenames { key: "7.5" value: "a" }', 'cc_model_filenames'],
    ['max_batch_sise: 8', 'max_batch_sise'],
    ['dynamic_batching { delay: 1 }', 'dynamic_batching.delay'],
    ['toString: 1', 'toString'],
  ])('for asking for what is not there: %s', async (text, argument) => {
    const error = await errorOf(() => read(`# first\n${text}`))
    expect(error).toMatchObject({ name: 'InferenceError', code: 'ERR_MODEL_CONFIG', model: 'm', argument })
    expect(error.message).toMatch(/ At m\/config\.pbtxt:2:\d+$/)
  })
  it.each([
    ['max_batch_size: -1', 'at least 0', -1],
    ['max_batch_size: "8"', 'a whole number', '8'],
    ['max_batch_size: 1.5', 'a whole number', 1.5],
    ['max_batch_size: [1]', 'one value', 'a list'],
    ['max_batch_size: 1 max_batch_size: 2', 'given once', 'it twice'],
    ['max_batch_size: 99999999999999999999', 'a whole number', '99999999999999999999 (bigint)'],
    ['name: m', 'a string in quotes', 'm'],
    ['name { }', 'a string in quotes', '{ ... }'],
    ['dynamic_batching: 1', 'a message in braces', 1],
    ['instance_group { kind: KIND_TPU }', 'KIND_GPU', 'KIND_TPU'],
    ['instance_group { kind: "KIND_CPU" }', 'KIND_CPU', 'KIND_CPU'],
    ['instance_group { kind: 9 }', 'KIND_CPU', 9],
    ['instance_group { kind {} }', 'KIND_CPU', '{ ... }'],
    ['dynamic_batching { preferred_batch_size: 0 }', 'at least 1', 0],
    ['default_model_filename: "../m.onnx"', 'the name of a file', '../m.onnx'],
    ['default_model_filename: ".."', 'the name of a file', '..'],
    ['version_policy { }', 'one of latest, all and specific', []],
    ['version_policy { all {} latest {} }', 'one of latest, all, specific', ['all', 'latest']],
    [
      'dynamic_batching {} sequence_batching {}',
      'one of dynamic_batching, sequence_batching',
      ['dynamic_batching', 'sequence_batching'],
    ],
    ['parameters [{ key: "a" }, { key: "a" }]', 'each key once', 'a'],
    ['version_policy { specific { versions: "1" } }', 'a whole number', '1'],
  ])('for a wrong value: %s', async (text, expected, received) => {
    const error = await errorOf(() => read(text))
    expect(error).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      expected: expect.stringContaining(expected),
      received,
    })
  })
})
