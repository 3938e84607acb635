import { expect, it, vi } from 'vitest'
import type { Executor } from '../../src/run/executors/executor.ts'
import { openFrom, type SessionSource } from '../../src/run/worker-session.ts'

function opening(isStillMade: boolean, failing: string[] = []) {
  const done: string[] = []
  const executor = {
    open: async (_id: number, model: string) => {
      done.push(`open ${model}`)
      if (failing.includes(model)) throw new Error(`cannot open ${model}`)
      return { inputs: [], outputs: [] }
    },
    close: async () => void done.push('close'),
  }
  const used = vi.fn()
  const source = {
    model: 'made',
    options: {},
    original: { model: 'original', options: {}, isStillMade: () => (done.push('look'), isStillMade), used },
  }
  return {
    done,
    used,
    open: (isWanted = true) =>
      openFrom(executor as unknown as Executor, 1, source as unknown as SessionSource, () => isWanted),
  }
}

it('what is still what was checked once it is open is used', async () => {
  const { done, used, open } = opening(true)
  const [, state] = await open()
  expect([done, state.isOriginal, used.mock.calls.length]).toEqual([['open made', 'look'], false, 0])
})

it('what is not what was checked any more when it is open is closed, and the model is opened as it is', async () => {
  const { done, used, open } = opening(false)
  const [, state] = await open()
  expect([done, state.isOriginal]).toEqual([['open made', 'look', 'close', 'open original'], true])
  expect(used).toHaveBeenCalledExactlyOnceWith('it was changed while it was opened')
})

it('what cannot be opened is not looked at', async () => {
  const { done, used, open } = opening(true, ['made'])
  const [, state] = await open()
  expect([done, state.isOriginal]).toEqual([['open made', 'open original'], true])
  expect(used).toHaveBeenCalledExactlyOnceWith('cannot open made')
})

it('the model is not opened for who does not want it any more', async () => {
  const { done, open } = opening(false)
  await expect(open(false)).rejects.toThrow()
  expect(done).toEqual(['open made', 'look', 'close'])
})
