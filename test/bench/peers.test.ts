import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checked } from '../../bench/peers/answers.ts'
import { arrivalsOf, withArrivals } from '../../bench/peers/arrivals.ts'
import { decodersMs } from '../../bench/peers/decoders.ts'
import { source } from '../../bench/peers/folders.ts'
import { httpClient, readSamples, writeRequests } from '../../bench/peers/http-client.ts'
import { kserve } from '../../bench/peers/kserve.ts'
import { type LevelFigures, LevelWatch, type LoopEnd } from '../../bench/peers/level-run.ts'
import { numbersOf } from '../../bench/peers/numbers.ts'
import { peers } from '../../bench/peers/peers.ts'
import { pythonOf } from '../../bench/peers/peers/python.ts'
import { expectedSeconds, levelsOf, planOf, shortenedOf } from '../../bench/peers/plan.ts'
import { ProcessTree } from '../../bench/peers/process-tree.ts'
import { Found, joined, markdownOf, tableOfWorkload, targetsOf, type Unit } from '../../bench/peers/result.ts'
import { readState } from '../../bench/peers/state.ts'
import type { Level, Workload } from '../../bench/peers/workload.ts'
import { openLoop } from '../../bench/programs/open-loop.ts'
import { full } from '../support/full.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
afterAll(() => rmSync(folder, { recursive: true }))

const workload = {
  name: 'mlp',
  json: false,
  jpeg: false,
  tolerance: 0.01,
  lowPrecisionTolerance: 0.1,
  rates: [5],
  inProcessRates: [9],
  usualPerSecond: 100,
}
const answering = (...references: number[][]): Workload =>
  ({
    ...workload,
    model: { input: 'x', output: 'y', rowDims: [2] },
    references: references.map((row) => Float32Array.from(row)),
  }) as unknown as Workload
const peerNamed = (name: string) => peers.find((peer) => peer.name === name)!

const hasCompiler = spawnSync(process.env['CXX'] ?? 'c++', ['--version']).status === 0
const canMeasure = process.platform === 'linux' && hasCompiler

