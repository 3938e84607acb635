import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Command } from 'commander'
import { afterAll, describe, expect, it } from 'vitest'
import type { ModelOptions } from '../../../../src/index.ts'
import { root, zerohop, zerohopAlone } from '../../../../test/cli/run.ts'
import { identity } from '../../../../test/models/small.ts'
import {
  addEngineOptions,
  type EngineCommandOptions,
  engineOptionsOf,
  modelOptionsOf,
} from '../../src/cli/perf-engine-options.ts'
import {
  addInputOptions,
  type InputOptions,
  inputSettings,
  sequencesOf,
} from '../../src/cli/perf-input-options.ts'
import { leftOut, leftOutColumns, leftOutText } from '../../src/cli/perf-left-out.ts'
import { perf } from '../../src/cli/perf.ts'
import { simulate } from '../../src/cli/simulate.ts'
import { tune } from '../../src/cli/tune.ts'
import type { OpenedModel } from '../../src/perf/open-target.ts'
import type { LoadSettings } from '../../src/perf/perf-settings.ts'
import { csvReport } from '../../src/perf/report/csv-report.ts'
import { levelOf } from '../perf/level.ts'

/** The options of perf_analyzer, with their defaults; `undefined` where it has none. */
const has: readonly [option: string, byDefault: unknown][] = [
  ['-m', undefined],
  ['-x', undefined],
  ['-b', 1],
  ['-v', false],
  ['--version', undefined],
  ['--model-repository', undefined],
  ['--measurement-mode', 'time_windows'],
  ['-p', 5000],
  ['--measurement-interval', 5000],
  ['--measurement-request-count', 50],
  ['-s', 10],
  ['--stability-percentage', 10],
  ['--percentile', -1],
  ['--warmup-request-count', 0],
  ['--request-count', 0],
  ['-r', 10],
  ['--max-trials', 10],
  ['--concurrency-range', undefined],
  ['--periodic-concurrency-range', undefined],
  ['--request-period', 10],
  ['--request-parameter', []],
  ['--request-rate-range', undefined],
  ['--request-distribution', 'constant'],
  ['-l', 0],
  ['--latency-threshold', 0],
  ['--binary-search', false],
  ['--request-intervals', undefined],
  ['--num-of-sequences', 4],
  ['--sequence-length', 20],
  ['--sequence-length-variation', 20],
  ['--sequence-id-range', { start: 1, end: 2 ** 32 }],
  ['--serial-sequences', false],
  ['--input-data', []],
  ['--shape', []],
  ['--string-data', undefined],
  ['--string-length', 128],
  ['-f', undefined],
  ['--profile-export-file', undefined],
  ['--verbose-csv', false],
]

/** Its other options, each of which is told of, with a reason. */
const hasNot = [
  '--service-kind',
  '--endpoint',
  '--bls-composing-models',
  '--model-signature-name',
  '--session-concurrency',
  '--fixed-schedule',
  '--max-threads',
  '--enable-mpi',
  '--shared-memory',
  '--output-shared-memory-size',
  '--input-tensor-format',
  '--output-tensor-format',
  '-i',
  '-a',
  '--async',
  '--sync',
  '--streaming',
  '-H',
  '--grpc-compression-algorithm',
  '--grpc-method',
  '--proto',
  '-u',
  '--ssl-grpc-use-ssl',
  '--ssl-grpc-root-certifications-file',
  '--ssl-grpc-private-key-file',
  '--ssl-grpc-certificate-chain-file',
  '--ssl-https-verify-peer',
  '--ssl-https-verify-host',
  '--ssl-https-ca-certificates-file',
  '--ssl-https-client-certificate-file',
  '--ssl-https-client-certificate-type',
  '--ssl-https-private-key-file',
  '--ssl-https-private-key-type',
  '--triton-server-directory',
  '--collect-metrics',
  '--metrics-url',
  '--metrics-interval',
  '--trace-level',
  '--trace-rate',
  '--trace-count',
  '--log-frequency',
  '--data-directory',
  '-c',
  '-d',
  '-t',
  '-z',
]

const options = new Map(
  perf.options.flatMap((option) => [option.short, option.long].map((name) => [name, option] as const)),
)

