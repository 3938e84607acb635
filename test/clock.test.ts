import { expect, it } from 'vitest'
import { freeTurns, nextTurn, stretchMs } from '../src/base/clock.ts'
import { FakeClock } from './fake-clock.ts'

it.each([
  ['in the next turn of the event loop', 'is free', stretchMs, ['free', 'next', 'second']],
  ['one turn later', 'was held up', stretchMs + 0.01, ['next', 'free', 'second']],
])('calls back %s, which %s', async (_when, _loop, heldMs, expected) => {
  const clock = new FakeClock(1000)
  const called: string[] = []
  await new Promise<void>((resolve) => {
    freeTurns(clock)(() => called.push('free'))
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

it('waits for no second turn where one late turn follows another', async () => {
  const clock = new FakeClock(1000)
  const nextFreeTurn = freeTurns(clock)
  const turns: number[] = []
  for (const heldMs of [1, 1, 1, 0, 1]) {
    const free = new Promise<void>((resolve) => nextFreeTurn(resolve)).then(() => 'free')
    clock.advanceBy(heldMs)
    let turn = 0
    for (let isFree = false; !isFree; turn++)
      isFree = (await Promise.race([free, new Promise((resolve) => nextTurn(resolve))])) === 'free'
    turns.push(turn)
  }
  expect(turns).toEqual([2, 1, 1, 1, 2])
})
