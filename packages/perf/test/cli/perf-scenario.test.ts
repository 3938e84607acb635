import { describe, expect, it } from 'vitest'
import type { PerfResult } from '../../src/perf/result-schema.ts'
import * as small from '../../../../test/models/small.ts'
import { dependentRows } from '../../../../test/models/dependent-rows.ts'
import { interrupted, zerohop } from '../../../../test/cli/run.ts'
import { full } from '../../../../test/support/full.ts'

const model = small.identity('float32')

/** What `--json` prints. */
async function measured(...line: string[]): Promise<PerfResult & { readonly code: number }> {
  const { code, stdout, stderr } = await zerohop('perf', ...line, '--json')
  try {
    return { ...(JSON.parse(stdout) as PerfResult), code: code }
  } catch {
    throw new Error(`code ${code}: ${stderr}`)
  }
}

describe('zerohop perf --scenario', () => {
  it.runIf(full).each([
    ['single-stream', ['--min-query-count', '700'], 'us', 700],
    ['multi-stream', ['--min-query-count', '662', '--samples-per-query', '4'], 'us', 2648],
    [
      'server',
      ['--target-qps', '200', '--target-latency', '60000', '--min-query-count', '500'],
      'samples/s',
      500,
    ],
    ['offline', ['--min-query-count', '2000', '--target-qps', '1'], 'samples/s', 2000],
  ] as const)('measures %s by the rules of LoadGen', async (scenario, line, unit, sampleCount) => {
    const {
      code,
      mode,
      scenario: result,
    } = await measured('-m', model, '--scenario', scenario, '--min-duration', '0', ...line)
    expect(result).toMatchObject({
      scenario,
      mode: 'PerformanceOnly',
      valid: true,
      reasons: [],
      sampleCount,
      failures: {},
      peak: null,
      metric: { unit },
    })
    expect(result!.metric.value).toBeGreaterThan(0)
    expect(result!.settings).toMatchObject({
      performanceSampleCount: 1024,
      qslRngSeed: '2085463073848966840',
      sampleIndexRngSeed: '2747215439041700203',
      scheduleRngSeed: '16159082839903944936',
    })
    expect(result!.belowMlperf).toContain('minDurationMs 0 < 600000')
    expect({ code, mode }).toEqual({ code: 0, mode: 'scenario' })
  })

  it("prints LoadGen's summary, and exits 2 for a run that is not valid", async () => {
    const { code, stdout } = await zerohop(
      'perf',
      '-m',
      model,
      '--scenario',
      'single-stream',
      '--min-duration',
      '0',
      '--min-query-count',
      '30',
      '--performance-sample-count',
      '8',
    )
    expect(stdout).toMatch(
      /^=+\nMLPerf Results Summary\n=+\nSUT name : .*\nScenario : SingleStream\nMode {5}: PerformanceOnly\n90.0th percentile latency \(ns\) : \d+\nResult is : INVALID\n/,
    )
    expect(stdout).toContain('performance_sample_count : 8\n')
    expect(code).toBe(2)
  })

  it.runIf(full)(
    'searches the peak of the server scenario where no rate is given, and prints each trial',
    async () => {
      // No answer is within such a bound, at whatever rate.
      const { code, stdout, stderr } = await zerohop(
        'perf',
        '-m',
        model,
        '--scenario',
        'server',
        '--target-latency',
        '0.000001',
        '--min-duration',
        '0',
        '--min-query-count',
        '2',
        '--find-peak-attempts',
        '1',
      )
      expect(stdout).toContain('Mode     : FindPeakPerformance\n')
      expect(stdout).toContain('Peak : the bound does not hold at any rate\n')
      expect(stderr.split('\n').filter((line) => /^target_qps .* does not hold/.test(line))).toHaveLength(1)
      expect(code).toBe(2)
    },
  )

  it.each([
    [['--scenario', 'server', '--target-latency-percentile', '100'], /between 0 and 100/, 3],
    [
      ['--scenario', 'offline', '--find-peak-performance'],
      /^error: --find-peak-performance has no effect with --scenario offline: omit it\n$/,
      3,
    ],
    [
      ['--scenario', 'server', '--request-rate-range', '100'],
      /^error: --request-rate-range has no effect with --scenario server/,
      3,
    ],
    [
      ['--check-rows', '--inputs', 'same'],
      /--scenario, --replay, --check-rows and --inputs exclude each other, except --scenario with --inputs/,
      3,
    ],
    [
      ['--scenario', 'server', '--replay', 'requests.jsonl'],
      /--scenario, --replay, --check-rows and --inputs exclude each other, except --scenario with --inputs/,
      3,
    ],
    [
      ['--inputs', 'both', '-f', 'levels.csv'],
      /^error: --latency-report-file levels.csv has no effect with --inputs both/,
      3,
    ],
    [
      ['--scenario', 'server', '--inputs', 'both'],
      /^error: --inputs both has no effect with --scenario server/,
      3,
    ],
    [
      ['--scenario', 'server', '--request-count', '100'],
      /^error: --request-count has no effect with --scenario server/,
      3,
    ],
    [
      ['--check-rows', '--profile-export-file', 'requests.json'],
      /^error: --profile-export-file requests.json has no effect with --check-rows/,
      3,
    ],
    [
      ['--target-qps', '10'],
      /^error: --target-qps has no effect without --scenario <name>: add that, or omit this\n$/,
      3,
    ],
    [
      ['--check-rounds', '10'],
      /^error: --check-rounds has no effect without --check-rows: add that, or omit this\n$/,
      3,
    ],
    [['--speed', '2'], /^error: --speed has no effect without --replay <file>: add that, or omit this\n$/, 3],
  ])('refuses %j', async (line, text, exitCode) => {
    const { code, stderr } = await zerohop('perf', '-m', model, ...line)
    expect(stderr).toMatch(text)
    expect(code).toBe(exitCode)
  })
})

