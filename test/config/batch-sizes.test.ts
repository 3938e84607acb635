import { describe, expect, it } from 'vitest'
import { checkBatchSizes, resolveConfig } from '../../src/config/resolve-model-config.ts'

describe('a preferred batch size above maxBatchSize', () => {
  const dynamicBatching = { preferredBatchSize: [8, 64] }

  it('is refused with the advice to give maxBatchSize where that is found by the check', () => {
    const config = resolveConfig('m', { path: 'm.onnx', dynamicBatching })
    expect(() => checkBatchSizes('m', config, 32)).toThrow('sizes of at most maxBatchSize (32), received 64 (number). Give maxBatchSize for larger batches')
  })

  it('is refused without it where maxBatchSize was given', () => {
    expect(() => resolveConfig('m', { path: 'm.onnx', maxBatchSize: 32, dynamicBatching })).toThrow(/received 64 \(number\)$/)
  })

  it('is refused without it for a model whose requests are never joined', () => {
    const config = resolveConfig('m', { path: 'm.onnx', dynamicBatching })
    expect(() => checkBatchSizes('m', config, 0)).toThrow(/\(0\), received 64 \(number\)$/)
  })
})
