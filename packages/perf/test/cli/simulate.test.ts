import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import type { Arrival } from '../../../../src/observe/arrival.ts'
import type { PredictionCheck } from '../../src/simulation/recorded-run.ts'
import type { SeldomSizes } from '../../src/simulation/service-times.ts'
import type { SimulationResult } from '../../src/simulation/simulation-result.ts'
import { identity } from '../../../../test/models/small.ts'
import { zerohop } from '../../../../test/cli/run.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-simulate-'))
afterAll(() => rmSync(folder, { recursive: true }))

function recordingOf(arrivals: readonly Arrival[]): string {
  const path = join(folder, 'requests.jsonl')
  writeFileSync(path, arrivals.map((arrival) => `${JSON.stringify(arrival)}\n`).join(''))
  return path
}

async function predicted(...line: string[]): Promise<{
  recorded: SimulationResult | null
  predicted: SimulationResult
  configuration: object
  check: PredictionCheck | null
  sizes: SeldomSizes | null
}> {
  const { code, stdout, stderr } = await zerohop('simulate', '--json', ...line)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout) as Awaited<ReturnType<typeof predicted>>
}

/** 50 requests of 20 ms each, one after the other. */
const alone = Array.from({ length: 50 }, (_, index): Arrival => {
  const atUs = index * 50_000
  const run = {
    takenAtUs: atUs,
    rows: 2,
    requests: 1,
    instance: 'm_0',
    gatherUs: 0,
    handOverUs: 0,
    runUs: 20_000,
    wakeUs: 0,
    scatterUs: 0,
  }
  return { atUs, rows: 2, model: 'm', latencyUs: 20_000, runs: [run] }
})

/** How the model was configured that they were made to. */
const pairs = {
  instances: 1, maxBatchSize: 2, joinRequests: true, preferredBatchSizes: [], maxQueueDelayMs: 0, latencyTargetMs: 0, priorityLevels: 0, defaultPriorityLevel: 0,
  defaultPolicy: { timeoutAction: 'REJECT', defaultTimeoutMs: 0, allowTimeoutOverride: false, maxQueueSize: 0 }, policies: [],
} satisfies Arrival['config'] // prettier-ignore

