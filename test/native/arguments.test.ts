import { describe, expect, test } from 'vitest'
import { nothingBuilt, runOver, suites } from './binaries.ts'

// In every build, those without assertions included: what is wrong is refused, and nothing is changed by it.
describe.skipIf(nothingBuilt).each(suites)('arguments of %s', (binary) => {
  test('of a wrong type are TypeErrors, numbers that make no sense RangeErrors', () => {
    const both = [['TypeError'], ['RangeError']]
    expect(runOver(binary, 'arguments.mjs')).toEqual({
      calls: {
        acquire: both,
        'acquire 0': 'RangeError',
        'acquire too much': 'RangeError',
        device: both,
        'past the limit': ['TypeError'],
        acquireAsync: both,
        view: both,
        'view 0': 'RangeError',
        'view of nothing': `staging lease ${2 ** 53 - 1} is not held`,
        release: both,
        dropLimit: both,
        claimLimit: both,
        'configure nothing': ['TypeError'],
        slabBytes: both,
        limitBytes: both,
        detach: ['TypeError'],
      },
      unchanged: true,
      released: 'staging lease 1 is not held',
      usedBytes: 0,
    })
  })
})
