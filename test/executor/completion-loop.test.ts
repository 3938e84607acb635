import { describe, expect, it } from 'vitest'
import { Bell } from '../../src/run/executors/binding/control-block.ts'
import { CompletionLoop, type CompletionSource } from '../../src/run/executors/binding/binding-executor.ts'
import { until } from '../support/until.ts'

/** Has a batch that is finished when the bell has rung; drained once more than it says, it has others hear of it too. */
class Source implements CompletionSource {
  outstanding = 1
  readonly #bell: Bell
  readonly #onDrain: () => void

  constructor(bell: Bell, onDrain = () => {}) {
    this.#bell = bell
    this.#onDrain = onDrain
  }

  drainCompletions(): void {
    if (this.#bell.count > 0) this.outstanding = 0
    this.#onDrain()
  }
}

const fails = () => {
  throw new Error('of its own')
}

describe('a completion loop', () => {
  it('hears others although one source throws, without another batch being dispatched', async () => {
    const bell = new Bell()
    const loop = new CompletionLoop(bell)
    const good = new Source(bell)
    let failing = true
    const bad = new Source(bell, () => {
      if (!failing) return
      failing = false
      loop.listen(good) // a batch that the same look dispatches elsewhere
      fails()
    })
    expect(() => loop.listen(bad)).toThrow('of its own')
    bell.ring()
    await until(() => good.outstanding === 0 && bad.outstanding === 0)
  })

  it('looks only at those with something outstanding', async () => {
    const bell = new Bell()
    const loop = new CompletionLoop(bell)
    let looks = 0
    const idle = new Source(bell, () => void looks++)
    idle.outstanding = 0
    loop.listen(idle)
    const busy = new Source(bell)
    loop.listen(busy)
    bell.ring()
    await until(() => busy.outstanding === 0)
    expect(looks).toBe(1)
  })
})
