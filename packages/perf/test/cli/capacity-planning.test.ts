import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { simulate } from '../../src/simulation/simulate.ts'
import type { SimulationResult } from '../../src/simulation/simulation-result.ts'
import { root, zerohop } from '../../../../test/cli/run.ts'

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

  it.each(rows)('is right about $options', async ({ options, p50, p99, last, isShare }) => {
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

  it('is right about how much the p99 differs by seed near the limit', () => {
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