describe.skipIf(!canMeasure || !full)('the load generator', () => {
  let server: Server
  let client = ''
  let seen = 0
  let status = 200
  beforeAll(async () => {
    client = await httpClient()
    server = createServer((request, response) => {
      const parts: Buffer[] = []
      request.on('data', (part: Buffer) => parts.push(part))
      request.on('end', () => {
        seen++
        const body = Buffer.concat(parts)
        response.statusCode = status
        if (request.url === '/chunked') {
          response.write(body.subarray(0, 1))
          response.end(body.subarray(1))
        } else {
          if (request.url === '/close') response.setHeader('connection', 'close')
          response.setHeader('content-length', body.length)
          response.end(body)
        }
      })
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
  }, 120_000)
  afterAll(() => server.close())

  async function load(
    path: string,
    { callers = 0, rate = 0 }: { callers?: number; rate?: number },
  ): Promise<{ end: LoopEnd; samples: ReturnType<typeof readSamples> }> {
    const { port } = server.address() as AddressInfo
    const [requests, samples] = [join(folder, 'requests'), join(folder, 'samples')]
    writeRequests(
      requests,
      port,
      ['first', 'the second, which is longer'].map((body) => ({
        path,
        headers: {},
        body: Buffer.from(body),
      })),
    )
    const level = { warmupSeconds: 0.05, warmupRequests: callers, seconds: 0.2 }
    const [{ arrivals }] = withArrivals(
      'mlp',
      0,
      [rate > 0 ? { ...level, ratePerSecond: rate } : { ...level, callers }],
      folder,
    ) as [Level]
    const args = [
      port,
      requests,
      samples,
      callers,
      level.warmupSeconds,
      level.warmupRequests,
      level.seconds,
      arrivals ?? [],
    ]
      .flat()
      .map(String)
    let watch: LevelWatch | null = null
    const tree = new ProcessTree({ file: client, args }, (line) => watch!.onLine(line))
    watch = new LevelWatch(tree)
    const end = await watch.ended
    await tree.end()
    return { end, samples: readSamples(samples) }
  }

  it.each(['/', '/chunked', '/close'])(
    'counts what is answered, and keeps answers with their requests, at %s',
    async (path) => {
      seen = 0
      const { end, samples } = await load(path, { callers: 4 })
      expect(end).toMatchObject({ failed: 0, unfinished: 0 })
      expect(end.answered).toBeGreaterThan(0)
      expect(seen).toBeGreaterThanOrEqual(end.answered)
      expect(end.p50Us).toBeLessThanOrEqual(end.p99Us)
      expect(samples.length).toBeGreaterThan(0)
      for (const { index, response } of samples)
        expect(response.body.toString()).toBe(['first', 'the second, which is longer'][index])
    },
  )

  it('sends at a rate whatever becomes of the answers', async () => {
    seen = 0
    const { end } = await load('/', { rate: 400 })
    expect(end).toMatchObject({ failed: 0, unfinished: 0, seconds: 0.2 })
    expect(end.maxUs).toBeGreaterThan(0)
    expect(seen).toBe(20 + 80) // warm-up and window
  })

  it('counts answers of another status as failures, and gives up', async () => {
    status = 503
    const { end } = await load('/', { callers: 2 })
    expect(end.answered).toBe(0)
    expect(end.failed).toBeGreaterThan(0)
    status = 200
  })
})

describe.skipIf(process.platform !== 'linux')('a process tree', () => {
  it('has whoever a program starts, and ends those that leave their parent as well', async () => {
    const detached = `require('node:child_process').spawn('sleep', ['600'], { detached: true, stdio: 'ignore' }).unref(); console.log('started'); setTimeout(() => {}, 600000)`
    let started = (): void => {}
    const hasStarted = new Promise<void>((resolve) => (started = resolve))
    const tree = new ProcessTree(
      { file: process.execPath, args: ['-e', detached] },
      (line) => line === 'started' && started(),
    )
    await hasStarted
    expect(tree.pids().length).toBeGreaterThanOrEqual(2)
    expect(tree.pids()).toContain(tree.root.pid)
    expect(tree.pids()).not.toContain(process.pid)
    expect(tree.pssBytes()).toBeGreaterThan(1e6)
    await tree.end()
    expect(tree.pids()).toEqual([])
  })
})

describe('the lines of a load generator', () => {
  it('end nothing where the last was cut off with its program', () => {
    const watch = new LevelWatch({} as ProcessTree)
    expect(watch.onLine('{"event":"end","answered":1,"samples":[{"ind')).toBe(false)
    expect(watch.onLine('{"event":"end","answered":1}')).toBe(true)
  })
})

describe('answers', () => {
  it('may differ a little from plain ONNX Runtime, and more for low precision', () => {
    const sample = { index: 1, values: Float32Array.of(10, 5.5) }
    expect(checked(answering([0, 0], [10, 5.45]), [sample])).toMatchObject({ checked: 1 })
    expect(() => checked(answering([0, 0], [10, 5]), [sample])).toThrow(
      "an answer differs from plain ONNX Runtime's by 0.05",
    )
    expect(checked(answering([0, 0], [10, 5]), [sample], true).difference).toBeCloseTo(0.05)
  })

  it('have to be numbers, as many as are expected', () => {
    expect(() => checked(answering([1, 2]), [{ index: 0, values: Float32Array.of(1) }])).toThrow(
      'an answer of 1 numbers came, 2 are expected',
    )
    expect(() => checked(answering([1, 2]), [{ index: 0, values: Float32Array.of(1, NaN) }])).toThrow(
      'differs',
    )
  })

  it("of Triton's binary tensors lie behind a header of JSON", () => {
    const body = Buffer.from(Float32Array.of(1, 2).buffer)
    const { headers, body: sent } = kserve.request(answering(), body)
    const length = Number(headers['inference-header-content-length'])
    expect(JSON.parse(sent.toString('utf8', 0, length))).toMatchObject({
      inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], parameters: { binary_data_size: 8 } }],
    })
    expect(kserve.answer(answering(), { headers, body: sent })).toEqual(Float32Array.of(1, 2))
  })
})

describe('the time of decoders', () => {
  it('is that of the processor, for each image', async () => {
    const file = join(folder, 'image.jpg')
    await sharp({ create: { width: 320, height: 240, channels: 3, background: 'red' } })
      .jpeg()
      .toFile(file)
    const found = await decodersMs([file, file], ['none-such'], 0.05)
    expect(found.opencv).toBeNull()
    for (const ms of [found.zerohop, found.sharp]) {
      expect(ms).toBeGreaterThan(0.01)
      expect(ms).toBeLessThan(1000)
    }
  })
})

