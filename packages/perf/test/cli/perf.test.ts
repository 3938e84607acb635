import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { interruptSignal } from '../../src/cli/interrupt.ts'
import { perf as command } from '../../src/cli/perf.ts'
import { gatherRow, identity } from '../../../../test/models/small.ts'
import { hasShared, missingShared, sharedPath } from '../../../../test/support/shared.ts'
import { temporaryFolder } from '../../../../test/triton-repository/temporary.ts'
import { interrupted, root, zerohop } from '../../../../test/cli/run.ts'
import { full } from '../../../../test/support/full.ts'

const perf = (...line: string[]) => zerohop('perf', ...line)
const model = () => identity('float32')
/** One window of a few requests: nothing of it depends on how fast the machine is. */
const few = ['--request-count', '40']

/** The same in this process, where it rejects with what would make the exit code. */
const called = (...line: string[]) =>
  command
    .exitOverride()
    .configureOutput({ writeErr: () => {}, outputError: () => {} })
    .parseAsync(line, { from: 'user' })

describe('zerohop perf', () => {
  it('prints settings, levels and a summary, writes the table and the requests, and ends with 0', async () => {
    const folder = temporaryFolder({})
    const [csv, json] = [join(folder, 'levels.csv'), join(folder, 'requests.json')]
    const { code, stdout, stderr } = await perf(
      '-m',
      model(),
      '-b',
      '2',
      '--concurrency-range',
      '1:3:2',
      ...few,
      '-f',
      csv,
      '--verbose-csv',
      '--profile-export-file',
      json,
      '-v',
    )
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(
      /^\*\*\* Measurement Settings \*\*\*\n {2}Batch size: 2\n {2}Service Kind: zerohop, in this process\n {2}Sending a total of 40 requests\n/,
    )
    expect(stdout.match(/^Request concurrency: \d+$/gm)).toEqual([
      'Request concurrency: 1',
      'Request concurrency: 3',
    ])
    expect(stdout.match(/^ {4}(?:Request|Inference) count: \d+$/gm)).toEqual([
      '    Request count: 40',
      '    Inference count: 80',
      '    Request count: 40',
      '    Inference count: 80',
    ])
    expect(stdout.match(/ {2}Pass \[1\] throughput: [\d.]+ infer\/sec\./g)).toHaveLength(2)
    expect(stdout).toMatch(
      /\nInferences\/Second vs\. Client Average Batch Latency\nConcurrency: 1, throughput: [\d.]+ infer\/sec, latency \d+ usec\nConcurrency: 3, throughput: [\d.]+ infer\/sec, latency \d+ usec\n$/,
    )
    const lines = readFileSync(csv, 'utf8').trimEnd().split('\n')
    expect(lines).toHaveLength(3)
    expect(lines[0]).toMatch(/^Concurrency,Inferences\/Second,.*,response wait$/)
    const { experiments } = JSON.parse(readFileSync(json, 'utf8')) as {
      experiments: {
        experiment: unknown
        requests: { timestamp: number; rows: number; response_timestamps: number[] }[]
        window_boundaries: number[]
      }[]
    }
    expect(experiments.map(({ experiment, requests }) => [experiment, requests.length])).toEqual([
      [{ mode: 'concurrency', value: 1 }, 40],
      [{ mode: 'concurrency', value: 3 }, 40],
    ])
    for (const { requests, window_boundaries } of experiments) {
      expect(window_boundaries).toHaveLength(2)
      expect(
        requests.every(({ timestamp, rows, response_timestamps: [end] }) => rows === 2 && end! >= timestamp),
      ).toBe(true)
    }
  })

  it('takes the model as an argument as well, and says so where it is named by neither or both', async () => {
    const { code, stdout, stderr } = await perf(model(), ...few)
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(/ {4}Request count: 40\n/)
    await expect(called(...few)).rejects.toMatchObject({
      message: expect.stringContaining('as in `zerohop perf model.onnx`'),
    })
    await expect(called(model(), '-m', model())).rejects.toMatchObject({
      message: expect.stringContaining('two models given'),
    })
  })

  it('sends by a rate, counted from when each was meant to be sent, with what was late', async () => {
    const { code, stdout } = await perf(
      '-m',
      model(),
      '--request-rate-range',
      '200',
      '--request-distribution',
      'poisson',
      ...few,
      '--percentile',
      '97',
    )
    expect(code).toBe(0)
    expect(stdout).toContain('  Using poisson distribution on request generation\n')
    expect(stdout).toMatch(
      /Request Rate: 200\n {2}Client: \n {4}Request count: 40\n {4}Avg send request rate: [\d.]+ infer\/sec\n/,
    )
    expect(stdout).toMatch(/ {4}Avg send lag: \d+ usec \(p99 \d+ usec\), \d+ delayed by more than 1 msec\n/)
    expect(stdout).toMatch(/ {4}p97 latency: \d+ usec\n/)
  })

  it.runIf(full)('sends by the intervals of a file, and raises the callers of a periodic range', async () => {
    const intervals = join(temporaryFolder({ 'intervals.txt': '1000\n3000\n\n' }), 'intervals.txt')
    const [byFile, periodic] = [
      await perf('-m', model(), '--request-intervals', intervals, ...few),
      await perf('-m', model(), '--periodic-concurrency-range', '1:5:2', '--request-period', '20'),
    ]
    expect([byFile.code, periodic.code]).toEqual([0, 0])
    expect(byFile.stdout).toContain('Request Rate: 500\n')
    expect(periodic.stdout).toMatch(/Request concurrency: 5\n {2}Client: \n {4}Request count: 6\d\n/)
  })

  it.runIf(full)('ends with 2 where the first level is not stable, and says what to do', async () => {
    const { code, stdout, stderr } = await perf('-m', model(), '-p', '50', '-r', '2')
    expect(code).toBe(2)
    expect(stdout).toContain('(not stable)')
    expect(stderr).toBe(
      'Failed to obtain stable measurement within 2 measurement windows for concurrency 1. Please try to increase the --measurement-interval.\n',
    )
    const counted = await perf('-m', model(), '--measurement-mode', 'count_windows', '-r', '2')
    expect([counted.code, counted.stderr]).toEqual([
      2,
      stderr.replace('--measurement-interval', '--measurement-request-count'),
    ])
    const { stderr: ofRate } = await perf('-m', model(), '--request-rate-range', '100', '-p', '50', '-r', '2')
    expect(ofRate).toBe(
      'Failed to obtain stable measurement within 2 measurement windows for request rate 100. Please try to increase the --measurement-interval, or to lower the rate if latencies grow.\n',
    )
  })

  it('ends a search where latency goes over the threshold, which is no failure', async () => {
    const { code, stdout } = await perf('-m', model(), '--concurrency-range', '1:0:1', '-l', '0.0001', ...few)
    expect(code).toBe(0)
    expect(stdout).toContain('  Latency limit: 0.0001 msec\n')
    expect(stdout).toContain('Measured latency went over the set limit of 0.0001 msec. \n')
    expect(stdout.match(/^Concurrency: /gm)).toHaveLength(1)
  })

  it.each([
    [['--concurrency-range', '0'], '--concurrency-range'],
    [['--concurrency-range', '4:2'], 'at least the start'],
    [['--concurrency-range', '1:2:3:4'], 'start:end:step'],
    [['--request-rate-range', 'x'], '--request-rate-range'],
    [['--concurrency-range', '1', '--request-rate-range', '1'], 'cannot be used'],
    [['--concurrency-range', '1:0'], 'needs --latency-threshold'],
    [['--binary-search'], '--latency-threshold'],
    [['--binary-search', '--concurrency-range', '1:0', '-l', '5'], 'start and an end'],
    [['--percentile', '100'], '--percentile'],
    [['--request-distribution', 'even'], 'Allowed choices are constant, poisson'],
    [['--measurement-mode', 'no'], 'Allowed choices'],
    [['--concurrency-range', '1000000000'], 'from 1 to 200000'],
    [['--concurrency-range', '4:'], '--concurrency-range'],
    [['--concurrency-range', '1:4:0'], '--concurrency-range'],
    [['--num-of-sequences', '1000000000'], '--num-of-sequences'],
    [['--request-rate-range', '1:2:1e-20'], 'step must be larger'],
    [['--request-rate-range', '1:0:1e-20', '-l', '1'], 'step must be larger'],
    [['--request-rate-range', '-1'], '--request-rate-range'],
    [['--request-rate-range', 'NaN'], '--request-rate-range'],
    [['--request-rate-range', 'Infinity'], '--request-rate-range'],
    [['-f', '/no/such/levels.csv'], 'a folder that is there'],
    [['-f', ''], 'the path of a file'],
    [['-f', '/tmp'], 'the path of a file'],
    [['--profile-export-file', '/no/such/requests.json'], 'a folder that is there'],
    [['--json', '/proc/levels.json'], 'in a folder that'],
    [['-f', 'levels.csv', '--json', './levels.csv'], 'name a file for each'],
    [['--request-intervals', '/no/such/file'], 'a number of microseconds on each line: ENOENT'],
    [
      ['--concurrency-range', '1:8', '--request-count', '7'],
      'expected at least 8, one request for each caller',
    ],
    [['--request-intervals', '/tmp'], 'Expected a file, received a folder'],
    [['--request-intervals', '/dev/zero'], 'not a regular file'],
    [['--model-config', '/dev/zero'], 'not a regular file'],
    [['--engine-options', '/dev/zero'], 'not a regular file'],
    [['--request-rate-range', '1e17'], 'at most 1000000000'],
    [['--periodic-concurrency-range', '1:4', '--request-count', '9'], 'cannot be used'],
    [['-p', '1e12'], 'at most 86400000'],
    [['--sequence-id-range', '1:5:2'], 'start:end'],
    [['--sequence-id-range', '5:4'], 'start:end'],
    [['--sequence-id-range', 'x'], 'start:end'],
    [['-b', '0'], '-b'],
    [['--shape', 'x'], '--shape'],
    [['--request-parameter', 'color:red:string'], 'models take no other parameters'],
    [['--model-config', '[1]'], 'a JSON object'],
    [['--model-config', '{'], 'a JSON object or the path of a JSON file'],
    [['--engine-options', '/no/such/file'], 'or the path of a JSON file: ENOENT'],
    [['--no-such'], '--no-such'],
    [['--max-threads', '4'], '--max-threads'],
    [['-f', '/no/such/folder/levels.csv'], 'a folder that is there'],
    [['-f', '/'], 'the path of a file'],
    [['--profile-export-file', '/no/such/folder/requests.json'], 'a folder that is there'],
  ])('refuses %j, before anything is loaded', async (line, message) => {
    await expect(called('-m', '/no/such/model.onnx', ...line)).rejects.toMatchObject({
      name: 'CommanderError',
      message: expect.stringContaining(message),
    })
  })

  it('ends with 3 for a command line that it refuses', async () => {
    expect(await perf('-m', model(), '-b', '0')).toEqual(
      expect.objectContaining({
        code: 3,
        stdout: '',
        stderr: expect.stringMatching(/^error: .*'-b, --batch-size <rows>'.*\n$/),
      }),
    )
  })

  it.each([
    [['-m', '/no/such.onnx'], 'ERR_MODEL_NOT_FOUND'],
    [['-m', 'none', '--model-repository', '/tmp'], 'ERR_MODEL_NOT_FOUND'],
    [['--shape', 'no:1'], 'ERR_INVALID_ARG'],
    [['--input-data', '/no/such/file'], 'ENOENT'],
    [['--input-data', '/dev/zero'], 'ERR_INVALID_ARG'],
    [['--plugin', 'example=/no/such.so', '--provider', 'example'], 'ERR_INVALID_ARG'],
    [['-x', '1'], 'ERR_INVALID_ARG'],
    [['-b', '1000000000'], 'ERR_INVALID_ARG'],
    [['--unique-inputs', '1000000000'], 'ERR_INVALID_ARG'],
    [['--model-config', '{"colour":1}'], 'ERR_MODEL_CONFIG'],
    [['--engine-options', '{"colour":1}'], 'ERR_INVALID_ARG'],
  ])('fails for %j', async (line, code) => {
    await expect(
      called(...(line.includes('-m') ? [] : ['-m', model()]), ...line, ...few),
    ).rejects.toMatchObject({ code })
  })

  it.runIf(full)('says why it leaves out an option of perf_analyzer', async () => {
    const said = await Promise.all(
      [['--async'], ['-i', 'grpc'], ['--no-such']].map((line) => perf('-m', '/no/such.onnx', ...line)),
    )
    expect(said.map(({ code, stderr }) => [code, stderr])).toEqual([
      [
        3,
        expect.stringMatching(
          /^error: option '--async' of perf_analyzer does not exist here: every call returns a promise.*\n$/,
        ),
      ],
      [3, "error: option '-i' of perf_analyzer does not exist here: there is no server and no protocol\n"],
      [3, "error: unknown option '--no-such'\n"],
    ])
  })

  it.runIf(full)('says how to give what a model takes, where it does not take what is made up', async () => {
    const line = ['perf', '-m', gatherRow(1), ...few]
    expect((await zerohop(...line)).stderr).toMatch(
      /^ERR_EXECUTION: .*The requests have generated data: give valid data by --input-data or --string-data\.\n$/,
    )
    const given = join(temporaryFolder({ 'data.json': '{"data":[{"index":[99]}]}' }), 'data.json')
    expect((await zerohop(...line, '--input-data', given)).stderr).not.toContain('generated data')
  })

  it.runIf(full)('ends with 99 where not even one request can be answered', async () => {
    const { code, stdout, stderr } = await perf('-m', model(), '-b', '8', '--max-batch-size', '4', ...few)
    expect([code, stdout]).toEqual([99, ''])
    expect(stderr).toContain('ERR_INVALID_ARG')
  })

  it('takes options of the engine and the model', async () => {
    const config = join(temporaryFolder({ 'config.json': '{"maxBatchSize":16}' }), 'config.json')
    const options = [
      '--instances',
      '2',
      '--preferred-batch-sizes',
      '4,8',
      '--max-queue-delay-us',
      '100',
      '--no-inline',
      '--executor',
      'auto',
      '--cpu-workers',
      '2',
      '--intra-op-threads',
      '1',
    ]
    const { code, stderr } = await perf(
      '-m',
      model(),
      '--concurrency-range',
      '8',
      '--model-config',
      config,
      '--engine-options',
      '{"workers":{"niceIncrement":0}}',
      ...options,
      ...few,
    )
    expect([code, stderr]).toEqual([0, ''])
  })

  it.runIf(full)('counts what is refused by its code, beside what is answered', async () => {
    const { code, stdout } = await perf(
      '-m',
      model(),
      '--concurrency-range',
      '40',
      '--no-inline',
      '--max-batch-size',
      '1',
      '--max-queue-size',
      '1',
      '--request-count',
      '200',
    )
    expect(code).toBe(0)
    const [, failed, refused] = /Failed Request Count: (\d+) \(ERR_QUEUE_FULL (\d+)\)/.exec(stdout)!
    expect(failed).toBe(refused)
    expect(Number(/ Request count: (\d+)/.exec(stdout)![1]) + Number(failed)).toBe(200)
  })

  it.runIf(full)('counts answers that are not as the file says they have to be', async () => {
    const file = join(temporaryFolder({}), 'data.json')
    writeFileSync(
      file,
      JSON.stringify({
        data: [{ x: [1, 2, 3, 4] }, { x: [5, 6, 7, 8] }],
        validation_data: [{ y: [1, 2, 3, 4] }, { y: [5, 6, 7, 9] }],
      }),
    )
    const { code, stdout } = await perf('-m', model(), '--input-data', file, ...few)
    expect(code).toBe(0)
    expect(stdout).toContain('    Request count: 20\n    Failed Request Count: 20 (UNEXPECTED_ANSWER 20)\n')
  })

  it.runIf(full)('finds answers in a response cache, and tells how many', async () => {
    const { stdout } = await perf('-m', model(), '--response-cache', ...few)
    expect(stdout).toMatch(/ {4}Cache hit count: \d+\n {4}Cache miss count: \d+\n/)
  })

  it.runIf(full)('tells its version', async () => {
    const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { version: string }
    expect(await perf('--version')).toMatchObject({ code: 0, stdout: `${version}\n` })
  })
})

