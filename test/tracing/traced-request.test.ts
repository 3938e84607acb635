import { expect, it } from 'vitest'
import { TraceAccount } from '../../src/observe/trace-writer.ts'
import { TracedRequest } from '../../src/observe/traced-request.ts'

it('a trace of a request ends with it, and not with what it takes to write its tensors down', () => {
  let nowMs = 10
  const texts: string[] = []
  const account = new TraceAccount(1e6, () => {})
  const source = { account, nextId: () => 1, nowMs: () => nowMs }
  const model = { name: 'm', version: 1, metadata: { inputs: [], outputs: [] }, batching: null }
  const facts = {
    atMs: 0,
    rows: 1,
    requestId: undefined,
    priority: undefined,
    timeoutMs: undefined,
    deadlineMs: undefined,
    sequenceId: undefined,
    reported: false,
    data: [],
    dims: null,
  }
  const settings = {
    level: ['TIMESTAMPS', 'TENSORS'],
    rate: 1,
    count: -1,
    file: 'f',
    logFrequency: 0,
  } as const
  const trace = TracedRequest.begin(source, model, facts, settings, {
    add: (text: string) => texts.push(text),
  } as never)!
  const answer = {
    get y() {
      nowMs += 100
      return { type: 'float32', dims: [1], data: Float32Array.of(1) }
    },
  }
  trace.ended(true, null, answer)
  const [, { timestamps }, tensor] = JSON.parse(`[${texts.join(',')}]`) as [
    object,
    { timestamps: { ns: number }[] },
    object,
  ]
  expect(timestamps.at(-1)!.ns - timestamps[0]!.ns).toBe(10e6)
  expect(tensor).toMatchObject({ activity: 'TENSOR_BACKEND_OUTPUT', tensor: { name: 'y', data: '1' } })
})
