import { truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { dataFlowText } from '../../src/trace-files/model-summary.ts'
import { summarize } from './summarize.ts'
import { eachTrace, readTraceFile } from '../../src/trace-files/read-trace-file.ts'
import { JsonArrayFile } from '../../../../src/observe/json-array-file.ts'
import { arrivalsOf } from '../../src/trace-files/trace-arrivals.ts'
import { errorOf, temporaryFolder } from '../../../../test/triton-repository/temporary.ts'
import { tritonRecords, tritonTraces } from './triton-traces.ts'

function written(content: string | Uint8Array): string {
  return join(temporaryFolder({ 'trace.json': content }), 'trace.json')
}

const named = { id: 1, model_name: 'm', model_version: 1 }

describe('a file of traces', () => {
  it('is read whatever blanks it has, and however its records are divided', async () => {
    const read = [
      JSON.stringify(tritonRecords),
      JSON.stringify(tritonRecords, null, 3),
      `\n[${tritonRecords.map((record) => JSON.stringify(record)).join('\n,\t')}\n]\n`,
    ]
    for (const text of read)
      expect(await readTraceFile(written(text))).toMatchObject({
        traces: tritonTraces().toSorted((a, b) => a.id - b.id),
        cut: false,
      })
    expect((await readTraceFile(written('[]'))).traces).toEqual([])
  })

  it('that was cut off anywhere is read up to its last whole record', async () => {
    const path = written(
      `[\n${[1, 2].map((id) => JSON.stringify({ ...named, id, request_id: '"{\\' })).join(',\n')}\n]\n`,
    )
    const text = JSON.stringify({ ...named, id: 1, request_id: '"{\\' })
    const endOf = (count: number) => 2 + count * text.length + (count - 1) * 2
    for (let length = endOf(2) + 2; length > 0; length--) {
      truncateSync(path, length)
      const count = length >= endOf(2) ? 2 : length >= endOf(1) ? 1 : 0
      const { traces, cut } = await readTraceFile(path)
      expect([traces.length, cut], `${length} bytes`).toEqual([
        count,
        length < endOf(2) && length > 2 && (length < endOf(1) || length > endOf(1) + 2),
      ])
    }
    truncateSync(path, 0)
    expect((await errorOf(readTraceFile(path))).message).toMatch(/is empty/)
  })

  it('may have records of any length, over many reads', async () => {
    const data = '1,'.repeat(1_500_000) + '1'
    const path = written(
      JSON.stringify([
        named,
        {
          id: 1,
          activity: 'TENSOR_QUEUE_INPUT',
          tensor: { name: 'x', data, shape: '1500001', dtype: 'FP32' },
        },
      ]),
    )
    const { traces } = await readTraceFile(path)
    expect(traces[0]!.tensors[0]!.data).toHaveLength(data.length)
  })

  it('may be written while it is read', async () => {
    const path = join(temporaryFolder({}), 'trace.json')
    const file = new JsonArrayFile(path)
    const some = (from: number, count: number) =>
      Array.from({ length: count }, (_, index) =>
        JSON.stringify({ ...named, id: from + index, request_id: 'r'.repeat(100) }),
      ).join(',\n')
    let written = 8_000
    await file.append(some(0, written))
    for (let round = 0; round < 3; round++) {
      let isRead = false
      const reading = readTraceFile(path).finally(() => (isRead = true))
      const before = written
      for (; !isRead; written += 10) await file.append(some(written, 10))
      expect((await reading).traces.length).toBeGreaterThanOrEqual(before)
    }
    await file.close()
  })

  it('may be put together of those of several processes, whose ids are the same', async () => {
    const times = (ms: number) => [
      { name: 'REQUEST_START', ns: ms * 1e6 },
      { name: 'REQUEST_END', ns: ms * 2e6 },
    ]
    const text = ([1, 2] as const)
      .map((ms) => JSON.stringify([named, { id: 1, timestamps: times(ms) }]))
      .join('\n')
    const { traces } = await readTraceFile(written(text))
    expect(traces.map(({ timestamps }) => timestamps)).toEqual([times(1), times(2)])
    expect(summarize(traces)).toMatchObject([{ traceCount: 2, handlerUs: 1500 }])
  })

  it('with more than there is memory for is refused, and summed up all the same', async () => {
    const path = written(JSON.stringify(Array.from({ length: 12_000 }, (_, id) => ({ ...named, id }))))
    expect((await errorOf(readTraceFile(path, 1e-6))).message).toMatch(
      /has more traces than there is memory for, which is \d+ MiB\. Set NODE_OPTIONS=--max-old-space-size=\d+, or trace to several files/,
    )
    const ids: number[] = []
    expect(await eachTrace(path, ({ id }) => ids.push(id))).toEqual({ cut: false })
    expect(ids).toEqual(Array.from({ length: 12_000 }, (_, id) => id))
  })

  it('may begin with a byte order mark', async () => {
    expect((await readTraceFile(written(`\uFEFF[${JSON.stringify(named)}]`))).traces).toHaveLength(1)
  })

  it.each([
    ['is no JSON', 'hello', 'it is no JSON array of objects'],
    ['is binary', Uint8Array.of(0, 1, 2, 255), 'it is no JSON array of objects'],
    ['is an object', '{"id":1}', 'it is no JSON array of objects'],
    ['is an array of numbers', '[1,2]', 'what follows record 0 is no object'],
    ['goes on with something else', `[${JSON.stringify(named)}, oops`, 'what follows record 1 is no object'],
    ['has a record that is no JSON', '[{"id" 1}]', 'record 1: is no JSON'],
    ['has a record without an id', '[{"model_name":"m"}]', 'record 1: id: expected "id", received undefined'],
    ['has an id of another type', '[{"id":"1"}]', 'record 1: id: expected number, received "1"'],
    [
      'has timestamps of another type',
      '[{"id":1,"timestamps":[{"name":"A","ns":"soon"}]}]',
      'record 1: timestamps[0].ns: expected number, received "soon"',
    ],
    [
      'has a time before all times',
      '[{"id":1,"timestamps":[{"name":"A","ns":-1}]}]',
      'record 1: timestamps[0].ns: expected >=0, received -1',
    ],
    [
      'has a tensor of another type',
      '[{"id":1,"activity":"X","tensor":{"name":1}}]',
      'record 1: tensor.name: expected string, received 1',
    ],
    [
      'has batches of another type',
      '[{"id":1,"model_name":"m","batches":{}}]',
      'record 1: batches: expected Array, received Object',
    ],
    ['never names a model', '[{"id":1,"timestamps":[]}]', 'no record of trace 1 has a model_name'],
  ])('that %s is refused in one sentence', async (_, content, reason) => {
    const path = written(content)
    expect(await errorOf(readTraceFile(path))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: `${path} is no file of traces: ${reason}.`,
    })
  })

  it('that is a folder, or is not there, is refused', async () => {
    const folder = temporaryFolder({})
    expect(await errorOf(readTraceFile(folder))).toMatchObject({
      message: expect.stringContaining('it is a directory') as string,
    })
    expect(await errorOf(readTraceFile(join(folder, 'none')))).toMatchObject({ code: 'ENOENT' })
  })

  it('with hundreds of thousands of brackets is refused, and quickly', async () => {
    const path = written('[')
    writeFileSync(path, `[${'{"a":'.repeat(300_000)}`)
    expect(await readTraceFile(path)).toMatchObject({ traces: [], cut: true })
    writeFileSync(path, `[{"id":1,"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}]`)
    expect((await errorOf(readTraceFile(path))).message).toMatch(/is no file of traces/)
  })
})

