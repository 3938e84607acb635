import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { SimulationResult } from '../../src/simulation/simulation-result.ts'
import { root, zerohop } from './run.ts'

const page = readFileSync(join(root, 'docs/capacity-planning.md'), 'utf8')
const [, common] = /^npx zerohop (simulate --service \S+ --max-batch-size \d+)/m.exec(page)!
const rows = [...page.matchAll(/^\| `(--[^`]+)` \| (\d+) \| (\d+) \| (\d+)( %)? \|$/gm)].map(([, options, p50, p99, last, percent]) => ({ options: options!, p50: Number(p50), p99: Number(p99), last: Number(last), isShare: percent !== undefined }))

describe('the page on capacity past one machine', () => {
  it('has figures', () => {
    expect(rows.length).toBe(9)
  })

  it.each(rows)('is right about $options', async ({ options, p50, p99, last, isShare }) => {
    const { code, stdout } = await zerohop(...common!.split(' '), ...options.split(' '), '--json')
    expect(code).toBe(0)
    const { predicted } = JSON.parse(stdout) as { predicted: SimulationResult }
    expect([predicted.p50Ms, predicted.p99Ms, isShare ? 100 * predicted.utilisation : predicted.throughputPerSecond].map((figure) => Math.round(figure ?? NaN))).toEqual([p50, p99, last])
  })
})