/** The columns of its CSV. */
const columns = [
  'Concurrency',
  'Request Rate',
  'Inferences/Second',
  'Response Throughput',
  'Client Send',
  'Network+Server Send/Recv',
  'Server Queue',
  'Server Compute Input',
  'Server Compute Infer',
  'Server Compute Output',
  'Server Cache Hit',
  'Server Cache Miss',
  'Client Recv',
  'p50 latency',
  'p90 latency',
  'p95 latency',
  'p99 latency',
  'p97 latency',
  'Avg latency',
  'request/response',
  'response wait',
  'Avg GPU Utilization',
  'Avg GPU Power Usage',
  'Max GPU Memory Usage',
  'Total GPU Memory',
]

describe('the columns of the CSV of zerohop perf', () => {
  const usual = levelOf({ server: { ...levelOf({}).server, cacheHitCount: 1 } })
  const withPercentile = { ...usual, percentile: { percentile: 97, us: 1 } }
  const written = new Set(
    (
      [
        ['concurrency', usual],
        ['request-rate', withPercentile],
      ] as const
    ).flatMap(([mode, level]) =>
      csvReport({ mode, levels: [level] }, true)
        .split('\n', 1)[0]!
        .split(','),
    ),
  )
  const without = leftOutColumns.flatMap(([names]) => names.split(', '))

  it.each(columns)('have %s of perf_analyzer, or a reason why not', (name) => {
    expect([written.has(name), without.includes(name)].filter(Boolean)).toHaveLength(1)
  })

  it('have no others', () => {
    expect([...written, ...without].toSorted()).toEqual(columns.toSorted())
  })
})

describe('the options of zerohop perf', () => {
  it.each(has)('have %s of perf_analyzer, with its default', (name, byDefault) => {
    expect(options.get(name)).toBeDefined()
    expect(options.get(name)!.defaultValue).toEqual(byDefault)
  })

  it('leave out the others, each with a reason, and no more', () => {
    const named = leftOut.flatMap(([names]) => names.split(' '))
    expect(named.toSorted()).toEqual(hasNot.toSorted())
    expect(hasNot.filter((name) => options.has(name))).toEqual([])
    expect(leftOut.filter(([, reason]) => reason.length < 20)).toEqual([])
  })

  it('are all in --help-all, and so is what is left out', async () => {
    const { code, stdout: help } = await zerohopAlone('perf', '--help-all') // it changes what --help shows
    expect(code).toBe(0)
    for (const [name] of has) expect(help).toContain(name)
    expect(help).toContain(leftOutText())
  })

  it('are few in --help, which fits a screen', async () => {
    const { code, stdout: help } = await zerohop('perf', '--help')
    expect(code).toBe(0)
    for (const name of ['--concurrency-range', '--json', '--help-all']) expect(help).toContain(name)
    expect(help).not.toContain('--string-length')
    expect(help.split('\n').length).toBeLessThanOrEqual(50)
  })

  it('and the reasons are in docs/guide/perf.md', () => {
    const page = readFileSync(`${root}docs/guide/perf.md`, 'utf8')
    for (const [names, reason] of leftOut) {
      for (const name of names.split(' ')) expect(page).toContain(`\`${name}\``)
      expect(page).toContain(reason)
    }
    for (const [names, reason] of leftOutColumns) {
      for (const name of names.split(', ')) expect(page).toContain(`\`${name}\``)
      expect(page).toContain(reason)
    }
    for (const [name] of has) expect(page).toContain(name)
  })
})

const optionsOf = (...line: string[]) =>
  addEngineOptions(new Command()).parse(line, { from: 'user' }).opts<EngineCommandOptions>()
const modelOptions = (line: string[], before: ModelOptions = {}) => modelOptionsOf(optionsOf(...line), before)

