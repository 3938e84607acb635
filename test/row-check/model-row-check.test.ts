import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { resolveConfig } from '../../src/options/model-config.ts'
import type { ModelOptions } from '../../src/index.ts'
import { PriorityLevel, InferRequest } from '../../src/request/infer-request.ts'
import { noOptions } from '../../src/options/infer-options.ts'
import { FeedParser } from '../../src/request/feeds.ts'
import { joiningAtLoad } from '../../src/models/row-check/joining-at-load.ts'
import { ModelRowCheck, type TriedSession } from '../../src/models/row-check/model-row-check.ts'
import type { TrialFeeds } from '../../src/models/row-check/trial-feeds.ts'
import type { RowProof, RowQuestion } from '../../src/onnx/row-proof/prove-rows.ts'

type Rows = (rows: Float32Array[]) => Float32Array[]
const identity: Rows = (rows) => rows
/** Decibels, cut off 80 below the loudest of all rows. */
const cutOff: Rows = (rows) => {
  const db = rows.map((row) => row.map((value) => 10 * Math.log10(Math.max(1e-10, value * value))))
  const loudest = Math.max(...db.flatMap((row) => [...row]))
  return db.map((row) => row.map((value) => Math.max(value, loudest - 80)))
}
const unknown: RowProof = { rows: 'unknown', node: "Odd 'odd'", reason: "Odd 'odd': it has no rule" }
const proved: RowProof = { rows: 'independent', node: null, reason: 'the graph shows it' }

interface ModelSetup {
  readonly length?: number | string
  readonly prove?: (question: RowQuestion) => RowProof
  readonly config?: ModelOptions
  /** Of the session. */
  readonly notes?: Map<string, string>
  /** Whether it has an input `rate`, an integer that all rows share. */
  readonly shared?: boolean
  /** Warm-up samples: values of a row each. */
  readonly samples?: readonly (readonly number[])[]
}

/** A model of floats ['N', length] whose runs take so long for each row, on a clock that only they move. */
async function model(
  compute: Rows,
  rowMs: number,
  {
    length = 4,
    prove = () => unknown,
    config = {},
    notes = new Map(),
    shared = false,
    samples = [],
  }: ModelSetup = {},
) {
  const sizes: number[] = []
  const asked: RowQuestion[] = []
  const session: TriedSession = {
    worker: { busyShare: 1 },
    note: (key) => notes.get(key) ?? '',
    setNote: (key, value) => void notes.set(key, value),
    prove: async (questions) => questions.map((question) => (asked.push(question), prove(question))),
    runSample: async (feeds) => {
      const { dims, data, type } = (feeds as TrialFeeds)[0]!
      const [rows, width] = dims as [number, number]
      sizes.push(rows)
      vi.advanceTimersByTime(rows * rowMs)
      const values = Array.from(
        { length: rows },
        (_, row) => new Float32Array(data as ArrayBuffer, 4 * row * width, width),
      )
      const outputs = [
        { type, dims, data: Float32Array.from(compute(values).flatMap((row) => [...row])).buffer },
      ]
      return { error: null, runMs: rows * rowMs, outputs }
    },
  }
  const resolved = resolveConfig('m', { path: 'm.onnx', ...config })
  const tensor = (name: string) => ({ name, type: 'float32' as const, shape: ['N', length] })
  const joining = await joiningAtLoad(
    'm',
    resolved,
    {
      inputs: shared ? [tensor('x'), { name: 'rate', type: 'int64' as const, shape: [] }] : [tensor('x')],
      outputs: [tensor('y')],
      unservableOutputs: [],
      executionProviders: [],
    },
    1e-3,
    session,
  )
  const parser = new FeedParser(joining.stacked)
  const prepared = samples.map((values) => {
    const dims = [1, values.length]
    return {
      bucketKey: parser.parse({ x: { type: 'float32', dims, data: Float32Array.from(values) } }).bucketKey,
      feeds: [{ type: 'float32' as const, dims, data: Float32Array.from(values).buffer }],
    }
  })
  const check = new ModelRowCheck({ joining, config: resolved, padding: null, parser, samples: prepared })
  joining.onChange = () => {
    parser.byRow = joining.byRow
    parser.rowBuckets = joining.joinedBuckets
  }
  joining.onChange()
  const learnt = vi.fn()
  /** Requests that were served, one after the other. */
  const serve = (requests: readonly (readonly number[])[], rate?: bigint) => {
    for (const values of requests) {
      const x = { type: 'float32' as const, dims: [1, values.length], data: Float32Array.from(values) }
      const parsed = parser.parse({
        x,
        ...(rate !== undefined && { rate: { type: 'int64', dims: [], data: BigInt64Array.of(rate) } }),
      })
      check.served([
        new InferRequest(
          parsed,
          new PriorityLevel(0, {} as never),
          noOptions,
          () => {},
          () => {},
        ),
      ])
    }
  }
  /** Whether a request of two such rows would run alone. */
  const whole = (width: number, rate?: bigint) => {
    const x = { type: 'float32' as const, dims: [2, width], data: new Float32Array(2 * width) }
    return parser.parse({
      x,
      ...(rate !== undefined && { rate: { type: 'int64', dims: [], data: BigInt64Array.of(rate) } }),
    }).whole
  }
  return {
    joining,
    parser,
    check,
    session,
    notes,
    learnt,
    sizes,
    asked,
    serve,
    whole,
    rows: () => joining.metadata.joining.rows,
  }
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] }))
afterEach(() => {
  vi.restoreAllMocks() // first: one test watches the fake timers, and would bring them back
  vi.useRealTimers()
})
/** Until nothing moves any more, with pauses between runs. */
const goOn = async () => {
  for (let pause = 0; pause < 2000; pause++) await vi.advanceTimersByTimeAsync(1000)
}

