import { describe, expect, it } from 'vitest'
import { growingTimeAxis } from '../../src/web-page/charts/axes.ts'

describe('a time axis that grows', () => {
  let shown: number[] = []
  const { scale } = growingTimeAxis(120, () => shown)
  const range = () => (scale.range as () => [number, number])()

  it.each([
    [1, 12],
    [12, 12],
    [13, 24],
    [40, 60],
    [61, 120],
    [119, 120],
    [300, 120],
  ])('shows %d seconds in %d', (lasted, length) => {
    shown = [1000, 1000 + lasted]
    expect(range()).toEqual([1000 + lasted - length, 1000 + lasted])
  })

  it('begins with its shortest length', () => {
    shown = []
    expect(range()).toEqual([-12, 0])
  })
})
