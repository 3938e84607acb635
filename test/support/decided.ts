import { expect, onTestFinished, vi } from 'vitest'
import type { Model } from '../../src/index.ts'
import { WorkerSession } from '../../src/run/worker-session.ts'
import { deferred } from './deferred.ts'

/** Waits until it is known whether a model's rows are independent: what its load leaves open is found out beside serving. */
export async function decided(model: Model): Promise<Model['metadata']['joining']> {
  return vi.waitFor(
    () => {
      const { joining } = model.metadata
      expect(joining.rows).not.toBe('unknown')
      return joining
    },
    { timeout: 20_000, interval: 5 },
  )
}

/**
 * Holds what a load leaves open of the check of rows, for models that are loaded from now on, until the returned function is
 * called.
 */
export function holdChecks(): () => void {
  const gate = deferred<void>()
  const { runSample } = WorkerSession.prototype
  const nowMs = performance.now.bind(performance)
  let spentMs = 0
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs() + spentMs)
  vi.spyOn(WorkerSession.prototype, 'runSample').mockImplementation(async function (
    this: WorkerSession,
    feeds,
    wantsOutputs,
  ) {
    if (wantsOutputs === true && spentMs > 0) await gate.promise
    else if (wantsOutputs === true) spentMs = 1000 // which is more than a load waits for
    return runSample.call(this, feeds, wantsOutputs)
  })
  onTestFinished(() => {
    gate.resolve()
    vi.restoreAllMocks()
  })
  return gate.resolve
}
