import type { SampleRun } from '../executor.ts'
import type { MailedValue } from '../../../tensor/values.ts'
import type { OpenFunction } from './open-function.ts'
import { mailedInputs } from './read-inputs.ts'
import { writeOutputs } from './write-outputs.ts'

/**
 * Calls a function once with a sample; rejects with what it throws.
 *
 * @returns what it gave, and the buffers of its outputs, to be moved.
 */
export async function callOnSample(
  open: OpenFunction,
  feeds: readonly (MailedValue | null)[],
  wantsOutputs: boolean,
): Promise<{ run: SampleRun; transfer: ArrayBuffer[] }> {
  const inputs = mailedInputs(open, feeds)
  const context = open.contextOf(inputs)
  const startMs = performance.now()
  const given = await open.call(inputs, context)
  const runMs = performance.now() - startMs
  const { rows, failed } = context
  const [failure] = context.failures ?? []
  if (failure !== undefined) throw new Error(failure[1])
  const sent = writeOutputs(
    open.outputs,
    { outputs: open.outputs.map(() => null) },
    new ArrayBuffer(0),
    given,
    { rows, failed, batched: open.batched },
  )!
  return {
    run: { error: null, runMs, outputs: wantsOutputs ? (sent.outputs as MailedValue[]) : [] },
    transfer: wantsOutputs ? sent.transfer : [],
  }
}
