import { mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { comparisonOf } from '../../../src/perf/html-report/comparison.ts'
import { binsOf } from '../../../src/perf/html-report/level-sections.ts'
import { reportOf } from '../../../src/perf/html-report/report.ts'
import {
  checkFilePlace,
  readSavedResult,
  savedText,
  writeWholeFile,
} from '../../../src/perf/html-report/saved-result.ts'
import type { PerfResult } from '../../../src/perf/result-schema.ts'
import { emptyLevel, levelOf, resultOf, richResult, serverScenario } from './made-results.ts'
import { readIn } from './read-in.ts'

describe('a report', () => {
  it('begins with what is asked first', () => {
    const read = readIn(reportOf(richResult()), '<header>', '</header>')
    expect(read).toContain('Performance of squeezenet')
    expect(read).toContain('Version 1 · 22 November 2026 at 23:50 UTC · a fixed number of requests a second')
    expect(read).toContain('Peak throughput1,600 inferences/sat 1,600 requests/s, p99 1.99 ms')
    expect(read).toContain('Best goodput within 10 ms1,280 requests/s')
    expect(read).toContain('Failed requests5,4001.03 % of 524,834')
  })

  it('takes no peak from a level that did not become stable, and says which these are', () => {
    const read = readIn(reportOf(richResult()), '<header>', '</header>')
    expect(read).toContain('Not stable: 3,200 requests/s.')
    expect(read).not.toContain('2,900')
    expect(readIn(reportOf(richResult()), '<section id="curve"')).toContain('| 3,200 unstable| 2,900')
  })

  it('says so where all it has is unstable', () => {
    expect(
      readIn(reportOf(resultOf({ levels: [levelOf(4, { stable: false })] })), '<header>', '</header>'),
    ).toContain('Peak throughput, unstable13,793')
  })

  it('has every figure as text: percentiles, stages, sizes, reasons, goodput, failures, delays, CPU', () => {
    const html = reportOf(richResult())
    expect(readIn(html, 'id="percentiles-table"')).toContain(
      '| 1,600| 672 µs| 245 µs| 584 µs| 934 µs| 1.23 ms| 1.99 ms| 4.09 ms| 7.01 ms',
    )
    expect(readIn(html, 'id="breakdown-table"')).toContain(
      '| 100| 241 µs| 8.00 µs| 4.00 µs| 6.00 µs| 220 µs| 3.00 µs| 0| 0',
    )
    expect(readIn(html, 'id="batches-table"', '</table>')).toMatch(
      /\| Rows in the batch\| Batches\s+\| 1\| [\d,]+\s+\| 2\| /,
    )
    expect(readIn(html, 'id="reasons-table"')).toContain(
      '| Requests/s| batches| mean rows| idle| delay| full',
    )
    expect(readIn(html, 'id="goodput-table"')).toContain('| 1,600| 1,280| 80 %')
    expect(readIn(html, 'id="failures-table"')).toMatch(
      /\| ERR_QUEUE_FULL\| ERR_TIMEOUT[^]*\| 1,600\| 136,986\| 1,800\| 1.3 %\| 1,600\| 200/,
    )
    expect(readIn(html, 'id="delays-table"', '</table>')).toMatch(
      /\| sent &gt; 1 ms late[^]*\| 1,600\| .*\| 92.0 µs\| 313 µs\| 1.10 ms\| 400/,
    )
    expect(readIn(html, 'id="cpu-table"')).toMatch(/\| 100\| 0\.7\| \d+ µs/)
    expect(readIn(html, '<section id="configuration"')).toContain(
      '| dynamicBatching| {&quot;maxQueueDelayMs&quot;:0.1,&quot;preferredBatchSizes&quot;:[4,8]}',
    )
  })

  it('has the percentile that was asked for, beside the usual ones', () => {
    const of = (percentile: number) =>
      readIn(
        reportOf(resultOf({ levels: [levelOf(1, { percentile: { percentile, us: 777 } })] })),
        'id="percentiles-table"',
      )
    expect(of(97)).toMatch(/\| max\| p97\s+\| 1\| .*\| 777 µs/)
    expect(of(99)).toMatch(/\| max\s+\| 1\| /)
  })

  it('lists the models of an ensemble', () => {
    const { server, batchSizes } = levelOf(8)
    const read = readIn(
      reportOf(
        resultOf({
          levels: [levelOf(8, { composingModels: [{ model: '<step>', version: 3, server, batchSizes }] })],
        }),
      ),
      '<section id="composing"',
    )
    expect(read).toContain(
      '| 8| &lt;step&gt;, version 3| 388 µs| 8.00 µs| 4.00 µs| 24.0 µs| 340 µs| 12.0 µs| 25,773| 4',
    )
  })

  it('leaves out what was not measured', () => {
    const html = reportOf(resultOf())
    expect(html).not.toContain('Goodput')
    expect(html).not.toContain('ensemble')
    expect(html).not.toContain('sender')
    expect(readIn(html, '<section id="failures"')).toContain('No request failed.')
  })

  it('shows dashes, not zeros, where nothing was answered', () => {
    const html = reportOf(resultOf({ levels: [levelOf(1), { ...emptyLevel, level: 2 }] }))
    expect(readIn(html, 'id="percentiles-table"')).toContain(`| 2 unstable${'| –'.repeat(8)}`)
    expect(readIn(html, '<section id="curve"')).toContain('| 2 unstable| 0| 0| –| –| –| –| 5 s')
  })

  it('lets nothing that anybody named become HTML, a script or a rule of style', () => {
    const hostile = '</script></style><script>alert(1)</script><!--\u2028" onload="'
    const rate = levelOf(1, { failures: { [hostile]: 3 }, batchReasons: { [hostile]: 1 } })
    const html = reportOf(
      resultOf({
        model: hostile,
        settings: { [hostile]: hostile, list: [hostile] },
        machine: { [hostile]: hostile },
        date: hostile,
        levels: [rate],
      }),
    )
    const plain = reportOf(resultOf())
    const tags = (page: string, tag: string) => page.split(tag).length
    for (const tag of ['<script', '</script>', '<style', '</style>', '<!--'])
      expect([tag, tags(html, tag)]).toEqual([tag, tags(plain, tag)])
    expect(html).not.toContain('" onload="')
    expect(html.slice(html.indexOf('id="charts"'))).not.toContain('\u2028')
  })

  it('takes settings of any kind', () => {
    const circle: Record<string, unknown> = {}
    circle['self'] = circle
    const read = readIn(
      reportOf(
        resultOf({
          settings: {
            circle,
            big: 12n,
            list: [1n],
            none: undefined,
            nothing: null,
            long: 'x'.repeat(9000),
            lone: '\ud800',
          },
        }),
      ),
      '<section id="configuration"',
    )
    expect(read).toContain('| big| 12\n')
    expect(read).toContain('| list| [&quot;1&quot;]')
    expect(read).toContain('| nothing| null')
    expect(read).not.toContain('| none|')
    expect(read).toContain('… (9000 characters)')
    expect(read).not.toContain('\ud800')
  })

  it('stays small: under 150 kB with 20 levels', () => {
    const html = reportOf(resultOf({ levels: Array.from({ length: 20 }, (_, index) => levelOf(index + 1)) }))
    expect(Buffer.byteLength(html)).toBeLessThan(150_000)
  })

  it('refers to nothing outside itself', () => {
    expect(
      reportOf(resultOf())
        .replace(/\/\*! https:[^*]*\*\//, '')
        .match(/(?:src|href)="(?!#)[^"]*"|url\(|@import|https?:\/\//g),
    ).toBeNull()
  })

  it('takes sections of others, before the configuration', () => {
    const html = reportOf(resultOf(), [
      {
        id: 'accuracy',
        title: 'Accuracy',
        lead: 'Largest difference.',
        parts: [
          { table: { caption: 'Differences', columns: ['output', 'largest'], rows: [['logits', '0.001']] } },
        ],
      },
    ])
    expect(html.indexOf('<section id="accuracy"')).toBeGreaterThan(html.indexOf('<section id="process"'))
    expect(html.indexOf('<section id="accuracy"')).toBeLessThan(html.indexOf('<section id="configuration"'))
    expect(readIn(html, '<section id="accuracy"')).toContain('| logits| 0.001')
  })
})

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
    expect(read).toContain('Answers under load: NOT the same as alone')
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
    expect(read).toContain('All sections below are about unique inputs.')
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
    expect(readIn(read, 'aria-label="Given settings"', '</table>')).toMatch(/\| instances\| 2/)
    expect(readIn(read, 'aria-label="Given settings"', '</table>')).not.toContain('batch-size')
    expect(readIn(read, '<summary>Settings left at their defaults', '</details>')).toContain(
      '| batch-size| 1',
    )
  })
})

