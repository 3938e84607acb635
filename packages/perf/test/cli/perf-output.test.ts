import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { root, zerohop } from '../../../../test/cli/run.ts'
import { identity } from '../../../../test/models/small.ts'
import { PerfProgress, ProgressLine } from '../../src/cli/progress-line.ts'
import { Recorder } from '../../src/perf/load/recorder.ts'
import { simulate } from '../../src/simulation/simulate.ts'
import type { SimulationResult } from '../../src/simulation/simulation-result.ts'
import { FakeLoadClock } from '../perf/fake-load.ts'
import { full } from '../../../../test/support/full.ts'

const model = identity('float32', [2])
const folder = mkdtempSync(join(tmpdir(), 'zerohop-perf-report-'))
const inFolder = (name: string) => join(folder, name)

describe('zerohop perf --report', () => {
  it('writes a page of what it measured, and keeps the result, of which perf-report makes pages again', async () => {
    const line = ['-m', identity('float32', [2]), '--concurrency-range', '1:2', '--request-count', '50']
    const measured = await zerohop(
      'perf',
      ...line,
      '--report',
      inFolder('page.html'),
      '--json',
      inFolder('kept.json'),
    )
    expect({ code: measured.code, stderr: measured.stderr }).toEqual({ code: 0, stderr: '' })
    expect(readFileSync(inFolder('page.html'), 'utf8')).toContain('<h1>Performance of ')
    expect(JSON.parse(readFileSync(inFolder('kept.json'), 'utf8'))).toMatchObject({
      mode: 'concurrency',
      levels: [{ level: 1 }, { level: 2 }],
      settings: { 'concurrency-range': '1:2:1', 'sequence-id-range': '1:4294967296' },
    })

    const again = await zerohop('perf-report', inFolder('kept.json'), '-o', inFolder('again.html'))
    expect(again).toMatchObject({ code: 0, stdout: '', stderr: '' })
    expect(readFileSync(inFolder('again.html'), 'utf8')).toBe(readFileSync(inFolder('page.html'), 'utf8'))

    const compared = await zerohop(
      'perf-report',
      inFolder('kept.json'),
      inFolder('kept.json'),
      '-o',
      inFolder('compared.html'),
    )
    expect(compared.code).toBe(0)
    expect(readFileSync(inFolder('compared.html'), 'utf8')).toMatch(
      /<h1>.*kept\.json 1 against .*kept\.json 2<\/h1>/,
    )
    expect(readdirSync(folder).sort()).toEqual(['again.html', 'compared.html', 'kept.json', 'page.html'])
  })

  it.each([
    [
      3,
      ['perf', '-m', 'missing.onnx', '--report', inFolder('no/out.html')],
      /^error: option '--report <file>' argument '.*' is invalid\. Expected the path of a file in a folder that is there\.\n$/,
    ],
    [3, ['perf', '-m', 'missing.onnx', '--report', folder], /Expected the path of a file\.\n$/],
    [
      2,
      ['perf-report', 'a.json', '-o', inFolder('no/out.html')],
      /^error: option '-o, --out <file>' argument '.*' is invalid/,
    ],
    [2, ['perf-report', 'a.json'], /^error: required option '-o, --out <file>' not specified/],
    [
      2,
      ['perf-report', '-o', inFolder('out.html'), ...Array.from({ length: 7 }, () => 'a.json')],
      /expected at most 6 results, received 7/,
    ],
    [
      2,
      ['perf-report', root + 'package.json', '-o', root + 'package.json'],
      /^error: --out .* is one of the results: name another file\n$/,
    ],
    [
      3,
      ['perf', '-m', model, '--report', inFolder('both'), '-f', inFolder('both')],
      /two results would be written to/,
    ],
    [3, ['perf', '-m', model, '-f', model], /is also read: name another file for the result\n$/],
    [
      1,
      ['perf-report', inFolder('none.json'), '-o', inFolder('out.html')],
      /^error: ENOENT: .*Check the path: .*\n$/,
    ],
  ])('exits with %d before it does anything: %j', async (code, line, message) => {
    const ended = await zerohop(...line)
    expect({ code: ended.code, stdout: ended.stdout }).toEqual({ code, stdout: '' })
    expect(ended.stderr).toMatch(message)
  })

  it('refuses a file that is no result, and writes no page', async () => {
    writeFileSync(inFolder('other.json'), '{"model":"m"}')
    const { code, stderr } = await zerohop(
      'perf-report',
      inFolder('other.json'),
      '-o',
      inFolder('never.html'),
    )
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(
        /^ERR_INVALID_ARG: .*other\.json: expected a result that zerohop perf --json has written/,
      ),
    })
    expect(readdirSync(folder)).not.toContain('never.html')
  })
})

