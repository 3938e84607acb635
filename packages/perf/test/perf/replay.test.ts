import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { positionMlp } from '../../../../bench/models.ts'
import type { Arrival } from '../../../../src/observe/arrival.ts'
import type { ModelMetadata, Tensor } from '../../../../src/index.ts'
import { arrivalsOf, replaySchedule, ReplaySource } from '../../src/perf/replay/replay.ts'
import { mulberry32 } from '../../../../src/base/numbers.ts'
import { zerohop } from '../../../../test/cli/run.ts'
import { identity } from '../../../../test/models/small.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-replay-'))
afterAll(() => rmSync(folder, { recursive: true }))

const metadata = {
  name: 'tokens',
  maxBatchSize: 8,
  joinsRequests: true,
  inputs: [
    { name: 'ids', type: 'int64', shape: ['N', 'L'] },
    { name: 'mask', type: 'float32', shape: ['N', 'L', 2] },
  ],
  outputs: [{ name: 'y', type: 'float32', shape: ['N'] }],
} as unknown as ModelMetadata

const source = (arrivals: readonly Arrival[], kind: 'random' | 'zero' = 'random') =>
  new ReplaySource(
    arrivals,
    metadata,
    { kind, stringLength: 4, stringData: null },
    new Map([['mask', [3, 2]]]),
    mulberry32(1),
  )

function recordingOf(arrivals: readonly Arrival[]): string {
  const path = join(folder, 'requests.jsonl')
  writeFileSync(path, arrivals.map((arrival) => `${JSON.stringify(arrival)}\n`).join(''))
  return path
}

describe('the requests of a replay', () => {
  it('are kept up to 256 MiB together, however many shapes there are, and made anew beyond that', () => {
    const large = Array.from({ length: 40 }, (_, index): Arrival => ({
      atUs: 0,
      rows: 1,
      dims: { ids: [1, 2 ** 21 + index], mask: [1, 1, 2] },
    }))
    const replayed = source([...large, ...large], 'zero') // random ones take seconds to draw
    const kept = new Set<unknown>()
    for (const _ of large) kept.add(replayed.next().feeds)
    const again = large.map(() => kept.has(replayed.next().feeds))
    expect(again.filter((isKept) => isKept).length).toBeLessThanOrEqual(16)
    expect(again[0]).toBe(true)
  }, 240_000)

  it('have the rows and dims that were recorded, and those of --shape where none were', () => {
    const arrivals: Arrival[] = [
      { atUs: 0, rows: 2, dims: { ids: [2, 7] } },
      { atUs: 5, rows: 1, dims: { ids: [1, 4], mask: [1, 4, 2] } },
    ]
    const replayed = source(arrivals)
    const dims = arrivals.map(() => {
      const { feeds, rows } = replayed.next()
      return [rows, (feeds['ids'] as Tensor).dims, (feeds['mask'] as Tensor).dims]
    })
    expect(dims).toEqual([
      [2, [2, 7], [2, 3, 2]],
      [1, [1, 4], [1, 4, 2]],
    ])
  })

  it('have their priorities, timeouts and deadlines', () => {
    const replayed = source([
      { atUs: 0, rows: 1, dims: { ids: [1, 2] }, priority: 2, timeoutMs: 30, deadlineMs: 40 },
      { atUs: 1, rows: 1, dims: { ids: [1, 2] } },
    ])
    expect([replayed.next().options, replayed.next().options]).toEqual([
      { priority: 2, timeoutMs: 30, deadlineMs: 40 },
      undefined,
    ])
  })

  it('begin and end their sequences', () => {
    const replayed = source(
      ['a', 'b', 'a', 'a', 'b'].map((sequenceId, index) => ({
        atUs: index,
        rows: 1,
        dims: { ids: [1, 2] },
        sequenceId,
      })),
    )
    const marks = Array.from({ length: 5 }, () => {
      const { sequenceId, sequenceStart, sequenceEnd } = replayed.next().options!
      return [sequenceId, sequenceStart, sequenceEnd]
    })
    expect(marks).toEqual([
      ['a', true, false],
      ['b', true, false],
      ['a', false, false],
      ['a', false, true],
      ['b', false, true],
    ])
  })

  it('are due when they came, or so many times as fast', () => {
    const arrivals = [0, 1000, 5000].map((atUs) => ({ atUs, rows: 1 }))
    expect([...replaySchedule(arrivals, 1)]).toEqual([0, 1, 5])
    expect([...replaySchedule(arrivals, 2)]).toEqual([0, 0.5, 2.5])
  })

  it.each([
    [
      'dims that do not fit',
      { atUs: 1, rows: 1, dims: { ids: [1, 2], mask: [1, 2, 3] } },
      "shape of input 'mask'",
    ],
    [
      'more rows than memory holds',
      { atUs: 1, rows: 2 ** 31 - 1, dims: { ids: [2 ** 31 - 1, 2] } },
      'request 2 of the recording: expected no more than',
    ],
  ])('are looked at before the first is sent: one of %s is refused', (_, arrival, message) => {
    expect(() => source([{ atUs: 0, rows: 1, dims: { ids: [1, 2] } }, arrival])).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARG',
        message: expect.stringContaining(message) as string,
      }),
    )
  })

  it('are those of one model, counted from its first', () => {
    const arrivals = ['a', 'b', 'b'].map((model, index) => ({ atUs: index * 10, rows: 1, model }))
    expect(arrivalsOf(arrivals, 'b').map(({ atUs }) => atUs)).toEqual([0, 10])
    expect(() => arrivalsOf(arrivals, null)).toThrow('one of the models that were recorded (a, b)')
    expect(() => arrivalsOf(arrivals, 'c')).toThrow('one of the models that were recorded (a, b)')
    expect(arrivalsOf([{ atUs: 0, rows: 1 }], null)).toHaveLength(1)
  })
})