describe('what is made of strange traces', () => {
  const times = (startNs: number, endNs: number) => [
    { name: 'REQUEST_START', ns: startNs },
    { name: 'REQUEST_END', ns: endNs },
  ]
  const trace = { id: 1, model: 'm', version: 1, batches: [], timestamps: times(10, 5), tensors: [] }

  it('is no endless loop for parents in a circle, nor an overflow for thousands one below the other', () => {
    const circle = [
      { ...trace, parentId: 2 },
      { ...trace, id: 2, parentId: 1 },
    ]
    expect(summarize(circle)).toHaveLength(1)
    const tensors = [{ activity: 'TENSOR_QUEUE_INPUT', name: 'x', data: '1', shape: '1', dtype: 'FP32' }]
    const deep = Array.from({ length: 50_000 }, (_, index) => ({
      ...trace,
      id: index + 1,
      ...(index > 0 && { parentId: index }),
      tensors,
    }))
    expect(dataFlowText(deep).split('\n').length).toBeGreaterThan(100)
    expect(dataFlowText(circle.map((each) => ({ ...each, tensors })))).toContain('x: [1]')
    expect(summarize(deep)[0]!.traceCount).toBe(50_000)
  })

  it('shows tensors as they are where their shape is not theirs', () => {
    const shown = (shape: string, data: string, dtype = 'FP32') =>
      /x: (.*)/.exec(
        dataFlowText([
          { ...trace, tensors: [{ activity: 'TENSOR_QUEUE_INPUT', name: 'x', data, shape, dtype }] },
        ]),
      )![1]
    expect(shown('2,2', '1,2,3,4')).toBe('[[1 2] [3 4]]')
    expect(shown('2,2', '1,2,3')).toBe('1,2,3')
    expect(shown('1e15,0', '')).toBe('[]')
    expect(shown('many', '1')).toBe('1')
    expect(shown('', '5')).toBe('5')
    expect(shown('1,'.repeat(50_000) + '1', '5')).toBe('5')
    expect(shown('-1,-1', '5')).toBe('5')
    expect(shown('2', '"a,b","c"', 'BYTES')).toBe('["a,b" "c"]')
    expect(shown('2', 'a,b', 'BYTES')).toBe('[a b]')
    expect(shown('2,1000', Array.from({ length: 2000 }, (_, index) => index % 1000).join(','))).toBe(
      '[[0 1 2 ... 997 998 999] [0 1 2 ... 997 998 999]]',
    )
  })
})

describe('a recording of arrivals', () => {
  it('has the requests of callers as they came, with what a replay needs', () => {
    const traces = [
      { id: 2, model: 'a', version: 1, rows: 3, priority: 2, timeoutMs: 5, deadlineMs: 6, sequenceId: 's', dims: { x: [3, 7] }, batches: [], timestamps: [{ name: 'REQUEST_START', ns: 5_000_500 }, { name: 'REQUEST_END', ns: 6_000_500 }], tensors: [] },
      { id: 1, model: 'b', version: 1, error: 'ERR_TIMEOUT', batches: [], timestamps: [{ name: 'REQUEST_START', ns: 4_000_000 }, { name: 'REQUEST_END', ns: 6_000_000 }], tensors: [] },
      { id: 3, model: 'c', version: 1, parentId: 2, batches: [], timestamps: [{ name: 'REQUEST_START', ns: 5_100_000 }], tensors: [] },
    ] // prettier-ignore
    expect(arrivalsOf(traces)).toEqual([
      { atUs: 0, rows: 1, model: 'b' },
      {
        atUs: 1000.5,
        rows: 3,
        model: 'a',
        priority: 2,
        timeoutMs: 5,
        deadlineMs: 6,
        sequenceId: 's',
        dims: { x: [3, 7] },
        latencyUs: 1000,
      },
    ])
  })
})