describe('bins of a latency histogram', () => {
  it('are as wide as each other on a logarithmic axis, with those that are empty', () => {
    const { bounds, counts } = binsOf([
      { upToUs: 100, count: 5 },
      { upToUs: 200, count: 7 },
      { upToUs: 400, count: 1 },
    ])
    expect(bounds.map(Math.round)).toEqual([100, 119, 141, 168, 200, 238, 283, 336, 400])
    expect(counts).toEqual([5, 0, 0, 0, 7, 0, 0, 0, 1])
  })

  it('lose no latency, and are 40 at most, whatever was measured', () => {
    const bins = fc.array(
      fc.record({
        upToUs: fc.double({ min: 0, max: 1e300, noNaN: true }),
        count: fc.integer({ min: 0, max: 1e6 }),
      }),
    )
    fc.assert(
      fc.property(bins, (given) => {
        const histogram = given.toSorted((a, b) => a.upToUs - b.upToUs)
        const { bounds, counts } = binsOf(histogram)
        const sum = (counted: readonly number[]) => counted.reduce((a, b) => a + b, 0)
        expect(sum(counts)).toBe(sum(histogram.map(({ count }) => count)))
        expect(bounds.length).toBeLessThanOrEqual(41)
      }),
    )
  })

  it('tell where a latency lies among them', () => {
    const { bounds, placeOf } = binsOf([
      { upToUs: 100, count: 5 },
      { upToUs: 400, count: 1 },
    ])
    expect(placeOf(100)).toBeCloseTo(0.5) // the upper end of the first
    expect(placeOf(200)).toBeCloseTo(4.5)
    expect(placeOf(1)).toBe(-0.5)
    expect(placeOf(1e9)).toBe(bounds.length - 0.5)
  })

  it('are none where nothing was measured', () => {
    expect(binsOf([])).toMatchObject({ bounds: [], counts: [] })
    expect(binsOf([{ upToUs: Infinity, count: 3 }])).toMatchObject({ bounds: [], counts: [] })
  })
})