describe('zerohop perf --replay', () => {
  it('sends each request once, with its rows, and tells of it as of any level', async () => {
    const path = recordingOf(
      Array.from({ length: 40 }, (_, index) => ({ atUs: index * 5000, rows: 1 + (index % 4) })),
    )
    const { code, stdout, stderr } = await zerohop(
      'perf',
      '-m',
      identity('float32'),
      '--max-batch-size',
      '8',
      '--replay',
      path,
      '--speed',
      '2',
      '-f',
      join(folder, 'levels.csv'),
    )
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain('Replay speed: 2')
    expect(stdout).toContain('Request count: 40\n')
    expect(stdout).toContain('Inference count: 100\n')
    expect(stdout).toMatch(/Replay speed: 2, throughput: [\d.]+ infer\/sec, latency \d+ usec/)
  })

  it('takes dims from the recording', async () => {
    const { path: model, input, width } = positionMlp(4, 4)
    const path = recordingOf([
      { atUs: 0, rows: 2, dims: { [input]: [2, 5, width] } },
      { atUs: 1000, rows: 1, dims: { [input]: [1, 9, width] } },
    ])
    const { code, stdout } = await zerohop('perf', '-m', model, '--replay', path)
    expect(code).toBe(0)
    expect(stdout).toContain('Request count: 2\n')
  })

  it.each([
    [['--concurrency-range', '2'], '--concurrency-range has no effect with --replay'],
    [['--input-data', 'data.json'], '--input-data: expected random or zero, with --replay'],
    [['--replay-model', 'other'], '--replay-model: expected one of the models that were recorded'],
    [['--speed', '0'], 'Expected a number above 0.'],
  ])('refuses %j in one line', async (more, text) => {
    const path = recordingOf([{ atUs: 0, rows: 1 }])
    const { code, stderr } = await zerohop('perf', '-m', identity('float32'), '--replay', path, ...more)
    expect(code).not.toBe(0)
    expect(stderr).toContain(text)
    expect(stderr.trim().split('\n')).toHaveLength(1)
  })

  it('tells the line of a recording that is wrong', async () => {
    const path = join(folder, 'wrong.jsonl')
    writeFileSync(path, '{"atUs":0,"rows":1}\n{"atUs":1}\n')
    const { code, stderr } = await zerohop('perf', '-m', identity('float32'), '--replay', path)
    expect(code).not.toBe(0)
    expect(stderr).toContain(`${path}:2: rows: expected a whole number of at least 1`)
  })
})
