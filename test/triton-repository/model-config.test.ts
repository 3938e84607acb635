import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { Tensor } from 'onnxruntime-common'
import protobuf from 'protobufjs'
import textformat from 'protobufjs/ext/textformat.js'
import { describe, expect, it, onTestFinished } from 'vitest'
import { InferenceEngine } from '../../src/engine.ts'
import { readModelConfig } from '../../src/features/triton-repository/config-pbtxt.ts'
import { parseTextFormat, type TextField } from '../../src/features/triton-repository/text-format.ts'
import { resolveConfig } from '../../src/options/model-config.ts'
import { repetitions } from '../support/full.ts'
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
    expect(notes.join('\n')).toContain("'gpu_id' is not a parameter")
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

const parse = (text: string) => parseTextFormat({ model: 'm', file: 'config.pbtxt', text })
/** `[name, values]` of every field, messages likewise. */
const plain = (fields: readonly TextField[]): unknown[] =>
  fields.map(({ name, values }) => [
    name,
    values.map(({ kind, value }) => (kind === 'message' ? plain(value as TextField[]) : value)),
  ])
const only = (text: string): unknown => (plain(parse(text)) as [string, unknown[]][])[0]![1][0]

describe('protobuf text format', () => {
  it('has fields in any layout', () => {
    const fields = [
      ['a', [1n]],
      ['b', [[['c', ['x']]]]],
      ['d', [[]]],
    ]
    expect(plain(parse('a: 1 b { c: "x" } d {}'))).toEqual(fields)
    expect(plain(parse("\uFEFFa:1;b:<c:'x',>,d<>;\r\n"))).toEqual(fields)
    expect(plain(parse('# first\na: 1 # one\nb\n{ # in\n c: "x" }\n\n  d: {} #'))).toEqual(fields)
    expect(parse(' \n# nothing')).toEqual([])
  })
  it('has lists, with or without a colon before messages', () => {
    expect(plain(parse('a: [1, 2] b [{}, {c: 3}] d: [<>] e: [] f []'))).toEqual([
      ['a', [1n, 2n]],
      ['b', [[], [['c', [3n]]]]],
      ['d', [[]]],
      ['e', []],
      ['f', []],
    ])
  })
  it.each([
    ['0', 0n],
    ['-7', -7n],
    ['- 7', -7n],
    ['0x1F', 31n],
    ['-0x10', -16n],
    ['017', 15n],
    ['9223372036854775807', 9223372036854775807n],
    ['1.5', 1.5],
    ['.5', 0.5],
    ['1.', 1],
    ['2e3', 2000],
    ['-1.5e-2f', -0.015],
    ['3f', 3],
    ['inf', Infinity],
    ['-Infinity', -Infinity],
    ['nan', Number.NaN],
    ['KIND_CPU', 'KIND_CPU'],
    ['true', 'true'],
  ])('reads %s', (text, value) => {
    expect(only(`a: ${text}`)).toEqual(value)
  })
  it.each([
    ['"it\'s"', "it's"],
    ['\'say "hi"\'', 'say "hi"'],
    [String.raw`"\a\b\f\n\r\t\v\?\\\'\""`, '\x07\b\f\n\r\t\v?\\\'"'],
    [String.raw`"\101\x42\u0043\U00000044"`, 'ABCD'],
    [String.raw`"\303\251 é \xc3\xa9 \u00e9"`, 'é é é é'],
    [String.raw`"\0011\x0g"`, '\x011\0g'],
    ['"one " \'two\'\n # and\n"three"', 'one twothree'],
    [String.raw`"\303" '\251'`, 'é'],
    ['"# no comment"', '# no comment'],
    ['""', ''],
  ])('reads the string %s', (text, value) => {
    expect(only(`a: ${text}`)).toBe(value)
  })
  it.each([
    ['a: 1\nb', 'end of the file', 2, 2],
    ['a 1', "'1'", 1, 3],
    ['a: {', 'end of the file', 1, 5],
    ['a { b: 1 >', "'>'", 1, 10],
    ['}', "'}'", 1, 1],
    ['a: [1 2]', "'2'", 1, 7],
    ['a: [1,]', "']'", 1, 7],
    ['a [1]', "'1'", 1, 4],
    ['a: -x', "'x'", 1, 5],
    ['a: 08', "'08'", 1, 4],
    ['a: 1x', "'1x'", 1, 4],
    ['a: 1.2.3', "'1.2.3'", 1, 4],
    ['a: 0x', "'0x'", 1, 4],
    ['\n\n a: "b', "'\"b'", 3, 5],
    ['a: "b\nc"', "'\"b'", 1, 4],
    [String.raw`a: "b\q"`, String.raw`'\q'`, 1, 6],
    [String.raw`a: "\400"`, String.raw`'\400'`, 1, 5],
    [String.raw`a: "\ud800"`, String.raw`'\ud800'`, 1, 5],
    [String.raw`a: "\xff"`, 'UTF-8', 1, 4],
    ['[a.b]: 1', "'['", 1, 1],
    ['a: 1,, b: 2', "','", 1, 6],
    ['a: @', "'@'", 1, 4],
    ['"a": 1', '\'"a"\'', 1, 1],
  ])('refuses %s', async (text, received, line, column) => {
    const error = await errorOf(() => parse(text))
    expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG', model: 'm' })
    expect(error.message).toContain(received)
    expect(error.message).toMatch(new RegExp(`config\\.pbtxt:${line}:${column}$`))
  })
  it('refuses messages nested without end', async () => {
    expect((await errorOf(() => parse('a {'.repeat(100_000)))).message).toContain(
      'at most 100 messages in one another',
    )
    expect(parse('a {'.repeat(100) + '}'.repeat(100))).toHaveLength(1)
  })
  it('never fails in another way, whatever the text', () => {
    const token = fc.constantFrom(
      'a',
      ':',
      '{',
      '}',
      '<',
      '>',
      '[',
      ']',
      ',',
      ';',
      '-',
      '1',
      '0x',
      '.5',
      '"',
      "'",
      '\\',
      '#',
      '\n',
      ' ',
    )
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.array(token).map((tokens) => tokens.join('')),
        ),
        (text) => {
          try {
            parse(text)
          } catch (error) {
            expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG' })
          }
        },
      ),
    )
  })
})

