import { describe, expect, it } from 'vitest'
import { mediansOf, ofTheLink, type CopyRate } from '../../bench/gpu/copy-rates.ts'
import { eachWrong, optionNamedBy, providerWasLoaded } from '../../bench/gpu/cuda-question.ts'
import { largestDifference } from '../../bench/gpu/largest-difference.ts'

describe('rates of copies', () => {
  const rate = (
    memory: CopyRate['memory'],
    toDevice: number,
    fromDevice: number,
    right = true,
  ): CopyRate => ({ memory, bytes: 1024, toDevice, fromDevice, right })

  it('are medians over the runs, memory by memory, and right where every run was', () => {
    const runs = [
      [rate('link', 50, 52), rate('pageable', 9, 8)],
      [rate('link', 54, 40), rate('pageable', 12, 6, false)],
      [rate('link', 53, 53), rate('pageable', 10, 7)],
    ]
    expect(mediansOf(runs)).toEqual([rate('link', 53, 52), rate('pageable', 10, 7, false)])
  })

  it('are set against what the link can do, each direction for itself', () => {
    const [link, slot] = ofTheLink([rate('link', 50, 40), rate('page-locked', 48, 30)])
    expect(link).toMatchObject({ toDeviceOfLink: 1, fromDeviceOfLink: 1 })
    expect(slot).toMatchObject({ memory: 'page-locked', toDeviceOfLink: 0.96, fromDeviceOfLink: 0.75 })
  })

  it('mean nothing without the link', () => {
    expect(() => ofTheLink([rate('pageable', 1, 1)])).toThrow('the rate of the link was not measured')
  })
})

describe('options of the CUDA provider', () => {
  it('are wrong one at a time', () => {
    expect(eachWrong({ device_id: 0, gpu_mem_limit: 5 })).toEqual({
      device_id: { device_id: 'wrong', gpu_mem_limit: 5 },
      gpu_mem_limit: { device_id: 0, gpu_mem_limit: 'wrong' },
    })
  })

  it('are named by the error of the provider that refuses them', () => {
    expect(
      optionNamedBy(
        '[ONNXRuntimeError] : 1 : FAIL : Failed to parse provider option "gpu_mem_limit": Failed to parse value: "wrong"',
      ),
    ).toBe('gpu_mem_limit')
    expect(optionNamedBy('CUDA failure 35: CUDA driver version is insufficient; gpu=0')).toBeNull()
  })

  it('did not reach a provider whose library is not there', () => {
    expect(
      providerWasLoaded(
        'Failed to load library libonnxruntime_providers_shared.so with error: cannot open shared object file',
      ),
    ).toBe(false)
    expect(
      providerWasLoaded(
        'cuda: its library, which onnxruntime-node downloads apart, is not installed. List it',
      ),
    ).toBe(false)
    expect(
      providerWasLoaded('Failed to parse provider option "device_id": Failed to parse value: "wrong"'),
    ).toBe(true)
    expect(providerWasLoaded(null)).toBe(true)
  })
})

describe('the difference of answers', () => {
  it('is the largest one, to the largest number that is expected', () => {
    expect(largestDifference([1, -3.5, 0], [1, -4, 0.25])).toBe(0.125)
    expect(largestDifference([2, 2], [2, 2])).toBe(0)
  })

  it('has no bound where numbers are missing or are none', () => {
    expect(largestDifference([1], [1, 2])).toBe(Infinity)
    expect(largestDifference([NaN, 1], [1, 1])).toBe(Infinity)
  })
})