describe('the table', () => {
  const level = (callers: number, requestsPerSecond: number): LevelFigures => ({
    callers,
    ratePerSecond: null,
    requestsPerSecond,
    latencies: 1000,
    p50Ms: 1,
    p90Ms: 1,
    p99Ms: 2,
    maxMs: 3,
    failed: 0,
    unfinished: 0,
    cpuUsPerRequest: 4,
    pssBytes: 5e6,
    checked: 1,
    difference: 0,
  })
  const made = { date: '2026-01-01T00:00:00.000Z', of: 'this' }
  const unit = (peer: string, round: number, ...rates: number[]): Unit => ({
    workload: 'mlp',
    peer,
    round,
    levels: rates.map((rate, index) => level([1, 64][index]!, rate)),
    error: null,
    ...made,
  })
  const units: Unit[] = [
    unit('zerohop', 0, 100, 900),
    unit('zerohop', 1, 100, 1100),
    unit('zerohop', 2, 100, 5000),
    unit('fastapi', 0, 200, 90),
    unit('fastapi', 1, 50, 110),
    unit('fastapi', 2, 100, 100),
    { workload: 'mlp', peer: 'litserve', round: 0, levels: null, error: 'it broke', ...made },
  ]
  const plan = planOf({ quick: true, smoke: false })
  const asked = {
    workload: 'mlp',
    title: 'MLP',
    rates: [],
    peers: ['zerohop', 'fastapi', 'litserve', 'triton'].map(peerNamed),
  } as const

  it('has medians over the rounds, and ratios within them', () => {
    expect(new Found(units).at('mlp', 'zerohop', { callers: 64 }, 'requestsPerSecond')).toBe(1100)
    expect(new Found(units).ratio('mlp', 'zerohop', 'fastapi', 64)).toBe(10)
    expect(new Found(units).ratio('mlp', 'zerohop', 'fastapi', 1)).toBe(1)
  })

  it('has no p99 of fewer than 100 requests', () => {
    const [one] = unit('zerohop', 0, 5).levels!
    const p99 = (...counts: number[]) =>
      new Found(
        counts.map((latencies, round) => ({ ...unit('zerohop', round), levels: [{ ...one!, latencies }] })),
      ).at('mlp', 'zerohop', { callers: 1 }, 'p99Ms')
    expect([p99(99), p99(100), p99(99, 100)]).toEqual([null, 2, 2])
    const few = [
      { ...unit('zerohop', 0), levels: [{ ...one!, callers: null, ratePerSecond: 5, latencies: 60 }] },
    ]
    expect(tableOfWorkload({ ...asked, rates: [5] }, few, {}, plan).rows[0]).toMatchObject({
      'p50 / p99 ms at 5/s': '1 / -',
    })
  })

  it('has a row for each peer, which says why it has no figures', () => {
    const { rows } = tableOfWorkload(asked, units, { triton: 'not here' }, plan)
    expect(rows.map(({ peer, note }) => [peer, note])).toEqual([
      ['zerohop', ''],
      ['fastapi', ''],
      ['litserve', 'it broke'],
      ['triton', 'not here'],
    ])
    expect(rows[1]).toMatchObject({ '1 /s': 100, '64 /s': 100, 'PSS MB': 5, 'zerohop to it': 1 })
    expect(new Set(rows.map((row) => Object.keys(row).join())).size).toBe(1)
    const other = joined([
      { title: 'MLP', rows },
      { title: 'other', rows: [{ peer: 'zerohop', more: 1 }] },
    ])
    expect(new Set(other.map((row) => Object.keys(row).join())).size).toBe(1)
    expect(other.at(-1)).toMatchObject({ model: 'other', 'PSS MB': '-', more: 1 })
    expect(markdownOf({ title: 'MLP', rows })).toContain('| litserve | - | - |')
  })

  it('has what a peer did before it failed, and says why there is no more', () => {
    const failed = { ...unit('fastapi', 3, 300), error: 'it refused' }
    const row = tableOfWorkload(asked, [...units, failed], {}, plan).rows.find(
      ({ peer }) => peer === 'fastapi',
    )
    expect(row).toMatchObject({ '1 /s': 150, '64 /s': 100, note: 'it refused' })
  })

  it('has lines for README of the hard baselines that were measured', () => {
    const [row, ...others] = numbersOf(
      new Found([...units, unit('same-thread-batcher', 0, 50, 1000)]),
      [1, 64],
    )
    expect(others).toEqual([])
    expect(row).toMatchObject({
      plain: '50, 1 000 requests/s (that one)',
      zerohop: '100, 900 requests/s',
      note: '2.00, 0.90 x',
    })
    expect(numbersOf(new Found(units), [1, 64])).toEqual([])
  })

  it('shows there the figures of the round that a ratio is of, so that a row does not contradict itself', () => {
    const noisy = [10, 30, 20].flatMap((ours, round) => [
      unit('zerohop', round, ours),
      unit('same-thread-batcher', round, [10, 15, 80][round]!),
    ])
    expect(numbersOf(new Found(noisy), [1])).toMatchObject([
      { plain: '10 requests/s (that one)', zerohop: '10 requests/s', note: '1.00 x' },
    ])
  })

  it('sets OpenVINO in its own precision beside ours in the same', () => {
    const ofImages = (name: string, ...perSecond: number[]): Unit => ({
      ...unit(name, 0, ...perSecond),
      workload: 'squeezenet',
    })
    const rows = numbersOf(
      new Found([
        ofImages('zerohop', 10, 20),
        ofImages('zerohop-openvino', 40, 80),
        ofImages('openvino', 50, 40),
      ]),
      [1, 64],
    )
    expect(rows).toMatchObject([
      {
        question: expect.stringContaining('both in bfloat16') as string,
        plain: '50, 40 requests/s (that one)',
        zerohop: '40, 80 requests/s',
        note: '0.80, 2.00 x',
      },
    ])
  })

  it('asks ours to be ahead wherever it is the least', () => {
    expect(targetsOf([asked], units, plan)).toMatchObject([
      { what: expect.stringContaining('fastapi at 1') as string, found: 1, met: true },
    ])
  })

  it('holds it against ours where it failed and a peer did not', () => {
    const broken = { ...unit('zerohop', 0, 100), error: 'it broke' }
    expect(targetsOf([asked], [broken, unit('fastapi', 0, 50, 60)], plan)).toMatchObject([
      { what: expect.stringContaining('fastapi at 64') as string, found: 0, met: false },
    ])
  })
})

