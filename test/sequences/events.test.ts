import { describe, expect, it } from 'vitest'
import type { InferOptions, SequenceEvent } from '../../src/index.ts'
import { accumulator } from '../models/accumulator.ts'
import { ownEngine } from '../support/open.ts'
import { House, settled } from '../workers/serving.ts'
import { accumulatorSequence } from './accumulators.ts'
import { ServedSequences } from './served-sequences.ts'

const start = { sequenceStart: true } as const
const end = { sequenceEnd: true } as const

/** A model on one worker, and a call that is answered. */
async function served(sequence: object = {}) {
  const house = await House.open(1)
  const model = await ServedSequences.on(house, {
    maxBatchSize: 4,
    sequence: { ...accumulatorSequence, maxSequenceIdleMs: 1000, ...sequence },
  })
  const finish = async () => {
    await settled()
    house.places[0]!.threads.current.finish()
    await settled()
  }
  const call = async (sequenceId: number, options: InferOptions = {}) => {
    const answer = model.infer(1, { sequenceId, ...options })
    await finish()
    return answer
  }
  return { model, call, finish, clock: house.clock }
}

describe('that a sequence is over is told once', () => {
  it('when its last request has been answered', async () => {
    const { model, call } = await served()
    await call(1, start)
    expect(model.over).toEqual([])
    await call(1, end)
    await call(2, { ...start, ...end })
    expect(model.over).toEqual([
      { type: 'ended', sequenceId: 1 },
      { type: 'ended', sequenceId: 2 },
    ])
  })

  it('when it had no request for too long', async () => {
    const { model, call, clock } = await served()
    await call(1, start)
    clock.advanceBy(600)
    await call(1)
    clock.advanceBy(999)
    expect(model.over).toEqual([])
    clock.advanceBy(1)
    expect(model.over).toEqual([{ type: 'idle', sequenceId: 1, reason: 'had no request for 1000 ms' }])
  })

  it('when another is begun under its id, as what it was until then', async () => {
    const { model, call, finish } = await served()
    await call(1, start)
    await call(1, start)
    expect(model.over.splice(0)).toEqual([{ type: 'evicted', sequenceId: 1, reason: 'was restarted' }])
    const calls = [
      model.infer(1, { sequenceId: 1, ...end }),
      model.infer(1, { sequenceId: 1, ...start }),
      model.infer(1, { sequenceId: 1, ...end }),
    ]
    for (const _ of calls) await finish()
    await Promise.all(calls)
    expect(model.over).toEqual([
      { type: 'ended', sequenceId: 1 },
      { type: 'ended', sequenceId: 1 },
    ])
  })

  it('when it has waited for a place longer than its requests may', async () => {
    const { model, call, clock } = await served({ oldest: { maxCandidateSequences: 1 } })
    await call(1, start)
    const late = expect(model.infer(1, { sequenceId: 2, ...start, timeoutMs: 100 })).rejects.toMatchObject({
      code: 'ERR_TIMEOUT',
    })
    await settled()
    clock.advanceBy(101)
    await late
    await settled()
    expect(model.over).toEqual([
      {
        type: 'evicted',
        sequenceId: 2,
        reason: expect.stringContaining('waited for a free place longer than its requests may wait'),
      },
    ])
  })

  it('when its model goes, also of one that waited for a place', async () => {
    const { model, call } = await served({ oldest: { maxCandidateSequences: 1 } })
    await call(1, start)
    const waiting = new AbortController()
    const withdrawn = model.infer(1, { sequenceId: 2, ...start, signal: waiting.signal })
    waiting.abort()
    await withdrawn.catch(() => {})
    model.sequences.drain()
    await settled()
    model.sequences.close()
    expect(model.over).toEqual(
      [1, 2].map((sequenceId) => ({ type: 'evicted', sequenceId, reason: 'ended with its model' })),
    )
  })
})

it('listeners of an engine are told of streams and requests, with the model and its version', async () => {
  const engine = ownEngine()
  const events: SequenceEvent[] = []
  engine.on('sequence', (event) => events.push(event))
  const model = await engine.load('m', {
    path: accumulator(),
    version: 2,
    maxBatchSize: 8,
    checkRows: false,
    sequence: { ...accumulatorSequence, maxSequenceIdleMs: 60_000 },
  })
  const stream = model.sequence()
  await stream.infer({ x: Float32Array.of(1) })
  await stream.end()
  await model.infer({ x: Float32Array.of(1) }, { sequenceId: 77, ...start })
  await engine.close()
  const of = { model: 'm', version: 2 }
  expect(events).toEqual([
    { type: 'ended', ...of, sequenceId: stream.id },
    { type: 'evicted', ...of, sequenceId: 77, reason: 'ended with its model' },
  ])
})
