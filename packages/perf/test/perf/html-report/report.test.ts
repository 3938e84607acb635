import { describe, expect, it } from 'vitest'
import { reportOf } from '../../../src/perf/html-report/report.ts'
import { emptyLevel, levelOf, resultOf, richResult } from './made-results.ts'
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

  it('tells of the models of an ensemble', () => {
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
