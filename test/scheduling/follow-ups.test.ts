import { expect, it } from 'vitest'
import { FollowUps } from '../../src/schedule/instance-set.ts'

const clockAt = (time: { ms: number }) => ({ nowMs: () => time.ms, setTimer: () => 0, clearTimer: () => {} })

const turn = () => new Promise<void>((resolve) => void setImmediate(resolve))

/** What is sent once nothing more comes, beside what else happens in a turn of the event loop. */
function watched(time = { ms: 0 }) {
  const followUps = new FollowUps(clockAt(time))
  const order: string[] = []
  return { followUps, order, ask: (name: string) => followUps.whenComplete(() => order.push(name)) }
}

it('what the event loop brings is sent at the end of its turn', async () => {
  const { order, ask } = watched()
  ask('asked')
  process.nextTick(() => order.push('another callback of the turn'))
  await turn()
  expect(order).toEqual(['another callback of the turn', 'asked'])
})

it('what follows from an answer is sent when all promises have run, before the event loop goes on', async () => {
  const { followUps, order, ask } = watched()
  setImmediate(() => order.push('the event loop'))
  followUps.answered(0)
  await Promise.resolve().then(() => {})
  ask('follows')
  void Promise.resolve().then(() => order.push('a promise'))
  await turn()
  expect(order).toEqual(['a promise', 'follows', 'the event loop'])
})

it('a chain of calls and answers is one, until it has held up the event loop for a quarter of a millisecond', async () => {
  const time = { ms: 0 }
  const { followUps, order } = watched(time)
  const chain = (calls: number): void => {
    if (calls === 0) return
    followUps.whenComplete(() => {
      order.push(`call at ${time.ms}`)
      time.ms += 0.125
      followUps.answered(time.ms)
      void Promise.resolve().then(() => chain(calls - 1))
    })
  }
  followUps.answered(0)
  chain(4)
  setImmediate(() => order.push('the event loop'))
  await turn()
  await turn()
  expect(order).toEqual(['call at 0', 'call at 0.125', 'the event loop', 'call at 0.25', 'call at 0.375'])
})

it("what comes once the promises after an answer have run is the event loop's again", async () => {
  const { followUps, order, ask } = watched()
  followUps.answered(0)
  await turn()
  ask('asked')
  process.nextTick(() => order.push('another callback of the turn'))
  await turn()
  expect(order).toEqual(['another callback of the turn', 'asked'])
})

it('what follows and is not answered at once does not hold the stretch open', async () => {
  const { followUps, order, ask } = watched()
  followUps.answered(0)
  ask('follows')
  await turn()
  ask('asked')
  process.nextTick(() => order.push('another callback of the turn'))
  await turn()
  expect(order).toEqual(['follows', 'another callback of the turn', 'asked'])
})