describe('a check for which a load has no time', () => {
  it.each([15, 60, 5000])(
    'holds it up for 40 ms and one run at most, and finds the same later (%d ms a row)',
    async (rowMs) => {
      const { check, session, learnt, notes, joining, rows, sizes } = await model(identity, rowMs)
      const startMs = performance.now()
      await check.atLoad(session, learnt)
      expect(performance.now() - startMs).toBeLessThanOrEqual(40 + 8 * rowMs)
      expect(rows()).toBe('unknown')
      expect(joining.metadata.maxBatchSize).toBe(0)
      expect([learnt.mock.calls, [...notes.keys()].filter((key) => key.startsWith('checked'))]).toEqual([
        [],
        [],
      ]) // it was cut short
      const before = sizes.length
      await goOn()
      expect([sizes.length, rows()]).toEqual([before, 'unknown']) // nothing is run before it serves
      check.serve(() => session)
      await goOn()
      expect(joining.metadata).toMatchObject({
        maxBatchSize: 32,
        joining: { rows: 'independent', how: 'checked', largestDifference: 0 },
      })
      expect(learnt).toHaveBeenCalledOnce()
    },
  )

  it.each([0.01, 15, 60, 5000])(
    'never takes rows for independent that are not (%d ms a row)',
    async (rowMs) => {
      const { check, session, learnt, joining } = await model(cutOff, rowMs)
      const seen = new Set<string>()
      const onChange = joining.onChange
      joining.onChange = () => (seen.add(joining.metadata.joining.rows), onChange())
      await check.atLoad(session, learnt)
      check.serve(() => session)
      await goOn()
      expect(joining.metadata).toMatchObject({
        maxBatchSize: 0,
        joining: { rows: 'dependent', how: 'checked' },
      })
      expect(seen).not.toContain('independent')
    },
  )

  /** Runs a check beside serving: milliseconds that it takes in all, and that it pauses. */
  async function paced(rowMs: number) {
    const { check, session, learnt, joining, sizes } = await model(identity, rowMs)
    await check.atLoad(session, learnt)
    const before = sizes.length
    const waits = vi.spyOn(globalThis, 'setTimeout')
    const startMs = performance.now()
    let tookMs = 0
    joining.onKnown = () => (tookMs = performance.now() - startMs)
    check.serve(() => session)
    await goOn()
    const ranMs = sizes.slice(before).reduce((sum, size) => sum + size * rowMs, 0)
    return { tookMs, ranMs, pausedMs: waits.mock.calls.reduce((sum, [, ms = 0]) => sum + ms, 0) }
  }

  it.each([true, false])('is given up at once when its model closes (serving: %s)', async (isServing) => {
    const { check, session, learnt, rows, sizes } = await model(identity, 15)
    await check.atLoad(session, learnt)
    if (isServing) {
      check.serve(() => session)
      await vi.advanceTimersByTimeAsync(20)
    }
    check.close()
    await check.checked
    const before = sizes.length
    await goOn()
    expect([sizes.length, rows(), learnt.mock.calls]).toEqual([before, 'unknown', []])
  })

  it('leaves half of the time to others where there is time enough', async () => {
    const { ranMs, pausedMs } = await paced(2)
    expect(ranMs).toBeGreaterThan(100)
    expect(pausedMs).toBeGreaterThanOrEqual(0.9 * (ranMs - 2 * 32)) // of the last run nothing is left to wait for
  })

  it.each([10, 15, 5000])('pauses no longer than has it decide in 5 s (%d ms a row)', async (rowMs) => {
    const { tookMs, ranMs, pausedMs } = await paced(rowMs)
    expect(pausedMs).toBeGreaterThanOrEqual(rowMs < 100 ? 1000 : 0)
    expect(tookMs).toBeLessThanOrEqual(Math.max(5000, ranMs) + 500)
  })
})

