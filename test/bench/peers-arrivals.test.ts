import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { arrivalsOf, withArrivals } from '../../bench/peers/arrivals.ts'
import { source } from '../../bench/peers/folders.ts'
import { pythonOf } from '../../bench/peers/peers/python.ts'
import { openLoop } from '../../bench/programs/open-loop.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
afterAll(() => rmSync(folder, { recursive: true }))

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