describe('the text format of protobufjs', () => {
  const { root } = protobuf.parse(`syntax = "proto3";
    enum E { ZERO = 0; ONE = 1; }
    message M { repeated string s = 1; repeated int64 i = 2; repeated double d = 3; repeated bool b = 4; repeated E e = 5; repeated M m = 6; }`)
  const type = root.lookupType('M')

  it('is read as this library reads it', () => {
    fc.assert(
      fc.property(message, (text) => {
        const theirs = type.toObject(textformat.fromText(type, text), { enums: String, longs: String })
        expect(grouped(parse(text))).toEqual(theirs)
      }),
      { numRuns: repetitions(500, 100) },
    )
  })

  const quoted = fc
    .tuple(fc.string({ unit: 'grapheme' }), fc.constantFrom('"', "'"))
    .map(
      ([content, quote]) =>
        quote +
        content.replace(
          /[\\\n\r"']/g,
          (character) => `\\${character.codePointAt(0)!.toString(8).padStart(3, '0')}`,
        ) +
        quote,
    )
  const blank = fc.constantFrom(' ', '\n', '\t ', ' # comment " { \n')
  const scalar = (name: string, value: fc.Arbitrary<string>) =>
    fc
      .tuple(
        blank,
        blank,
        fc.oneof(
          value,
          fc.array(value).map((values) => `[${values.join(' , ')}]`),
        ),
      )
      .map(([before, after, written]) => `${name}${before}:${after}${written}`)
  const { message } = fc.letrec<{ message: string; field: string }>((tie) => ({
    message: fc
      .array(
        fc.tuple(tie('field'), fc.constantFrom(' ', ',', ' ; ', '\n')).map((parts) => parts.join('')),
        { maxLength: 6 },
      )
      .map((fields) => fields.join('')),
    field: fc.oneof(
      { depthSize: 'small' },
      scalar(
        's',
        fc.array(quoted, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(' ')),
      ),
      scalar('i', fc.oneof(fc.maxSafeInteger().map(String), fc.constantFrom('0x7f', '-017', '0'))),
      scalar(
        'd',
        fc.oneof(
          fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
          fc.constantFrom('inf', '-inf', '1.5f', '.5', '2.'),
        ),
      ),
      scalar('b', fc.constantFrom('true', 'false')),
      scalar('e', fc.constantFrom('ZERO', 'ONE')),
      fc
        .tuple(fc.constantFrom('', ':', ' : '), tie('message'))
        .map(([colon, inner]) => `m${colon} {${inner}}`),
      fc
        .array(tie('message'), { maxLength: 3 })
        .map((inner) => `m [${inner.map((each) => `<${each}>`).join(',')}]`),
    ),
  }))
})

/** As `toObject` of protobufjs gives it: every field a list, integers as text. */
function grouped(fields: readonly TextField[]): Record<string, unknown[]> {
  const object: Record<string, unknown[]> = {}
  const typed: Record<string, (value: never) => unknown> = {
    i: String,
    d: Number,
    b: (value) => value === 'true',
    m: (value) => grouped(value),
    s: (value) => value,
    e: (value) => value,
  }
  for (const { name, values } of fields) {
    if (values.length > 0)
      (object[name] ??= []).push(...values.map(({ value }) => typed[name]!(value as never)))
  }
  return object
}

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