describe('lengths that only requests show', () => {
  it('are asked of the graph, bucket by bucket, before anything is run on requests', async () => {
    const { check, session, learnt, asked, serve, joining, parser, sizes } = await model(identity, 0.01, {
      length: 'T', prove: ({ inputs }) => (inputs[0]!.shape[1] === 8 ? proved : unknown),
    }) // prettier-ignore
    await check.atLoad(session, learnt)
    expect(joining.metadata.joining).toMatchObject({
      rows: 'unknown',
      node: "Odd 'odd'",
      reason: expect.stringContaining('generated lengths'),
    })
    check.serve(() => session)
    const runs = sizes.length
    serve([Array<number>(8).fill(1)])
    await vi.advanceTimersByTimeAsync(1)
    expect(asked.at(-1)!.inputs).toEqual([{ name: 'x', shape: ['N', 8], batchAxis: 0 }])
    expect(joining.metadata).toMatchObject({
      maxBatchSize: 32,
      joining: { rows: 'independent', how: 'proved', largestDifference: null },
    })
    expect(sizes.length).toBe(runs)
    const keyOf = (width: number) =>
      parser.parse({ x: { type: 'float32', dims: [2, width], data: new Float32Array(2 * width) } })
    expect([keyOf(8).whole, keyOf(9).whole]).toEqual([false, true]) // of others nothing is proved
  })

  it('are those of rows that are run, at scales of their own, where the graph leaves it open', async () => {
    for (const [compute, expected] of [
      [identity, 'independent'],
      [cutOff, 'dependent'],
    ] as const) {
      const { check, session, learnt, serve, joining, notes } = await model(compute, 0.01, { length: 'T' })
      // A front end that takes no lengths but long ones.
      const run = session.runSample
      session.runSample = async (feeds, wantsOutputs) =>
        (feeds as TrialFeeds)[0]!.dims[1] === 100
          ? run(feeds, wantsOutputs)
          : { error: 'too short', runMs: 0, outputs: [] }
      await check.atLoad(session, learnt)
      expect(joining.metadata.joining).toMatchObject({
        rows: 'unknown',
        reason: expect.not.stringContaining('too short'),
      })
      check.serve(() => session)
      serve([1, 0.9, 1.1].map((scale) => Array.from({ length: 100 }, (_, at) => 1000 * scale * Math.sin(at))))
      await goOn()
      expect(joining.metadata.joining).toMatchObject({ rows: expected, how: 'checked' })
      expect([...notes.keys()].filter((key) => key.startsWith('checked'))).toEqual([])
    }
  })

  it('settle nothing for others where rows meet at some', async () => {
    const meets: RowProof = { rows: 'dependent', node: "If 'if'", reason: "If 'if': rows meet" }
    const { check, session, learnt, serve, joining, whole } = await model(identity, 0.01, {
      length: 'T', prove: ({ inputs }) => ({ 8: proved, 9: meets })[inputs[0]!.shape[1] as 8] ?? unknown,
    }) // prettier-ignore
    await check.atLoad(session, learnt)
    check.serve(() => session)
    serve([Array<number>(9).fill(1)])
    await vi.advanceTimersByTimeAsync(1)
    expect(joining.metadata.joining).toMatchObject({ rows: 'dependent', how: 'proved', node: "If 'if'" })
    serve([1, 2, 3].map((value) => [value, 1, 2, value])) // which runs find to be independent
    await goOn()
    expect([whole(8), whole(9), whole(4)]).toEqual([true, true, false])
    serve([Array<number>(8).fill(1)])
    await vi.advanceTimersByTimeAsync(1)
    expect([whole(8), whole(9), whole(4)]).toEqual([false, true, false])
  })

  it('are joined at those alone with which runs showed that they may be', async () => {
    const meets: RowProof = { rows: 'dependent', node: "If 'if'", reason: "If 'if': rows meet" }
    const { check, session, learnt, serve, joining, whole } = await model(identity, 0.01, {
      length: 'T',
      prove: ({ inputs }) => (inputs[0]!.shape[1] === 9 ? meets : unknown),
    })
    await check.atLoad(session, learnt)
    check.serve(() => session)
    serve([1, 2, 3].map((value) => [value, 1, 2, value]))
    await goOn()
    expect(joining.metadata).toMatchObject({
      maxBatchSize: 32,
      joining: {
        rows: 'independent',
        how: 'checked',
        largestDifference: 0,
        reason: expect.stringContaining('some shapes'),
      },
    })
    expect([whole(4), whole(9), whole(5)]).toEqual([false, true, true])
    for (const length of [9, 5]) {
      serve(
        [1, 2, 3].map((value) =>
          Array<number>(length - 1)
            .fill(2)
            .concat(value),
        ),
      )
      await goOn()
    }
    expect([whole(4), whole(9), whole(5)]).toEqual([false, true, false])
    expect(joining.undecided).toBe(true) // of others
  })

  it('are those of a warm-up sample, for which nothing is to be made up', async () => {
    const { check, session, learnt, whole, joining } = await model(identity, 0.01, {
      length: 'T',
      samples: [
        [1, 2, 3, 4],
        [3, 1, 2, 5],
      ],
    })
    await check.atLoad(session, learnt)
    expect(joining.metadata.joining).toMatchObject({ rows: 'independent', how: 'checked' })
    expect([whole(4), whole(5)]).toEqual([false, true])
  })

  it('are joined no more by what runs did not show where runs show that rows meet at some', async () => {
    const meetAtFive: Rows = (rows) => (rows[0]!.length === 5 ? cutOff(rows) : rows)
    const { check, session, learnt, serve, joining, whole } = await model(meetAtFive, 0.01, {
      length: 'T',
      prove: ({ inputs }) => (inputs[0]!.shape[1] === 8 ? proved : unknown),
    })
    await check.atLoad(session, learnt)
    check.serve(() => session)
    for (const length of [4, 8, 5]) {
      serve(
        [1, 2, 3].map((value) =>
          Array<number>(length - 1)
            .fill(2)
            .concat(value),
        ),
      )
      await goOn()
    }
    expect([whole(4), whole(8), whole(5)]).toEqual([true, false, true])
    expect(joining.metadata.joining).toMatchObject({ rows: 'independent', how: 'proved' })
  })

  it('are asked about of each request, however many there were, and those that no request has had for the longest time are forgotten', async () => {
    const { check, session, learnt, serve, asked, whole } = await model(identity, 0.01, {
      length: 'T',
      prove: ({ inputs }) => (Number(inputs[0]!.shape[1]) > 1 ? proved : unknown),
    })
    await check.atLoad(session, learnt)
    check.serve(() => session)
    serve(Array.from({ length: 101 }, () => [1]))
    await vi.advanceTimersByTimeAsync(0)
    for (let length = 2; length <= 1100; length++) {
      serve([Array<number>(length).fill(1)])
      await vi.advanceTimersByTimeAsync(0)
      if (length === 500) serve([[1, 1]])
    }
    expect(asked.filter(({ inputs }) => Number(inputs[0]!.shape[1]) > 1)).toHaveLength(1099)
    expect([whole(2), whole(3), whole(200), whole(1100)]).toEqual([false, true, false, false])
    serve([[1, 1, 1]])
    await vi.advanceTimersByTimeAsync(0)
    expect(whole(3)).toBe(false)
  })

  it('are asked about no more where the graph has said nothing of many in a row', async () => {
    const { check, session, learnt, serve, asked } = await model(identity, 0.01, {
      length: 'T',
      prove: () => unknown,
    })
    await check.atLoad(session, learnt)
    check.serve(() => session)
    const before = asked.length
    for (let length = 1; length <= 200; length++) {
      serve([Array<number>(length).fill(1)])
      await vi.advanceTimersByTimeAsync(0)
    }
    expect(asked.length - before).toBe(64)
  })

  it('keep their requests when there are more of them than are kept', async () => {
    const { check, session, learnt, serve, whole } = await model(identity, 0.01, { length: 'T' })
    await check.atLoad(session, learnt)
    check.serve(() => session)
    const rowsOf = (length: number, values: readonly number[]) =>
      values.map((value) =>
        Array<number>(length - 1)
          .fill(2)
          .concat(value),
      )
    for (let length = 11; length < 20; length++) {
      serve(rowsOf(length, [1]))
      await vi.advanceTimersByTimeAsync(0)
      serve(rowsOf(length, [2]))
    }
    serve(rowsOf(15, [3]))
    await goOn()
    expect([whole(15), whole(16)]).toEqual([false, true])
  })
})