describe('a file that is written whole', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'zerohop-file-'))
  })

  it('is there, and nothing else is', async () => {
    await writeWholeFile('--report', join(folder, 'out.html'), 'all of it')
    expect(readdirSync(folder)).toEqual(['out.html'])
    expect(readFileSync(join(folder, 'out.html'), 'utf8')).toBe('all of it')
  })

  it('takes the place of the one before, also where a link leads there', async () => {
    writeFileSync(join(folder, 'old.html'), 'a longer text from before')
    symlinkSync(join(folder, 'old.html'), join(folder, 'link.html'))
    await writeWholeFile('--report', join(folder, 'link.html'), 'new')
    expect(readFileSync(join(folder, 'old.html'), 'utf8')).toBe('new')
    expect(readdirSync(folder).sort()).toEqual(['link.html', 'old.html'])
  })

  it('is refused, before anything is measured, in a folder that is missing', async () => {
    const path = join(folder, 'missing/out.html')
    for (const write of [
      async () => checkFilePlace('--report', path),
      () => writeWholeFile('--report', path, ''),
    ]) {
      await expect(write()).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG',
        argument: '--report',
        received: path,
        message: expect.stringMatching(
          /^--report: expected the path of a file in a folder that is there, received '.*'\. There is no folder .*missing\. Make it, or name another/,
        ),
      })
    }
  })

  it('is refused below what is no folder, and in the place of what is no file', async () => {
    writeFileSync(join(folder, 'file'), '')
    mkdirSync(join(folder, 'folder'))
    expect(() => checkFilePlace('--report', join(folder, 'file/out.html'))).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARG',
        message: expect.stringContaining('It is no folder'),
      }),
    )
    expect(() => checkFilePlace('--report', join(folder, 'folder'))).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARG',
        message: expect.stringContaining('no file. Name another'),
      }),
    )
    await expect(writeWholeFile('--report', '/dev/null', 'x')).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
    })
    expect(readdirSync(folder).sort()).toEqual(['file', 'folder'])
  })

  it('leaves nothing behind where it cannot be written', async () => {
    await expect(writeWholeFile('--report', join(folder, 'x'.repeat(300)), 'text')).rejects.toMatchObject({
      code: 'ENAMETOOLONG',
    })
    expect(readdirSync(folder)).toEqual([])
  })
})

