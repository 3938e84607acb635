import type { FinishedBatch } from '../instance/finished-batch.ts'

/** Notes outputs of a finished batch that turned out to be of another size than their layout said, by index. */
export function noteSurprises(
  { slot, mailed }: FinishedBatch,
  unpredictable: Set<number>,
  instances: readonly { forgetLayouts(): void }[],
): void {
  const surprises = mailed?.flatMap((tensor, index) => (tensor && slot.layout!.outputs[index] ? [index] : [])) ?? []
  if (surprises.length === 0) return
  for (const index of surprises) unpredictable.add(index)
  for (const instance of instances) instance.forgetLayouts()
}

/** Tells the user that a model that was taken for batchable is not. */
export function warnNotBatchable(model: string, output: string): void {
  process.emitWarning(
    `Output '${output}' of model '${model}' does not have one entry per row, so its requests are run one by one from now on. ` +
      'Load it with maxBatchSize: 0.',
    { type: 'ZerohopWarning', code: 'ZEROHOP_NOT_BATCHABLE' },
  )
}