describe('values that rows share', () => {
  it('are told to the graph, and requests of equal ones joined where it proves that they may be', async () => {
    const { check, session, learnt, serve, asked, whole, joining } = await model(identity, 0.01, {
      shared: true, config: { checkRows: false }, prove: ({ inputs }) => (inputs[1]!.elements?.[0] === 16000 ? proved : unknown),
    }) // prettier-ignore
    await check.atLoad(session, learnt)
    expect(asked.at(-1)!.inputs[1]).toEqual({ name: 'rate', shape: [], batchAxis: -1 })
    check.serve(() => session)
    for (const rate of [16000n, 8000n]) {
      serve([[1, 2, 3, 4]], rate)
      await vi.advanceTimersByTimeAsync(0)
    }
    expect(asked.slice(-2).map(({ inputs }) => inputs[1])).toEqual(
      [16000, 8000].map((rate) => ({ name: 'rate', shape: [], batchAxis: -1, elements: [rate] })),
    )
    expect([whole(4, 16000n), whole(4, 8000n), whole(4, 4000n)]).toEqual([false, true, true])
    expect(joining.metadata.joining).toMatchObject({ rows: 'independent', how: 'proved' })
  })

  it('are not told where a number cannot say them', async () => {
    const { check, session, learnt, serve, asked } = await model(identity, 0.01, { shared: true })
    await check.atLoad(session, learnt)
    check.serve(() => session)
    serve([[1, 2, 3, 4]], 2n ** 60n)
    await vi.advanceTimersByTimeAsync(0)
    expect(asked.at(-1)!.inputs[1]).toEqual({ name: 'rate', shape: [], batchAxis: -1 })
  })
})