describe('Ctrl-C', () => {
  it.runIf(full)('ends a search and prints the results so far', async () => {
    const line = 'perf --scenario server --target-qps 50 --find-peak-performance --target-latency 60000'
    const { code, stdout, stderr } = await interrupted(
      [...line.split(' '), '-m', model, '--min-duration', '10', '--min-query-count', '5'],
      (printed) => printed.stderr !== '',
    )
    expect(stderr).toMatch(/^target_qps 50 holds: [^]*\ninterrupted: these are the results up to then\n$/)
    expect(stdout).toContain('Result is : INVALID\n')
    expect(stdout).toContain(' * it was ended by the user\n')
    expect(code).toBe(0)
  })
})

describe('zerohop perf --check-rows', () => {
  it('finds each answer under load as it is alone', async () => {
    const { code, accuracy } = await measured(
      '-m',
      model,
      '--check-rows',
      '--max-batch-size',
      '8',
      '--concurrency-range',
      '8',
    )
    expect(accuracy).toMatchObject({
      answers: 4 * 64,
      samples: 64,
      concurrency: 8,
      within: true,
      failures: {},
      outputs: [{ output: 'y', absolute: 0, relative: 0, above: 0 }],
    })
    expect(accuracy!.batchSizes.some(({ batchSize }) => batchSize > 1)).toBe(true)
    expect(code).toBe(0)
  })

  it('exits 1 where rows reach each other, as told by the largest difference', async () => {
    const { path } = dependentRows().find(({ name }) => name === 'cumulative sum')!
    const { code, accuracy } = await measured(
      '-m',
      path,
      '--check-rows',
      '--max-batch-size',
      '8',
      '--no-row-check',
    )
    expect(accuracy!.within).toBe(false)
    expect(accuracy!.outputs[0]!.above).toBeGreaterThan(0)
    expect(accuracy!.outputs[0]!.relative).toBeGreaterThan(0.1)
    expect(code).toBe(1)
    const tolerant = await zerohop(
      'perf',
      '-m',
      path,
      '--check-rows',
      '--max-batch-size',
      '8',
      '--no-row-check',
      '--check-tolerance',
      '1000000',
    )
    expect(tolerant.stdout).toContain('Answers are within the tolerance of 1000000\n')
    expect(tolerant.code).toBe(0)
  })
})

describe('zerohop perf --inputs and --goodput', () => {
  const short = ['-p', '150', '-r', '3', '-s', '100000']

  it.runIf(full)('shows what a response cache makes of the same requests', async () => {
    const { inputs } = await measured('-m', model, '--inputs', 'both', '--response-cache', ...short)
    const hits = inputs!.map(({ levels }) => levels[0]!.server)
    expect(inputs!.map(({ inputs: kind, distinct }) => [kind, distinct])).toEqual([
      ['same', 1],
      ['unique', null],
    ])
    expect(hits[0]!.cacheHitCount).toBeGreaterThan(0)
    expect(hits[1]!.cacheMissCount).toBeGreaterThan(0)
    expect(hits[1]!.cacheHitCount).toBe(0)
  })

  it.runIf(full).each(['request_latency:60000', '60000'])(
    'counts answers within a bound, as %s',
    async (bound) => {
      const { code, stdout } = await zerohop('perf', '-m', model, '--goodput', bound, ...short)
      expect(stdout).toMatch(/Goodput within 60000 msec: [\d.]+ requests\/sec \(100 %\)/)
      expect([0, 2]).toContain(code)
    },
  )
})