/** What is written to a terminal, or to something else, while a level is measured for a second. */
function shown(isTTY: boolean, isQuiet = false): string {
  const stream = Object.assign(new PassThrough({ encoding: 'utf8' }), { isTTY, columns: 200, rows: 50 })
  const progress = new PerfProgress(isQuiet, stream as never)
  const clock = new FakeLoadClock()
  const recorder = new Recorder(clock)
  progress.begin('request-rate', 0.1 + 0.2, 3, recorder)
  const sentMs = recorder.sent()
  clock.advanceBy(500)
  recorder.answered(sentMs, sentMs, { feeds: {}, rows: 8 })
  vi.advanceTimersByTime(1000)
  progress.window(1)
  vi.advanceTimersByTime(1000)
  progress.without(() => stream.write('told'))
  vi.advanceTimersByTime(1000)
  progress.window(3)
  vi.advanceTimersByTime(2000)
  progress.end()
  const written = String(stream.read() ?? '')
  vi.advanceTimersByTime(10_000)
  expect(stream.read()).toBeNull()
  return written
}

describe('the line that shows what goes on', () => {
  afterEach(() => vi.useRealTimers())

  it('is on a terminal, with level, window, requests, throughput and latency, and is gone at the end', () => {
    vi.useFakeTimers()
    const written = shown(true)
    expect(written).toContain('Request Rate 0.3 [')
    expect(written).toContain('window 1 of at most 3 | 1 requests | 16 infer/sec | 500000 usec')
    expect(written).toContain('window 2 of at most 3')
    expect(written).not.toContain('window 4')
    expect(written.slice(written.indexOf('told'))).toContain('window 2 of at most 3 | 1 requests')
  })

  it('gives the terminal its cursor back when the program is ended at once', () => {
    const stream = Object.assign(new PassThrough({ encoding: 'utf8' }), {
      isTTY: true,
      columns: 200,
      rows: 50,
    })
    const before = process.listenerCount('exit')
    const line = new ProgressLine('{bar}', stream as never)
    line.begin(2, () => ({ value: 1 }))
    const [exit] = process.listeners('exit').slice(before) as (() => void)[]
    expect(String(stream.read())).toContain('\u001b[?25l')
    exit!()
    expect(String(stream.read())).toContain('\u001b[?25h')
    expect(process.listenerCount('exit')).toBe(before)
  })

  it('is written every five seconds elsewhere, unless a program reads what there is', () => {
    vi.useFakeTimers()
    expect(shown(false)).toBe(
      'toldRequest Rate 0.3: window 3 of at most 3, 1 requests, 16 infer/sec, 500000 usec\n',
    )
    expect(shown(false, true)).toBe('told')
  })

  it('leaves the terminal as it was when the program is ended at once', () => {
    const script = `
      import { ProgressLine } from ${JSON.stringify(`${root}packages/perf/dist/cli/progress-line.js`)}
      new ProgressLine('{bar}', Object.assign(process.stdout, { isTTY: true, cursorTo() {}, clearLine() {} })).begin(1, () => ({ value: 0 }))
      process.exit(130)`
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
    })
    for (const mode of ['?25', '?7'])
      expect(stdout.lastIndexOf(`\u001b[${mode}h`)).toBeGreaterThan(stdout.indexOf(`\u001b[${mode}l`))
    expect(stdout).toContain('\u001b[?25l')
  })
})

const page = readFileSync(join(root, 'docs/guide/capacity-planning.md'), 'utf8')
const [, common] = /^npx zerohop (simulate --service \S+ --max-batch-size \d+)/m.exec(page)!
const rows = [...page.matchAll(/^\| `(--[^`]+)` \| (\d+) \| (\d+) \| (\d+)( %)? \|$/gm)].map(
  ([, options, p50, p99, last, percent]) => ({
    options: options!,
    p50: Number(p50),
    p99: Number(p99),
    last: Number(last),
    isShare: percent !== undefined,
  }),
)

describe('the page on capacity past one machine', () => {
  it('has figures', () => {
    expect(rows.length).toBe(9)
  })

  it.runIf(full).each(rows)('is right about $options', async ({ options, p50, p99, last, isShare }) => {
    const { code, stdout } = await zerohop(...common!.split(' '), ...options.split(' '), '--json')
    expect(code).toBe(0)
    const { predicted } = JSON.parse(stdout) as { predicted: SimulationResult }
    expect(
      [
        predicted.p50Ms,
        predicted.p99Ms,
        isShare ? 100 * predicted.utilisation : predicted.throughputPerSecond,
      ].map((figure) => Math.round(figure ?? NaN)),
    ).toEqual([p50, p99, last])
  })

  it.runIf(full)('is right about how much the p99 differs by seed near the limit', () => {
    const serviceTimes = [
      { rows: 1, ms: 12 },
      { rows: 8, ms: 48 },
    ]
    const p99Ms = (ratePerSecond: number, seed: number) =>
      Math.round(
        simulate({
          serviceTimes,
          instances: 2,
          maxBatchSize: 8,
          arrivals: { kind: 'poisson', ratePerSecond },
          seed,
        }).p99Ms ?? NaN,
      )
    const found = [250, 300, 320].map((rate) =>
      Array.from({ length: 20 }, (_, index) => p99Ms(rate, index + 1)),
    )
    const said =
      /the p99 at 250 is (\d+) to (\d+) ms, at 300 it is (\d+) to (\d+), at 320 it is (\d+) to (\d+)\./
        .exec(page)!
        .slice(1)
        .map(Number)
    expect(found.flatMap((all) => [Math.min(...all), Math.max(...all)])).toEqual(said)
  })
})
