import { describe, expect, it } from 'vitest'
import { Bell } from '../../src/executor/binding/bell.ts'
import { CompletionLoop } from '../../src/executor/binding/completion-loop.ts'
import { until } from '../support/until.ts'

describe('a completion loop', () => {
  it('hears others again after one source has thrown', async () => {
    const bell = new Bell()
    const bad = {
      outstanding: 0,
      drain: (): void => {
        throw new Error('of its own')
      },
    }
    const good = {
      outstanding: 1,
      drain: () => void (bell.count > 0 && (good.outstanding = 0)),
    }
    const loop = new CompletionLoop(bell)
    expect(() => loop.listen(bad)).toThrow('of its own')
    bad.drain = () => {}
    loop.listen(good)
    bell.ring()
    await until(() => good.outstanding === 0)
  })
})