describe.skipIf(!hasShared)(`zerohop perf, of a repository${missingShared}`, () => {
  const repository = () => sharedPath('models/triton-repository')

  it.runIf(full)('takes a model by its name, or by its folder', async () => {
    const [byName, byFolder] = [
      await perf('-m', 'simple', '--model-repository', repository(), '-b', '4', ...few),
      await perf('-m', join(repository(), 'simple'), '-x', '1', ...few),
    ]
    expect([byName.code, byFolder.code]).toEqual([0, 0])
    expect(byName.stdout).toContain('    Inference count: 160\n')
    expect((await perf('-m', join(repository(), 'simple'), '-x', '7')).stderr).toContain(
      "one of the versions of 'simple'",
    )
  })

  it.runIf(full)('sends sequences, each by a caller of its own', async () => {
    const line = [
      '-m',
      'simple_sequence',
      '--model-repository',
      repository(),
      '--sequence-length',
      '5',
      '--sequence-length-variation',
      '0',
      ...few,
    ]
    const [closed, open] = [
      await perf(...line, '--concurrency-range', '2'),
      await perf(...line, '--request-rate-range', '400', '--num-of-sequences', '2', '--serial-sequences'),
    ]
    for (const { code, stdout, stderr } of [closed, open]) {
      expect([code, stderr]).toEqual([0, ''])
      expect(stdout).toMatch(/ {4}Request count: 40\n(?:.*\n)? {4}Sequence count: (?:8|9) \(/)
      expect(stdout).not.toContain('Failed')
    }
  })
})

describe('zerohop perf, of an ensemble', () => {
  const one = (field: string) =>
    `${field} [{ name: "${field === 'input' ? 'x' : 'y'}" data_type: TYPE_FP32 dims: [4] }]`
  const step = (from: string, to: string) =>
    `{ model_name: "one" model_version: -1 input_map { key: "x" value: "${from}" } output_map { key: "y" value: "${to}" } }`

  it.runIf(full)('reports the models of its steps as well, and writes a table for each', async () => {
    const folder = temporaryFolder({
      'one/config.pbtxt': `backend: "onnxruntime" max_batch_size: 8 ${one('input')} ${one('output')}`,
      'one/1/model.onnx': readFileSync(model()),
      'both/config.pbtxt': `platform: "ensemble" max_batch_size: 8 ${one('input')} ${one('output')} ensemble_scheduling { step [${step('x', 'mid')}, ${step('mid', 'y')}] }`,
      'both/1/.keep': '',
    })
    const { code, stdout } = await perf('-m', join(folder, 'both'), '-f', join(folder, 'levels.csv'), ...few)
    expect(code).toBe(0)
    expect(stdout).toContain('\n  Composing models: \n  one, version: 1\n    Inference count: 80\n')
    expect(readFileSync(join(folder, 'one_v1.levels.csv'), 'utf8')).toMatch(
      /^Concurrency,Inferences\/Second,.*,Client Recv\n1,[\d.,]+,0\n$/,
    )
    mkdirSync(join(folder, 'one_v1.again.csv'))
    await expect(
      called(
        '-m',
        join(folder, 'both'),
        '-f',
        join(folder, 'again.csv'),
        '--json',
        join(folder, 'again.json'),
        ...few,
      ),
    ).rejects.toMatchObject({ code: 'ERR_INVALID_ARG' })
    expect(readdirSync(folder)).toEqual(expect.arrayContaining(['again.csv', 'again.json']))
    await expect(called('-m', join(folder, 'both'), '--instances', '2')).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining('for an ensemble'),
    })
  })
})

