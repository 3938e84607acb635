import { expect, it, vi } from 'vitest'
import { warnOfConvolutionLeak } from '../../src/run/devices.ts'

it('is warned of once, on arm64 before ONNX Runtime 1.27', () => {
  const emit = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  for (const [version, arch] of [
    ['1.26.1', 'x64'],
    ['1.27.0', 'arm64'],
    ['1.30.0', 'arm64'],
    ['2.0.0', 'arm64'],
  ] as const)
    warnOfConvolutionLeak(version, arch)
  expect(emit).not.toHaveBeenCalled()
  warnOfConvolutionLeak('1.26.1', 'arm64')
  warnOfConvolutionLeak('1.25.0', 'arm64')
  expect(emit.mock.calls).toEqual([
    [
      expect.stringContaining('ONNX Runtime 1.26.1 leaks memory'),
      { type: 'ZerohopWarning', code: 'ZEROHOP_ARM64_LEAK' },
    ],
  ])
  emit.mockRestore()
})
