import { describe, expect, it } from 'vitest'
import { checkBatchSizes, resolveConfig } from '../../src/options/model-config.ts'

describe('a preferred batch size above maxBatchSize', () => {
  const dynamicBatching = { preferredBatchSize: [8, 64] }

  it('is refused with the advice to give maxBatchSize where that is found by the check', () => {
    const config = resolveConfig('m', { path: 'm.onnx', dynamicBatching })
    expect(() => checkBatchSizes('m', config, 32)).toThrow(
      'sizes of at most maxBatchSize (32), received 64 (number). Give maxBatchSize for larger batches',
    )
  })

  it('is refused without it where maxBatchSize was given', () => {
    expect(() => resolveConfig('m', { path: 'm.onnx', maxBatchSize: 32, dynamicBatching })).toThrow(
      /received 64 \(number\)$/,
    )
  })
})

describe('sizes and delays of batches', () => {
  const dynamicBatching = { preferredBatchSize: [8, 64], maxQueueDelayMs: 5 }

  it('do no harm to a model that turns out to have no batches', () => {
    expect(() =>
      checkBatchSizes('m', resolveConfig('m', { path: 'm.onnx', dynamicBatching }), 0),
    ).not.toThrow()
  })

  it('are refused beside a maxBatchSize of 0', () => {
    expect(() => resolveConfig('m', { path: 'm.onnx', maxBatchSize: 0, dynamicBatching })).toThrow(
      /\(0\), received 64 \(number\)$/,
    )
    expect(() =>
      resolveConfig('m', { path: 'm.onnx', maxBatchSize: 0, dynamicBatching: { maxQueueDelayMs: 5 } }),
    ).toThrow(/expected 0 where maxBatchSize is 0, received 5/)
  })

  it.each([Infinity, -1, 2 ** 31])('say what a delay may be where it is %d', (maxQueueDelayMs) => {
    expect(() => resolveConfig('m', { path: 'm.onnx', dynamicBatching: { maxQueueDelayMs } })).toThrow(
      /^dynamicBatching.maxQueueDelayMs of model 'm': expected milliseconds, at least 0 and less than 2\^31, received/,
    )
  })
})