describe('Ctrl-C', () => {
  afterEach(() => vi.restoreAllMocks())

  it('ends the measurement and prints the results so far', async () => {
    const { code, stdout, stderr } = await interrupted(
      ['perf', '-m', model(), '-p', '50', '-r', '1000000', '-s', '0.0001', '-v'],
      (printed) => /Pass \[\d+\] throughput: [1-9]/.test(printed.stdout),
    )
    expect([code, stderr]).toEqual([0, 'interrupted: these are the results up to then\n'])
    expect(stdout).toMatch(/Request concurrency: 1\n {2}Client: \n {4}Request count: [1-9]/)
    expect(stdout).toMatch(
      /\nConcurrency: 1, throughput: [\d.]+ infer\/sec, latency \d+ usec \(not stable\)\n$/,
    )
  })

  it('ends the program at once where it is the second', () => {
    const exit = vi.spyOn(process, 'exit').mockImplementation((() => {}) as never)
    const { signal, release } = interruptSignal()
    process.emit('SIGINT')
    expect([signal.aborted, exit.mock.calls]).toEqual([true, []])
    process.emit('SIGINT')
    expect(exit.mock.calls).toEqual([[130]])
    release()
    expect(process.listeners('SIGINT').length + process.listeners('SIGTERM').length).toBe(listeners)
  })

  const listeners = process.listeners('SIGINT').length + process.listeners('SIGTERM').length
})
