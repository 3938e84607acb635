import { expect, it } from 'vitest'
import { divide } from '../../src/models/scaling/scaling.ts'

const group = (count: number, minInstances = count, maxInstances = count) => ({
  count,
  minInstances,
  maxInstances,
})

it.each([
  ['one group', [group(1)], 4, [4]],
  ['more in the first that may have more', [group(1), group(1, 1, 3), group(1)], 4, [1, 2, 1]],
  ['more in the last where none may', [group(1), group(1)], 4, [1, 3]],
  ['fewer in the last that may have fewer', [group(2, 1, 3), group(3, 2, 3)], 4, [2, 2]],
  ['fewer in the first that has any where none may', [group(1), group(1)], 1, [0, 1]],
  ['as many as there are', [group(2), group(1)], 3, [2, 1]],
])('%s', (_, groups, total, counts) => {
  expect(divide(groups, total)).toEqual(counts)
})
