import { expect, vi } from 'vitest'
import type { Model } from '../../src/index.ts'

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