const before = resultOf()
const after = resultOf({
  settings: { ...before.settings, 'concurrency-range': '1:32', note: '<b>' },
  levels: [1, 2, 4, 32].map((level) =>
    levelOf(level, { inferencesPerSecond: 1000 * level, stable: level !== 32 }),
  ),
})

describe('results beside each other', () => {
  const html = comparisonOf([
    { name: 'before', result: before },
    { name: '<after>', result: after },
  ])

  it('have their best at the top, and say what is not stable', () => {
    const read = readIn(html, '<header>', '</header>')
    expect(read).toContain('before against &lt;after&gt;')
    expect(read).toContain('before: Peak throughput30,769 inferences/s')
    expect(read).toContain('&lt;after&gt;: Peak throughput4,000 inferences/s')
    expect(read).toContain('Some levels did not become stable: of &lt;after&gt;.')
  })

  it('are compared level by level, with ratios to the first', () => {
    const read = readIn(html, 'id="throughputs-table"', '</table>')
    expect(read).toContain('| 1| 4,149| 1,000 (0.24 x)')
    expect(read).toContain('| 8| 20,619| – (–)')
    expect(read).toContain('| 32| 29,630| 32,000 (1.08 x) unstable')
    expect(readIn(html, 'id="p99s-table"', '</table>')).toContain('| 2| 819 µs| 819 µs (1.00 x)')
  })

  it('have the distributions of each at its peak, as shares, and of the levels that two of them have', () => {
    const read = readIn(html, '<section id="distributions"')
    expect(read).toContain('each at its own peakconcurrency 1concurrency 2concurrency 4concurrency 32\n')
    const [, ...rows] = readIn(html, 'id="latencies-table"', '</table>')
      .split('\n')
      .filter((line) => line.startsWith('| '))
    const sums = [1, 2].map((column) =>
      rows.reduce(
        (sum, row) => sum + Number.parseFloat(row.split('| ')[column + 1]!.replace('&lt; ', '')),
        0,
      ),
    )
    for (const sum of sums) expect(sum).toBeCloseTo(100, 0)
    expect(readIn(html, 'id="batches-table"', '</table>')).toContain('| 8| ')
  })

  it('have no tables of what does not differ', () => {
    const read = readIn(
      comparisonOf([
        { name: 'a', result: before },
        { name: 'b', result: before },
      ]),
      '<section id="configuration"',
    )
    expect(read).toContain('The settings and the machines are the same.')
    expect(read).not.toContain('Machines')
  })

  it('show the settings that differ, and no others', () => {
    const read = readIn(html, '<section id="configuration"')
    expect(read).toContain('| concurrency-range| 1:64| 1:32')
    expect(read).toContain('| note| –| &lt;b&gt;')
    expect(read).not.toContain('stability-percentage')
    expect(read).not.toContain('cores')
  })

  it('are not compared by levels of different kinds', () => {
    const mixed = comparisonOf([
      { name: 'a', result: before },
      { name: 'b', result: richResult() },
    ])
    expect(mixed).toContain('measured under different kinds of load')
    expect(mixed).not.toContain('id="levels"')
    expect(readIn(mixed, '<section id="distributions"')).not.toContain('each at its own peak') // which is all that there is to choose
  })

  it('have the metrics of scenarios, and no charts where there are no levels', () => {
    const one = resultOf({ mode: 'scenario', levels: [], scenario: serverScenario })
    const other = { ...one, scenario: { ...serverScenario, valid: true, peak: null } }
    const page = comparisonOf([
      { name: 'a', result: one },
      { name: 'b', result: other },
    ])
    const read = readIn(page, '<section id="scenarios"')
    expect(read).toContain('| valid| no| yes')
    expect(read).toContain('| its value| 813 samples/s| 813 samples/s')
    expect(read).toContain('| peak| 812 queries/s| –')
    expect(readIn(page, '<header>', '</header>')).toContain('a: Completed samples per second813 samples/s')
    expect(page).not.toContain('Nothing was measured.')
    expect(
      comparisonOf([
        { name: 'a', result: one },
        { name: 'b', result: before },
      ]),
    ).toContain('<section id="curves"')
  })

  it('may have nothing to compare', () => {
    const nothing = comparisonOf([
      { name: 'a', result: resultOf({ levels: [] }) },
      { name: 'b', result: resultOf({ levels: [emptyLevel] }) },
    ])
    expect(readIn(nothing, '<section id="curves"')).toContain('| a| –| –')
    expect(readIn(nothing, '<section id="curves"')).toContain('Nothing was measured.')
  })
})