describe('options of the engine on the command line', () => {
  it('leave everything as it is where none is given', () => {
    expect([engineOptionsOf(optionsOf()), modelOptions([])]).toEqual([{}, {}])
  })

  it('are those of an engine', () => {
    expect(
      engineOptionsOf(
        optionsOf(
          '--cpu-workers',
          '2',
          '--executor',
          'binding',
          '--no-inline',
          '--engine-options',
          '{"verify":"none","cpuWorkers":1}',
          '--plugin',
          'openvino=/a/b.so',
        ),
      ),
    ).toEqual({
      cpuWorkers: 2,
      executor: 'binding',
      inline: false,
      verify: 'none',
      providers: { openvino: { library: '/a/b.so' } },
    })
  })

  it.each<[string[], ModelOptions]>([
    [['--instances', '3'], { instanceGroup: [{ count: 3 }] }],
    [['--provider', 'cpu'], { instanceGroup: [{ kind: 'cpu' }] }],
    [['--max-batch-size', '0'], { maxBatchSize: 0 }],
    [
      ['--preferred-batch-sizes', '4,8', '--max-queue-delay-us', '250', '--preserve-ordering'],
      { dynamicBatching: { preferredBatchSize: [4, 8], maxQueueDelayMs: 0.25, preserveOrdering: true } },
    ],
    [['--max-queue-size', '5'], { dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 5 } } }],
    [['--no-dynamic-batching'], { dynamicBatching: false }],
    [
      ['--latency-target-ms', '20', '--response-cache', '--intra-op-threads', '1'],
      { latencyTargetMs: 20, responseCache: true, sessionOptions: { intraOpNumThreads: 1 } },
    ],
    [
      ['--model-config', '{"weight":2,"maxBatchSize":4}', '--max-batch-size', '8'],
      { weight: 2, maxBatchSize: 8 },
    ],
  ])('%j are those of a model', (line, expected) => {
    expect(modelOptions(line)).toEqual(expected)
  })

  it('change what is said elsewhere no further than they say', () => {
    const before: ModelOptions = {
      instanceGroup: [{ kind: 'cpu', count: 1 }],
      dynamicBatching: { maxQueueDelayMs: 5, priorityLevels: 2 },
      sessionOptions: { logId: 'm' },
    }
    expect(
      modelOptions(['--instances', '2', '--max-queue-delay-us', '0', '--intra-op-threads', '2'], before),
    ).toEqual({
      instanceGroup: [{ kind: 'cpu', count: 2 }],
      dynamicBatching: { maxQueueDelayMs: 0, priorityLevels: 2 },
      sessionOptions: { logId: 'm', intraOpNumThreads: 2 },
    })
    expect(modelOptions(['--max-queue-delay-us', '10'], { dynamicBatching: false })).toEqual({
      dynamicBatching: { maxQueueDelayMs: 0.01 },
    })
  })
})

describe('options of requests on the command line', () => {
  const settingsOf = (line: string[], opened: Partial<OpenedModel> = {}) =>
    inputSettings(
      addInputOptions(new Command()).parse(line, { from: 'user' }).opts<InputOptions>(),
      { hasSequences: false, config: {}, ...opened } as OpenedModel,
      7,
    )

  it('are by default one row of random data', () => {
    expect(settingsOf([])).toMatchObject({
      inputData: ['random'],
      batchSize: 1,
      stringLength: 128,
      stringData: null,
      uniqueInputs: 1,
      seed: 7,
      options: undefined,
      sequences: null,
    })
  })

  it('are taken as they are given', () => {
    const line = [
      '-b',
      '4',
      '--shape',
      'a:1,2',
      '--shape',
      'b:c:3',
      '--input-data',
      'x.json',
      '--input-data',
      'y',
      '--string-data',
      'text',
      '--request-parameter',
      'priority:2:int',
      '--request-parameter',
      'timeout:1500:int',
    ]
    expect(settingsOf(line)).toMatchObject({
      batchSize: 4,
      shapes: new Map([
        ['a', [1, 2]],
        ['b:c', [3]],
      ]),
      inputData: ['x.json', 'y'],
      stringData: 'text',
      options: { priority: 2, timeoutMs: 1.5 },
    })
  })

  it('are of sequences for a model that has them, which give nothing of what sequences fill', () => {
    const config = {
      sequence: { controls: [{ input: 'START', kind: 'start' }], state: [{ input: 'S', output: 'SN' }] },
      optionalInputs: ['M'],
    } as never
    const line = [
      '--sequence-length',
      '3',
      '--sequence-length-variation',
      '50',
      '--sequence-id-range',
      '10:12',
    ]
    expect(settingsOf(line, { hasSequences: true, config })).toMatchObject({
      sequences: { length: 3, variation: 0.5, firstId: 10, lastId: 12 },
      filledInputs: ['START', 'S'],
      optionalInputs: ['M'],
    })
  })

  it('need an id for each sequence that is under way at once', () => {
    const of = (line: string[], load: LoadSettings, hasSequences = true) =>
      sequencesOf(
        addInputOptions(new Command()).parse(line, { from: 'user' }).opts<InputOptions>(),
        { hasSequences } as OpenedModel,
        load,
      )
    const callers = (end: number): LoadSettings => ({
      mode: 'concurrency',
      range: { start: 1, end, step: 1 },
    })
    const rate: LoadSettings = {
      mode: 'request-rate',
      range: { start: 1, end: 1, step: 1 },
      distribution: 'constant',
    }
    expect(of(['--sequence-id-range', '3:5'], callers(3))).toEqual({ count: 4, serial: false })
    expect(of(['--sequence-id-range', '3'], callers(1000))).toEqual({ count: 4, serial: false })
    expect(() => of(['--sequence-id-range', '3:5'], callers(4))).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARG',
        message: expect.stringContaining('at least 4 ids'),
      }),
    )
    expect(() => of(['--sequence-id-range', '3:5'], rate)).toThrow('at least 4 ids')
    expect(of(['--sequence-id-range', '3:5'], rate, false)).toBeNull()
  })
})

