import { expect, it, vi } from 'vitest'
import { resolveConfig } from '../../src/config/resolve-model-config.ts'
import { Joining } from '../../src/row-check/joining.ts'

const tensor = (name: string) => ({ name, type: 'float32', shape: ['N', 4] }) as const
const served = { inputs: [tensor('x')], outputs: [tensor('y')], unservableOutputs: [], executionProviders: [] }

it.each([[{}], [{ maxBatchSize: 8 }]])('what a run has shown of an output counts, whatever a check finds that is still under way (%j)', (config) => {
  vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  const joining = new Joining('m', resolveConfig('m', { path: 'm.onnx', ...config }), served)
  joining.refuted('y')
  joining.found({ rows: 'independent', largestDifference: 0, reason: 'tried', runs: 1 })
  expect(joining.metadata.joining).toMatchObject({ rows: 'dependent', reason: expect.stringMatching(/^output 'y' does not have one entry per row; .*docs\/detectors.md/) })
  vi.restoreAllMocks()
})
