import { describe, expect, it } from 'vitest'
import { reportOf } from '../../../src/perf/html-report/report.ts'
import type { PerfResult } from '../../../src/perf/result.ts'
import { levelOf, resultOf, serverScenario } from './made-results.ts'
import { readIn } from './read-in.ts'

describe('the page of a scenario', () => {
  const html = reportOf(resultOf({ mode: 'scenario', levels: [], scenario: serverScenario }))

  it('begins with its metric, and does not miss levels', () => {
    const read = readIn(html, '<header>', '</header>')
    expect(read).toContain('Completed samples per second813 samples/sserver, not valid')
    expect(read).not.toContain('No level')
    expect(read).not.toContain('Answered requests')
  })

  it('tells its figures, the rules it kept, its latencies, the way to the peak, and why it is not valid', () => {
    const read = readIn(html, '<section id="scenario"')
    expect(read).toContain('Scenario server: not valid')
    expect(read).toContain('minDurationMs 5000 &lt; 600000')
    expect(read).toContain('| rule minQueries| not kept')
    expect(read).toContain('| failed: ERR_QUEUE_FULL| 10')
    expect(read).toContain('| p99| 9.00 ms| 77.0 µs')
    expect(read).toContain('Search for the peak: 812 queries/s')
    expect(read).toContain('| 900| not held| 80.0 ms| 850| 300, given up')
    expect(read).toContain('| 1| too &lt;few&gt; queries')
  })
})

describe('the page of answers beside those alone', () => {
  it('tells the largest differences of each output', () => {
    const accuracy: NonNullable<PerfResult['accuracy']> = {
      answers: 2000, samples: 64, concurrency: 16, tolerance: 1e-5, within: false, failures: { ERR_EXECUTION: 2 }, batchSizes: [{ batchSize: 8, count: 250 }], cacheHits: 0,
      outputs: [{ output: '<logits>', type: 'float32', absolute: 0.5, relative: Infinity, spread: 1.2, above: 3, sample: 7 }],
    } // prettier-ignore
    const html = reportOf(resultOf({ levels: [], accuracy }))
    const read = readIn(html, '<section id="accuracy"')
    expect(read).toContain('Answers under load, beside those alone: NOT the same')
    expect(read).toContain('2,000 answers to 64 different requests, 16 at once')
    expect(read).toContain('2 failed')
    expect(read).toContain('| &lt;logits&gt;| float32| 0.5| ∞| 1.2| 3| 7')
    expect(html).not.toContain('No level was measured')
  })
})

describe('the page of the same inputs and unique ones', () => {
  const [same, unique] = [
    [1, 2].map((level) =>
      levelOf(level, {
        inferencesPerSecond: 9000,
        server: { ...levelOf(level).server, cacheHitCount: 3, cacheMissCount: 1 },
      }),
    ),
    [1, 2].map((level) => levelOf(level, { inferencesPerSecond: 3000 })),
  ]
  const inputs: NonNullable<PerfResult['inputs']> = [
    { inputs: 'same', distinct: 1, levels: same },
    { inputs: 'unique', distinct: null, levels: unique },
  ]

  it('has both, level by level, with ratios to unique ones, and says of which the rest is', () => {
    const html = reportOf(resultOf({ levels: unique, inputs }))
    const read = readIn(html, '<section id="inputs"')
    expect(read).toContain('All below this is of unique inputs.')
    expect(read).toContain('| 2| 3,000| 9,000 (3.00 x)')
    expect(read).toContain('| 1| same| 1| 75 %|')
    expect(read).toContain('| 1| unique| all| –|')
    expect(readIn(html, '<header>', '</header>')).toContain('· unique inputs')
  })

  it('says only which they were where there is one kind', () => {
    const html = reportOf(resultOf({ levels: same, inputs: inputs.slice(0, 1) }))
    expect(html).not.toContain('id="inputs"')
    expect(readIn(html, '<header>', '</header>')).toContain('· same inputs')
  })
})

describe('the configuration on a page', () => {
  it('has first what was given, and the rest behind a click', () => {
    const read = reportOf(resultOf({ settings: { 'batch-size': 1, instances: 2 }, given: ['instances'] }))
    expect(readIn(read, 'aria-label="Settings that were given"', '</table>')).toMatch(/\| instances\| 2/)
    expect(readIn(read, 'aria-label="Settings that were given"', '</table>')).not.toContain('batch-size')
    expect(readIn(read, '<summary>Settings that are as they are by default', '</details>')).toContain(
      '| batch-size| 1',
    )
  })
})
