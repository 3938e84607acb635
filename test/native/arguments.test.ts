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
        release: ['TypeError'],
        dropLimit: both,
        claimLimit: both,
        'configure nothing': ['TypeError'],
        slabBytes: both,
        limitBytes: both,
      },
      unchanged: true,
      usedBytes: 0,
    })
  })
})
