import { expect, it, vi } from 'vitest'
import { resolveConfig } from '../../src/options/model-config.ts'
import { ask } from '../../src/models/row-check/joining-at-load.ts'
import { Joining } from '../../src/schedule/joining.ts'

const tensor = (name: string) => ({ name, type: 'float32', shape: ['N', 4] }) as const
const served = {
  inputs: [tensor('x')],
  outputs: [tensor('y')],
  unservableOutputs: [],
  executionProviders: [],
}

it.each([[{}], [{ maxBatchSize: 8 }]])(
  'what a run has shown of an output counts, whatever a check finds that is still under way (%j)',
  (config) => {
    vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const joining = new Joining('m', resolveConfig('m', { path: 'm.onnx', ...config }), served)
    joining.refuted('y')
    joining.found({ rows: 'independent', largestDifference: 0, reason: 'tried', runs: 1 })
    expect(joining.metadata.joining).toMatchObject({
      rows: 'dependent',
      reason: expect.stringMatching(
        /^output 'y' does not have one entry per row; .*docs\/guide\/detectors.md/,
      ),
    })
    vi.restoreAllMocks()
  },
)

it.each([
  ['kept', { verdict: 'proved', node: null, reason: 'the graph shows it' }],
  ['kept', { verdict: 'unknown', node: "Reshape 'r'", reason: 'a length is not known' }],
  ['asked for again', { verdict: 'unknown', node: null, reason: 'its graph cannot be read: EMFILE' }],
] as const)('what the graph says is %s: %j', async (whether, proof) => {
  const notes = new Map<string, string>()
  const prove = vi.fn(async () => [proof])
  const session = {
    prove,
    note: (about: string) => notes.get(about) ?? '',
    setNote: (about: string, value: string) => void notes.set(about, value),
  }
  for (let load = 0; load < 2; load++) expect(await ask(session, [])).toEqual([proof])
  expect(prove).toHaveBeenCalledTimes(whether === 'kept' ? 1 : 2)
})