const of = (command: typeof perf) => command.options.flatMap(({ short, long }) => [short, long])

describe('what means the same to several commands', () => {
  it('has one name and one unit in zerohop simulate and zerohop perf', () => {
    const shared = [
      '--instances',
      '--max-batch-size',
      '--preferred-batch-sizes',
      '--max-queue-delay-us',
      '--latency-target-ms',
      '-b',
      '-m',
      '--request-count',
      '--seed',
      '--replay',
      '--replay-model',
      '--speed',
    ]
    expect(shared.filter((name) => !of(simulate).includes(name) || !of(perf).includes(name))).toEqual([])
  })

  it('has them in zerohop tune, which takes several values, too', () => {
    const shared = [
      '--instances',
      '--intra-op-threads',
      '--max-batch-sizes',
      '--max-queue-delays-us',
      '-b',
      '--shape',
      '--input-data',
      '--provider',
      '--plugin',
      '--model-config',
      '--engine-options',
    ]
    const ofPerf = of(perf).map((name) =>
      name?.replace(/-size$/, '-sizes').replace(/-delay-us$/, '-delays-us'),
    )
    expect(shared.filter((name) => !of(tune).includes(name) || !ofPerf.includes(name))).toEqual([])
    expect(of(simulate)).toContain('--request-rate')
    expect(of(tune)).toContain('--request-rate')
  })
})

const repository = mkdtempSync(join(tmpdir(), 'zerohop-names-'))
for (const name of ['digits', 'squeezenet1.1']) mkdirSync(join(repository, name))
afterAll(() => rmSync(repository, { recursive: true }))

describe('zerohop perf says what is wrong, and what it would be otherwise', () => {
  it.each([
    [
      'which part of a range',
      ['-m', 'm.onnx', '--concurrency-range', '1:4:0'],
      "The step is '0'. Expected a whole number from 1 to",
    ],
    [
      'the form of a parameter',
      ['-m', 'm.onnx', '--request-parameter', 'priority'],
      'Expected name:value:type',
    ],
    [
      'what stands for an option of perf_analyzer, and only that',
      ['-m', 'm.onnx', '-t', '4'],
      "option '-t' of perf_analyzer does not exist here: deprecated in perf_analyzer: use --concurrency-range",
    ],
    [
      'the models of a repository',
      ['-m', 'squeezenet', '--model-repository', repository],
      'it has digits, squeezenet1.1',
    ],
    ['where a model was looked for', ['-m', 'squeezenet'], resolve('squeezenet')],
    [
      'that a file has no versions',
      ['-m', identity('float32'), '-x', '3'],
      'none, as only models of a repository have versions, and this is a file',
    ],
  ])('%s', async (_, line, text) => {
    const { code, stderr } = await zerohop('perf', ...line)
    expect(code).not.toBe(0)
    expect(stderr).toContain(text)
  })
})
