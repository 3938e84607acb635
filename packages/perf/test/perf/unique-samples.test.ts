import { describe, expect, it } from 'vitest'
import { Tensor } from '../../../../src/index.ts'
import type { Sample } from '../../src/perf/input/sample-source.ts'
import { mulberry32 } from '../../../../src/base/seeded-random.ts'
import { UniqueSamples } from '../../src/perf/input/generated-data.ts'
import { inputsText } from '../../src/perf/report/console-report.ts'
import { levelOf } from './level.ts'

const samples = (count: number): Sample[] =>
  Array.from({ length: count }, (_, index) => ({
    feeds: { x: new Tensor('float32', Float32Array.of(index, 0, 0, 0), [1, 4]) },
    rows: 1,
  }))
const bytesOf = ({ feeds }: Sample) =>
  Buffer.from(((feeds['x'] as Tensor).data as Float32Array).slice().buffer).toString('hex')

describe('unique requests', () => {
  it('are never the same twice, however often they come again', () => {
    const source = new UniqueSamples(samples(5), mulberry32(1))
    expect(new Set(Array.from({ length: 1000 }, () => bytesOf(source.next()))).size).toBe(1000)
    expect(source.size).toBeNull()
  })

  it('stay as they are where they were given, and say how many there are', () => {
    const source = new UniqueSamples(samples(5), null)
    expect(new Set(Array.from({ length: 100 }, () => bytesOf(source.next()))).size).toBe(5)
    expect(source.size).toBe(5)
  })

  it('stay as they are without floats', () => {
    const words: Sample[] = [
      { feeds: { x: new Tensor('string', ['a'], [1]) }, rows: 1 },
      { feeds: { x: new Tensor('string', ['b'], [1]) }, rows: 1 },
    ]
    const source = new UniqueSamples(words, mulberry32(1))
    expect([source.next(), source.next(), source.next()]).toEqual([words[0], words[1], words[0]])
    expect(source.size).toBe(2)
  })
})

describe('the same inputs beside unique ones', () => {
  const server = levelOf({}).server
  const runs = [
    {
      inputs: 'same' as const,
      distinct: 1,
      levels: [
        levelOf({
          level: 2,
          inferencesPerSecond: 300,
          server: { ...server, cacheHitCount: 300, cacheMissCount: 0 },
        }),
      ],
    },
    {
      inputs: 'unique' as const,
      distinct: null,
      levels: [
        levelOf({
          level: 2,
          inferencesPerSecond: 100,
          server: { ...server, cacheHitCount: 0, cacheMissCount: 100 },
        }),
        levelOf({ level: 4, stable: false }),
      ],
    },
  ]

  it('are lines of one table, with what the cache gave and how many times as fast it was', () => {
    const rows = inputsText('concurrency', runs)
      .split('\n')
      .filter((line) => /same|unique/.test(line) && !line.includes('Against'))
    expect(
      rows.map((row) =>
        row
          .split('│')
          .map((cell) => cell.trim())
          .filter((cell) => cell !== ''),
      ),
    ).toEqual([
      ['2', 'same', '1', '300', '900', '1700', '240', '100 %', '3.000 x'],
      ['2', 'unique', 'all', '100', '900', '1700', '240', '0 %', '1.000 x'],
      ['4', 'unique', 'all', '100 (not stable)', '900', '1700', '240', '-', '1.000 x'],
    ])
  })
})