describe('zerohop simulate', () => {
  it('tells what was recorded beside what it makes of that', async () => {
    const { recorded, predicted: same, configuration } = await predicted('--replay', recordingOf(alone))
    expect(configuration).toMatchObject({ instances: 1, maxBatchSize: 2 })
    expect(recorded).toMatchObject({ requests: 50, answered: 50, p50Ms: 20, p99Ms: 20, meanBatchRows: 2 })
    expect(same).toMatchObject({ requests: 50, answered: 50, batches: { 2: 50 } })
    expect(same.p99Ms).toBeCloseTo(20, 6)
    expect(same.throughputPerSecond).toBeCloseTo(recorded!.throughputPerSecond, 6)
  })

  it('answers what another speed, batch size or number of instances would do', async () => {
    const path = recordingOf(alone)
    // Twice as many as one instance can serve, of which each then waits longer than the one before.
    const tooFast = await predicted('--replay', path, '--speed', '5')
    expect(tooFast.recorded).toBeNull()
    expect(tooFast.predicted.p99Ms).toBeGreaterThan(400)
    const two = await predicted('--replay', path, '--speed', '5', '--instances', '2')
    expect(two.predicted.p99Ms).toBeCloseTo(20, 6)
    const batched = await predicted(
      '--replay',
      path,
      '--speed',
      '5',
      '--max-batch-size',
      '4',
      '--service',
      '2:20,4:21',
    )
    expect(batched.predicted.p99Ms).toBeLessThan(100)
  })

  it('makes up requests that were not recorded', async () => {
    const { predicted: closed } = await predicted(
      '--concurrency',
      '16',
      '--service',
      '1:10,8:20',
      '--request-count',
      '800',
    )
    expect(closed).toMatchObject({ answered: 800, batches: { 8: 100 } })
    expect(closed.p50Ms).toBeCloseTo(40, 6)
    const { predicted: open } = await predicted(
      '--request-rate',
      '10',
      '--service',
      '3:10',
      '-b',
      '3',
      '--request-count',
      '100',
    )
    expect(open).toMatchObject({ answered: 100, batches: { 3: 100 } })
  })

  it('measures what runs of a model take', async () => {
    const { predicted: found } = await predicted(
      '--concurrency',
      '4',
      '--request-count',
      '100',
      '-m',
      identity('float32'),
      '--max-batch-size',
      '4',
      '--calibration-seconds',
      '0.5',
    )
    expect(found.answered).toBe(100)
    expect(found.p50Ms).toBeGreaterThan(0)
  })

  it('takes from the recording how the model was configured, unless it is told otherwise', async () => {
    const { latencyUs: _, ...first } = alone[0]!
    const config = {
      instances: 2, maxBatchSize: 4, joinRequests: true, preferredBatchSizes: [4], maxQueueDelayMs: 7, latencyTargetMs: 0, priorityLevels: 3, defaultPriorityLevel: 2,
      defaultPolicy: { timeoutAction: 'REJECT', defaultTimeoutMs: 0, allowTimeoutOverride: false, maxQueueSize: 0 }, policies: [],
    } satisfies Arrival['config'] // prettier-ignore
    const path = recordingOf([{ ...first, config }, ...alone.slice(1)])
    const { configuration } = await predicted('--replay', path)
    expect(configuration).toEqual({
      instances: 2,
      maxBatchSize: 4,
      joinRequests: true,
      preferredBatchSizes: [4],
      maxQueueDelayMs: 7,
      latencyTargetMs: 0,
      priorityLevels: 3,
    })
    const other = await predicted(
      '--replay',
      path,
      '--max-queue-delay-us',
      '0',
      '--instances',
      '1',
      '--max-batch-size',
      '2',
      '--priority-levels',
      '1',
    )
    expect(other.configuration).toMatchObject({
      instances: 1,
      maxBatchSize: 2,
      preferredBatchSizes: [],
      maxQueueDelayMs: 0,
      priorityLevels: 1,
    })
  })

  it('prints a table', async () => {
    const { code, stdout } = await zerohop('simulate', '--replay', recordingOf(alone))
    expect(code).toBe(0)
    expect(stdout).toMatch(/recorded .* predicted/)
    expect(stdout).toMatch(/p99 ms .* 20\.000 .* 20\.000/)
    expect(stdout).toContain('batches by rows: 2: 50\n')
  })

  it('says how well it predicts the recording itself, and that what it does not is not to be trusted', async () => {
    const config = pairs
    const path = recordingOf([{ ...alone[0]!, config }, ...alone.slice(1)])
    const { check } = await predicted('--replay', path, '--speed', '5', '--instances', '2')
    expect(check).toMatchObject({ isTrusted: true, p99Off: expect.closeTo(0, 6) as number })
    // Nor is it less to be trusted for what it is asked.
    expect((await zerohop('simulate', '--replay', path, '--service', '2:30')).stdout).not.toContain(
      'not reliable',
    )
    const slower = recordingOf(
      alone.map((arrival, index) => ({
        ...arrival,
        latencyUs: 2 * arrival.latencyUs!,
        ...(index === 0 ? { config } : {}),
      })),
    )
    const { stdout } = await zerohop('simulate', '--replay', slower)
    expect(stdout).toMatch(
      /prediction error for the recording itself: p99 -50\.0 %, answers\/s \+0\.\d %\nnot reliable: /,
    )
  })

  it('does not trust what it says of sizes that never ran, and advises to have them measured', async () => {
    const path = recordingOf([{ ...alone[0]!, config: { ...pairs, maxBatchSize: 8 } }, ...alone.slice(1)])
    const same = await predicted('--replay', path)
    expect(same).toMatchObject({
      sizes: { batches: 50, neverRan: 0, seldomRan: 0, isTrusted: true },
      check: { isTrusted: true },
    })
    const fast = await predicted('--replay', path, '--speed', '8')
    expect(fast).toMatchObject({
      sizes: { seldomRan: 0, isTrusted: false },
      check: { p99Off: expect.closeTo(0, 6) as number, isTrusted: false },
    })
    expect(fast.sizes!.neverRan).toBe(fast.sizes!.batches - (fast.predicted.batches[2] ?? 0))
    const { stdout } = await zerohop('simulate', '--replay', path, '--speed', '8')
    expect(stdout).toMatch(
      /of \d+ predicted batches, \d+ have sizes that never ran in the recording, and 0 sizes that ran fewer than 3 times/,
    )
    expect(stdout).toMatch(
      /\nnot reliable: that is more than 10 % of the batches; measure their times with -m model\.onnx, or give them by --service\n$/,
    )
    expect(await predicted('--replay', path, '--speed', '8', '--service', '2:20,8:40')).toMatchObject({
      sizes: null,
      check: { isTrusted: true },
    })
  })

  it('tells a target for latency in JSON only where there is one', async () => {
    const line = ['--concurrency', '2', '--service', '1:10', '--request-count', '20']
    expect((await predicted(...line)).predicted).not.toHaveProperty('targetMs')
    expect((await predicted(...line, '--latency-target-ms', '50')).predicted).toHaveProperty('targetMs', 50)
  })

  it('serves priorities in their order where there are levels', async () => {
    const arrivals = Array.from({ length: 20 }, (_, index): Arrival => ({
      atUs: 0,
      rows: 1,
      priority: index < 10 ? 2 : 1,
      timeoutMs: index < 10 ? 105 : 10_000,
    }))
    const path = recordingOf(arrivals)
    const line = ['--replay', path, '--service', '1:10', '--max-batch-size', '1']
    // The ten of the higher level take 100 ms; the others then have time for one, or at most two.
    expect((await predicted(...line, '--priority-levels', '2')).predicted.dropped).toBeGreaterThanOrEqual(8)
    expect((await predicted(...line)).predicted.dropped).toBe(0)
  })

  it('joins requests of about the same cost, within a budget', async () => {
    const line = [
      '--concurrency',
      '128',
      '--costs',
      '37:0.9,400:0.1',
      '--service',
      '1:0.2,20000:200',
      '--max-batch-size',
      '32',
      '--request-count',
      '2000',
    ]
    const byCost = await predicted(...line, '--max-batch-cost', '4096')
    expect(byCost.configuration).toMatchObject({ costs: { maxBatchCost: 4096, joinBy: 'cost' } })
    expect(byCost.predicted.costs!.largestBatchCost).toBeLessThanOrEqual(4096)
    expect(byCost.predicted.costs!.paddingShare).toBeLessThanOrEqual(0.1)
    const { stdout } = await zerohop('simulate', ...line, '--join-by', 'arrival')
    expect(stdout).toMatch(/a batch costs [\d.]+ on average, 12800\.0 at most; [\d.]+ % of that is padding/)
  })

  it.each([
    [
      ['--request-rate', '5', '--service', '1:2', '--max-batch-cost', '5'],
      '--max-batch-cost and --max-padding-share need --costs',
      2,
    ],
    [['--request-rate', '5', '--costs', '5:1', '--service', '1:2'], '--costs needs --service', 2],
    [
      [
        '--request-rate',
        '5',
        '--service',
        '1:2',
        '--max-batch-size',
        '2',
        '--costs',
        '5:1',
        '--join-by',
        'arrival',
        '--max-batch-cost',
        '5',
      ],
      'have no effect with --join-by arrival',
      2,
    ],
    [['--request-rate', '5', '--costs', '5:1', '--max-padding-share', '2'], 'and at most 1', 2],
    [['--request-rate', '5', '--costs', '5:1:2', '--service', '1:2'], 'Expected cost:share,...', 2],
    [[], 'error: give one of --replay, --request-rate and --concurrency', 2],
    [['--request-rate', '5', '--concurrency', '5'], '--concurrency, not --request-rate and --concurrency', 2],
    [
      ['--request-rate', '5', '--service', '1:2', '--model', 'm.onnx'],
      '--service and --model cannot be used together',
      2,
    ],
    [['--request-rate', '5'], 'error: run times are not recorded: give --service or --model', 2],
    [['--request-rate', '5', '--service', 'foo'], 'Expected rows:ms,..., such as 1:5,8:21.', 2],
    [['--request-rate', '5', '--service', '1:2:3'], 'Expected rows:ms,..., such as 1:5,8:21.', 2],
    [
      ['--request-rate', '5', '--service', '1:2', '--preferred-batch-sizes', '3'],
      '--preferred-batch-sizes: expected sizes of at most 1',
      1,
    ],
    [['--request-rate', '5', '--service', '1:2', '--instances', '1000000000'], 'from 1 to 256', 2],
    [
      ['--request-rate', '5', '--service', '1:2', '-b', '2'],
      '--max-batch-size: expected at least 2, the rows of the largest request, received 1',
      1,
    ],
  ])('refuses %j in one line', async (line, text, exitCode) => {
    const { code, stderr } = await zerohop('simulate', ...line)
    expect(code).toBe(exitCode)
    expect(stderr).toContain(text)
    expect(stderr.trim().split('\n')).toHaveLength(1)
  })
})
