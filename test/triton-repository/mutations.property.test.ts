// Alone in test:full: long histories go slowly in a process with much behind it.
import { describe, expect, it } from 'vitest'
import { resolveConfig } from '../../src/options/model-config.ts'
import { InferenceError } from '../../src/errors.ts'
import { readModelConfig } from '../../src/features/triton-repository/config-pbtxt.ts'
import { mulberry32 } from '../models/random.ts'
import { repetitions } from '../support/full.ts'

// A configuration that somebody has mistyped either says what is wrong, where and of which file, or is one that the engine takes.

const texts = [
  `name: "m" platform: "onnxruntime_onnx" max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 224, -1 ] reshape { shape: [ 1, 3, 224, -1 ] } } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1000 ] label_filename: "labels.txt" } ]
version_policy: { specific { versions: [ 1, 3 ] } }
instance_group [ { kind: KIND_GPU gpus: [ 0 ] count: 2 }, { kind: KIND_CPU } ]
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 priority_levels: 2 default_priority_level: 1
  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1000 max_queue_size: 10 }
  priority_queue_policy { key: 1 value { allow_timeout_override: true } } }
parameters { key: "execution_mode" value { string_value: "1" } }
optimization { graph { level: 1 } input_pinned_memory { enable: true } cuda { graphs: false graph_spec { batch_size: 1 input { key: "x" value { dim: [1, 2] } } } } }
model_warmup [ { name: "w" batch_size: 2 inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 3, 224, 224 ] random_data: true } } } ]
metric_tags { key: "a" value: 'b' } response_cache { enable: true }`,
  `max_batch_size: 4
sequence_batching { max_sequence_idle_microseconds: 5000000 oldest { max_candidate_sequences: 4 preferred_batch_size: [ 2 ] }
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
                  { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } ]
  state [ { input_name: "a" output_name: "b" data_type: TYPE_INT32 dims: [ -1 ] initial_state { data_type: TYPE_INT32 dims: [ 1 ] zero_data: true name: "i" } } ] }
instance_group { kind: KIND_GPU gpus: 1 }
optimization { execution_accelerators { gpu_execution_accelerator [ { name: "tensorrt" parameters { key: "precision_mode" value: "FP16" } } ] } }`,
]

/** Pieces that a mistyped file has in the wrong places. */
const words = [
  '{',
  '}',
  '[',
  ']',
  ':',
  ',',
  '"',
  "'",
  '-',
  '-1',
  '0',
  '1',
  '99999999999999999999',
  '1e400',
  'nan',
  '0x',
  '"x"',
  'true',
  'KIND_CPU',
  'dims',
  'input',
  'name',
  '\\',
  '#',
  '\n',
  'max_batch_size: 3',
  'key: "a"',
  'value',
  '\u0000',
  'é',
  '<',
  '>',
  ';',
  'TYPE_FP64',
  'all {}',
  'reshape { shape: [] }',
]

function mutated(text: string, random: () => number): string {
  const at = Math.floor(random() * text.length)
  const length = Math.floor(random() * 12)
  const word = words[Math.floor(random() * words.length)]!
  const tokens = text.split(/\b/)
  const from = Math.floor(random() * tokens.length)
  switch (Math.floor(random() * 6)) {
    case 0:
      return text.slice(0, at) + text.slice(at + length)
    case 1:
      return `${text.slice(0, at)} ${word} ${text.slice(at)}`
    case 2:
      return text.slice(0, at) + word + text.slice(at + word.length)
    case 3:
      return tokens.with(from, word).join('')
    case 4:
      return tokens
        .toSpliced(from, 0, ...tokens.slice(at % tokens.length, (at % tokens.length) + length))
        .join('')
    default:
      return text.slice(0, at)
  }
}

function judged(text: string): 'read' | 'refused' {
  try {
    const { options } = readModelConfig({ model: 'm', file: 'm/config.pbtxt', text })
    const { responseCache: _, ...known } = options as typeof options & { responseCache?: boolean }
    resolveConfig('m', { path: 'm.onnx', ...known })
    return 'read'
  } catch (error) {
    expect(error, text).toBeInstanceOf(InferenceError)
    expect(error, text).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      model: 'm',
      argument: expect.any(String),
      expected: expect.any(String),
    })
    expect((error as Error).message, text).toMatch(/At m\/config\.pbtxt:\d+:\d+$/)
    return 'refused'
  }
}

describe('a configuration with mistakes', () => {
  it.each([...texts.entries()])('is refused with its place, or read rightly (%i)', (seed, text) => {
    const valid = text.replace('gpus: [ 0 ] count: 2 }, { kind: KIND_CPU }', 'gpus: [ 0 ] count: 2 }')
    expect(judged(valid)).toBe('read')
    const random = mulberry32(seed + 1)
    const mistakes = repetitions(3000, 300)
    const outcomes = Array.from({ length: mistakes }, () => {
      let wrong = valid
      for (let times = Math.floor(random() * 3); times >= 0; times--) wrong = mutated(wrong, random)
      return judged(wrong)
    })
    expect(outcomes.filter((outcome) => outcome === 'refused').length).toBeGreaterThan(mistakes / 2)
    expect(outcomes).toContain('read')
  })
})
