import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { comparisonOf } from '../../../src/perf/html-report/comparison.ts'
import { readSavedResult, savedText } from '../../../src/perf/html-report/saved-result.ts'
import type { PerfResult } from '../../../src/perf/result.ts'
import { emptyLevel, levelOf, resultOf, richResult, serverScenario } from './made-results.ts'
import { readIn } from './read-in.ts'

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