const level = { ratePerSecond: 200, warmupSeconds: 0.5, warmupRequests: 0, seconds: 2 }

describe('the times of an open loop', () => {
  it('are as many as its rate says, in the warm-up and in the window, one after the other', () => {
    const times = [...arrivalsOf('mlp', 0, level)]
    expect(times).toHaveLength(100 + 400)
    expect(times.filter((ms) => ms < 500)).toHaveLength(100)
    expect(times).toEqual([...new Set(times)].sort((a, b) => a - b))
    expect(times[0]).toBeGreaterThanOrEqual(0)
    expect(times.at(-1)).toBeLessThan(2500)
  })

  it('are the same for all who ask for the same, and others in another round, for another model and at another rate', () => {
    expect(arrivalsOf('mlp', 1, level)).toEqual(arrivalsOf('mlp', 1, level))
    const firsts = [
      arrivalsOf('mlp', 0, level),
      arrivalsOf('mlp', 1, level),
      arrivalsOf('resnet50', 0, level),
      arrivalsOf('mlp', 0, { ...level, ratePerSecond: 100 }),
    ].map(([first]) => first)
    expect(new Set(firsts).size).toBe(4)
  })

  it('lie apart as those of a Poisson process do', () => {
    const times = arrivalsOf('mlp', 0, { ...level, ratePerSecond: 10_000 }).subarray(5000)
    const gaps = Array.from(times.subarray(1), (ms, index) => ms - times[index]!)
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length
    expect(mean).toBeCloseTo(0.1, 3)
    expect(gaps.filter((gap) => gap > mean).length / gaps.length).toBeCloseTo(Math.exp(-1), 1)
  })

  it('are in a file for each open loop', () => {
    const levels = withArrivals(
      'mlp',
      0,
      [{ callers: 1, warmupSeconds: 0, warmupRequests: 1, seconds: 1 }, level],
      folder,
    )
    expect(levels[0]).not.toHaveProperty('arrivals')
    const bytes = readFileSync(levels[1]!.arrivals!)
    expect(new Float64Array(Uint8Array.from(bytes).buffer)).toEqual(arrivalsOf('mlp', 0, level))
  })

  it('count from the moment that a loop is told', async () => {
    const startMs = performance.now() - 1000
    const intended: number[] = []
    await openLoop([10, 20], (ms) => intended.push(ms), startMs)
    expect(intended).toEqual([startMs + 10, startMs + 20])
  })

  it.skipIf(!existsSync(pythonOf('onnxruntime')))('are those that the loop in Python asks at', () => {
    const { arrivals } = withArrivals('mlp', 0, [level], folder)[0]!
    const program = join(folder, 'starts.py')
    writeFileSync(
      program,
      [
        'import json, sys',
        `sys.path.insert(0, ${JSON.stringify(source('python'))})`,
        'from load import Load',
        'load = Load(json.loads(sys.argv[1]), [b""])',
        'print(json.dumps([(at - load.warm_until) * 1000 for at in load.waiting]))',
      ].join('\n'),
    )
    const { stdout, stderr } = spawnSync(
      pythonOf('onnxruntime'),
      [program, JSON.stringify({ ...level, arrivals })],
      { encoding: 'utf8', env: { PYTHONDONTWRITEBYTECODE: '1' } },
    )
    expect(stderr).toBe('')
    const found = JSON.parse(stdout) as number[]
    const expected = arrivalsOf('mlp', 0, level)
    expect(found).toHaveLength(expected.length)
    for (const [index, ms] of found.entries()) expect(ms).toBeCloseTo(expected[index]! - 500, 3)
  })
})

