import { expect, it } from 'vitest'
import { limitMs, runFixture } from './child.ts'

it(
  'an idle engine with loaded models has no timers and uses less than 0.5 % of a core',
  { timeout: limitMs + 10_000 },
  async () => {
    const { code, signal, answer, stderr } = await runFixture('idle.mjs', 'idle')
    expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' })
    const [answers, timers, medianShare] = answer as [boolean[], string[], number]
    expect(answers).toEqual([true, true, true, true, true, true])
    expect(timers).toEqual([])
    expect(medianShare).toBeLessThan(0.005)
  },
)
