// Alone: it measures the memory of its process.
import { expect, it } from 'vitest'
import { InferenceEngine } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { matchesPlain } from '../support/against-plain.ts'
import { load, ownEngine } from '../support/open.ts'
import { noise } from '../support/samples.ts'

// In a file, and so a process, of its own: native staging memory is shared by all engines of a process.

const native = new InferenceEngine().capabilities().native.available
const missing = native ? '' : ' (skipped: no addon, npm run build:native makes one)'

it.skipIf(!native)(
  `slots past staging.limitBytes lie in lesser memory, said once, and carry the same${missing}`,
  async () => {
    const warnings: string[] = []
    const onWarning = (warning: Error & { code?: string }): void =>
      void warnings.push(`${warning.code}: ${warning.message}`)
    process.on('warning', onWarning)
    const engine = ownEngine({ executor: 'native', staging: { kind: 'native', limitBytes: 2 ** 20 } })
    const model = await load(engine, small.identityVariable('float32'))
    for (const length of [10, 300_000, 10, 600_000]) {
      await matchesPlain(
        model,
        [1, 1].map(() => ({ x: noise([1, length]) })),
      )
    }
    const { kind, fallbacks } = engine.stats().staging!
    expect(kind).toBe('native')
    expect(fallbacks).toBeGreaterThan(1)
    expect(warnings).toEqual([
      expect.stringMatching(/^ZEROHOP_STAGING_FALLBACK: .*raise staging\.limitBytes$/),
    ])
    process.off('warning', onWarning)
  },
)
