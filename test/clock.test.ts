import { expect, it } from 'vitest'
import { nextFreeTurn, nextTurn, stretchMs } from '../src/base/clock.ts'
import { FakeClock } from './fake-clock.ts'

it.each([
  ['in the next turn of the event loop', 'is free', stretchMs, ['free', 'next', 'second']],
  ['one turn later', 'was held up', stretchMs + 0.01, ['next', 'free', 'second']],
])('calls back %s, which %s', async (_when, _loop, heldMs, expected) => {
  const clock = new FakeClock(1000)
  const called: string[] = []
  await new Promise<void>((resolve) => {
    nextFreeTurn(() => called.push('free'), clock)
    nextTurn(() => {
      called.push('next')
      nextTurn(() => {
        called.push('second')
        resolve()
      })
    })
    clock.advanceBy(heldMs)
  })
  expect(called).toEqual(expected)
})