describe('what was noted of a check', () => {
  it.each<[string, ModelSetup, ModelSetup]>([
    ['other lengths', { length: 8 }, { length: 16 }],
    ['a warning alone', { config: { maxBatchSize: 32 } }, {}],
  ])('answers for no model that differs in it: %s', async (_, first, second) => {
    vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const notes = new Map<string, string>()
    const runs = async (setup: ModelSetup) => {
      const { check, session, learnt, sizes } = await model(identity, 0.01, { ...setup, notes })
      await check.atLoad(session, learnt)
      return sizes.length
    }
    expect(await runs(first)).toBeGreaterThan(0)
    expect(await runs(first)).toBe(0)
    expect(await runs(second)).toBeGreaterThan(0)
  })
})

describe('a model of which it stays unknown', () => {
  it('is warned about once, with what would settle it, when nothing more is tried', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const nothing: Rows = (rows) => rows.map((row) => row.map(() => 0))
    const { check, session, learnt, serve, joining } = await model(nothing, 0.01)
    await check.atLoad(session, learnt)
    check.serve(() => session)
    expect(warn).not.toHaveBeenCalled()
    for (let round = 0; round < 8; round++) {
      serve([1, 2, 3].map((value) => [value, round, 2, value]))
      await vi.advanceTimersByTimeAsync(1000)
    }
    expect(joining.metadata.joining).toMatchObject({
      rows: 'unknown',
      how: 'unknown',
      node: "Odd 'odd'",
      reason: expect.stringContaining("output 'y' is the same"),
    })
    expect(warn.mock.calls).toEqual([
      [
        expect.stringMatching(/settle it, give two or more different warm-up samples.*maxBatchSize/),
        { type: 'ZerohopWarning', code: 'ZEROHOP_ROWS_UNKNOWN' },
      ],
    ])
  })

  it.each<[string, ModelSetup, (at: number) => number[], RegExp]>([
    [
      'equal requests',
      {},
      () => [1, 2, 3, 4],
      /settle it, give two or more different warm-up samples.*maxBatchSize/,
    ],
    [
      'requests of changing lengths',
      { length: 'T' },
      (at) => Array<number>(at + 1).fill(1),
      /settle it, give lengths.*dims.*warm-up samples.*maxBatchSize/,
    ],
  ])('is warned about after a while of %s', async (_, setup, request, expected) => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const { check, session, learnt, serve } = await model(identity, 0.01, setup)
    session.runSample = async () => ({ error: 'no such token', runMs: 0.01, outputs: [] })
    await check.atLoad(session, learnt)
    check.serve(() => session)
    for (let at = 0; at < 600; at++) {
      if (at === 200) expect(warn).not.toHaveBeenCalled()
      serve([request(at)])
      await vi.advanceTimersByTimeAsync(0)
    }
    expect(warn.mock.calls).toEqual([
      [expect.stringMatching(expected), { type: 'ZerohopWarning', code: 'ZEROHOP_ROWS_UNKNOWN' }],
    ])
  })

  it('is not warned about where requests are not to be run', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const { joining } = await model(identity, 0.01, { config: { checkRows: false } })
    expect([
      joining.undecided,
      (await model(identity, 0.01, { length: 'T', config: { checkRows: false } })).joining.undecided,
    ]).toEqual([false, true]) // lengths may settle it still
    expect(joining.metadata.joining.rows).toBe('unknown')
    expect(warn).not.toHaveBeenCalled()
  })
})
