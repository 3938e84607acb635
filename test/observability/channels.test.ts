import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { BatchMessage, RequestMessage } from '../../src/index.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { load, ownEngine } from '../support/open.ts'

const row = () => ({ x: new Float32Array(4) })

function heard<T>(name: string): T[] {
  const messages: T[] = []
  const listener = (message: unknown) => void messages.push(message as T)
  subscribe(name, listener)
  onTestFinished(() => void unsubscribe(name, listener))
  return messages
}

describe('the channels of requests and batches', () => {
  it('tell of each request and of its batch, which know each other by number', async () => {
    const model = await load(ownEngine(), small.identity('float32'), {
      maxBatchSize: 4,
      dynamicBatching: { holdUntilQueued: 2 },
    })
    const [requests, batches] = [
      heard<RequestMessage>('zerohop:request'),
      heard<BatchMessage>('zerohop:batch'),
    ]
    await Promise.all([model.infer(row(), { requestId: 'one' }), model.infer(row())])
    expect(requests.map(({ type, requestId, model: name }) => [type, requestId, name])).toEqual([
      ['begun', 'one', model.name], ['begun', undefined, model.name], ['ended', 'one', model.name], ['ended', undefined, model.name],
    ]) // prettier-ignore
    expect(batches.map(({ type, rows, model: name }) => [type, rows, name])).toEqual([
      ['began', 2, model.name],
      ['ended', 2, model.name],
    ])
    const ended = requests.slice(2)
    expect(ended.every(({ succeeded, batchIds }) => succeeded && batchIds![0] === batches[1]!.id)).toBe(true)
    expect(ended.map(({ id }) => id)).toEqual(requests.slice(0, 2).map(({ id }) => id))
    expect(batches[1]!.moments!.inferEndMs).toBeGreaterThanOrEqual(batches[1]!.moments!.inferStartMs)
  })

  it('tell why a request failed', async () => {
    const model = await load(ownEngine(), small.gatherRow(), { warmup: false })
    const requests = heard<RequestMessage>('zerohop:request')
    const error = await rejectionOf(() => model.infer({ index: new BigInt64Array([99n]) }))
    expect(requests.at(-1)).toMatchObject({ type: 'ended', succeeded: false, error })
  })

  it('tell nothing of a call that is refused as it is no request, which the statistics count; of one that was withdrawn before, they do', async () => {
    const model = await load(ownEngine(), small.identity('float32'))
    const requests = heard<RequestMessage>('zerohop:request')
    await rejectionOf(() => model.infer({ x: new Float32Array(3) }))
    expect(requests).toEqual([])
    await rejectionOf(() => model.infer(row(), { signal: AbortSignal.abort() }))
    expect(requests.map(({ type, succeeded }) => [type, succeeded])).toEqual([
      ['begun', undefined],
      ['ended', false],
    ])
    expect(model.stats().refusals).toMatchObject({ invalid: 1, cancelled: 1 })
  })

  it('tell those who listen from now on alone', async () => {
    const model = await load(ownEngine(), small.identity('float32'))
    const listener = () => expect.fail('told of')
    subscribe('zerohop:request', listener)
    unsubscribe('zerohop:request', listener)
    await model.infer(row())
    const requests = heard<RequestMessage>('zerohop:request')
    await model.infer(row())
    expect(requests.map(({ type }) => type)).toEqual(['begun', 'ended'])
  })
})