describe('peers plan', () => {
  const workload = {
    name: 'mlp',
    rates: [5],
    inProcessRates: [9],
    usualPerSecond: 100,
  } as unknown as Workload

  describe('the plan', () => {
    const plan = planOf({ quick: false, smoke: false, rounds: 2, seconds: 1 })

    it('holds closed loops before open ones, and more rates in process', () => {
      const levels = levelsOf(plan, peerNamed('zerohop'), workload)
      expect(levels.map(({ callers, ratePerSecond }) => callers ?? `${ratePerSecond}/s`)).toEqual([
        1,
        8,
        64,
        256,
        '5/s',
        '9/s',
      ])
      expect(
        levelsOf(plan, peerNamed('fastapi'), workload).map(
          ({ callers, ratePerSecond }) => callers ?? `${ratePerSecond}/s`,
        ),
      ).toEqual([1, 8, 64, 256, '5/s'])
    })

    it('holds a rate for 200 requests where they come within 12 seconds, and no longer than is asked in a smoke run', () => {
      const secondsOf = (asked: Parameters<typeof planOf>[0], ...rates: number[]): number[] =>
        levelsOf(planOf(asked), peerNamed('fastapi'), { ...workload, rates })
          .filter(({ callers }) => callers === undefined)
          .map(({ seconds }) => seconds)
      expect(secondsOf({ quick: false, smoke: false, seconds: 1 }, 5, 20)).toEqual([12, 10])
      expect(secondsOf({ quick: false, smoke: false, seconds: 1 }, 50, 500)).toEqual([4, 2])
      expect(secondsOf({ quick: false, smoke: false }, 50, 500)).toEqual([8, 8])
      expect(secondsOf({ quick: false, smoke: true, seconds: 0.1 }, 5)).toEqual([0.2])
    })

    it('counts the time that rates are held in what it takes', () => {
      const seconds = (rate: number) =>
        expectedSeconds(plan, [{ peer: peerNamed('fastapi'), workload: { ...workload, rates: [rate] } }])
      expect(seconds(5) - seconds(500)).toBeCloseTo(2 * (12 - 2))
    })

    it('knows whether it is a shortened one', () => {
      const shortened = (changes: { seconds?: number; rounds?: number }, quick = false) =>
        shortenedOf(planOf({ quick, smoke: false, ...changes }))
      expect(shortened({})).toBeNull()
      expect(shortened({ seconds: 8, rounds: 5 })).toBeNull()
      expect(shortened({ seconds: 1 })).toEqual({ seconds: 1, rounds: 3 })
      expect(shortened({ rounds: 2 })).toEqual({ seconds: 4, rounds: 2 })
      expect(shortened({}, true)).toEqual({ seconds: 0.5, rounds: 1 })
    })

    it('takes as long as its rounds', () => {
      const pairs = [{ peer: peerNamed('zerohop'), workload: workload }]
      expect(expectedSeconds({ ...plan, rounds: 4 }, pairs)).toBe(2 * expectedSeconds(plan, pairs))
    })

    it('goes on from results of the same plan only', () => {
      const file = join(folder, 'result.json')
      expect(readState(file, plan).units).toEqual([])
      writeFileSync(file, JSON.stringify({ details: { plan, units: [{ peer: 'zerohop' }] } }))
      expect(readState(file, plan).units).toEqual([{ peer: 'zerohop' }])
      expect(readState(file, plan)).toMatchObject({ versions: {}, missing: {} })
      expect(() => readState(file, { ...plan, seconds: 9 })).toThrow('holds results of another plan')
    })
  })
})
