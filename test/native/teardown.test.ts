import { describe, expect, test } from 'vitest'
import { nothingBuilt, runOver, suites } from './binaries.ts'

// Leases and bytes in use, before and after a worker with a lease is gone.
const orders: [order: string, held: [leases: number, usedBytes: number][]][] = [
  [
    'worker exits',
    [
      [1, 4096],
      [0, 0],
    ],
  ],
  [
    'worker releases its lease and exits',
    [
      [1, 4096],
      [0, 0],
    ],
  ],
  [
    'worker is terminated while it loops',
    [
      [1, 4096],
      [0, 0],
    ],
  ],
  [
    'worker throws',
    [
      [1, 4096],
      [0, 0],
    ],
  ],
  ['only a worker had it loaded', [[0, 0]]],
  ['main returns with leases of its own and of a worker', [[2, 8192]]],
  ['main calls process.exit while a worker loops', [[2, 8192]]],
]

describe.skipIf(nothingBuilt).each(suites)('teardown with %s', (binary) => {
  test.each(orders)('the process ends well when: %s', (order, held) => {
    expect(runOver(binary, 'teardown.mjs', [order])).toEqual(held)
  })
})
