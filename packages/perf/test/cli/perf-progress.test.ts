import { spawnSync } from 'node:child_process'
import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { PerfProgress, ProgressLine } from '../../src/cli/progress-line.ts'
import { Recorder } from '../../src/perf/load/recorder.ts'
import { FakeLoadClock } from '../perf/fake-load.ts'
import { root } from '../../../../test/cli/run.ts'

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
