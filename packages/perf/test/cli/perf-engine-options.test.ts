import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import {
  addEngineOptions,
  engineOptionsOf,
  modelOptionsOf,
  type EngineCommandOptions,
} from '../../src/cli/perf-engine-options.ts'
import {
  addInputOptions,
  inputSettings,
  sequencesOf,
  type InputOptions,
} from '../../src/cli/perf-input-options.ts'
import type { ModelOptions } from '../../../../src/index.ts'
import type { OpenedModel } from '../../src/perf/open-target.ts'
import type { LoadSettings } from '../../src/perf/perf-settings.ts'

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