describe('a result that is kept', () => {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-kept-'))
  const kept = (text: string) => {
    const file = join(folder, 'kept.json')
    writeFileSync(file, text)
    return file
  }

  it('comes back as it was', async () => {
    const { server, batchSizes } = levelOf(2)
    const rich: PerfResult = {
      ...richResult(),
      given: ['percentile'],
      inputs: [
        { inputs: 'same', distinct: 1, levels: [levelOf(1)] },
        { inputs: 'unique', distinct: null, levels: [] },
      ],
      levels: [
        ...richResult().levels,
        levelOf(2, {
          composingModels: [{ model: 'step', version: 1, server, batchSizes }],
          sequences: 4,
          percentile: { percentile: 97, us: 3 },
        }),
      ],
    }
    expect(await readSavedResult(kept(savedText(rich)))).toEqual(rich)
    const scenario = resultOf({ mode: 'scenario', levels: [], scenario: serverScenario })
    expect(await readSavedResult(kept(savedText(scenario)))).toEqual(scenario)
  })

  it('comes back with numbers that are none where JSON has none', async () => {
    const { levels } = await readSavedResult(
      kept(
        savedText(
          resultOf({
            settings: { seed: 1n },
            levels: [levelOf(1, { cpuCores: NaN, inferencesPerSecond: Infinity })],
          }),
        ),
      ),
    )
    expect(levels[0]).toMatchObject({ cpuCores: NaN, inferencesPerSecond: NaN })
  })

  it.each([
    ['no JSON', '{', /It is no JSON: .*Write it again/],
    ['another thing', '[]', /model is not as it has to be/],
    [
      'a level without its latency',
      savedText(before).replace('"latency"', '"latencies"'),
      /levels\.0\.latency is not as it has to be/,
    ],
    [
      'a scenario without its metric',
      savedText(resultOf({ levels: [], scenario: serverScenario })).replace('"metric"', '"metrics"'),
      /scenario\.metric is not as it has to be/,
    ],
    [
      'inputs of no kind',
      savedText({ ...before, inputs: [{ inputs: 'hope' as never, distinct: 1, levels: [] }] }),
      /inputs\.0\.inputs is not as it has to be/,
    ],
    [
      'a mode that nobody knows',
      savedText(before).replace('"concurrency"', '"hope"'),
      /mode is not as it has to be/,
    ],
  ])('is refused where it is %s', async (_, text, message) => {
    const file = kept(text)
    await expect(readSavedResult(file)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: file,
      message: expect.stringMatching(message),
    })
  })
})
