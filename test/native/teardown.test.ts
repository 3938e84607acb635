import { describe, expect, test } from 'vitest'
import { nothingBuilt, runOver, suites } from './binaries.ts'

// Bytes in use before and after the last hold on the memory goes.
const orders: [order: string, usedBytes: number[]][] = [
  ['worker exits, then the lease is released', [4096, 0]],
  ['lease is released, then the worker exits', [4096, 0]],
  ['worker is terminated while it loops', [4096, 0]],
  ['worker throws', [4096, 0]],
  ['only a worker had it loaded', [4096, 0]],
  ['main returns with views in main and workers', [4096]],
  ['main calls process.exit while a worker loops', [4096]],
]

describe.skipIf(nothingBuilt).each(suites)('teardown with %s', (binary) => {
  test.each(orders)('the process ends well when: %s', (order, usedBytes) => {
    expect(runOver(binary, 'teardown.mjs', [order])).toEqual(usedBytes)
  })
})
