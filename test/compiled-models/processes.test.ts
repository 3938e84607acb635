import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { entriesIn, ownFolder, plainLoad } from './cached.ts'
import { loadElsewhere } from './in-processes.ts'
import { endless, perceptron } from './models.ts'
import { until } from '../support/until.ts'
import { repetitions } from '../support/full.ts'

describe('processes that share a cache', () => {
  it(
    'compile a model once when several processes want it at the same time',
    { timeout: 120_000 },
    async () => {
      const dir = ownFolder()
      const all = await Promise.all(
        Array.from({ length: repetitions(8, 2) }, () => loadElsewhere(dir, perceptron()).loaded),
      )
      const expected = await plainLoad({ path: perceptron() })
      expect(all.map((loaded) => loaded?.y)).toEqual(all.map(() => expected))
      expect(all.reduce((sum, loaded) => sum + loaded!.children, 0)).toBe(1)
      expect(entriesIn(dir).length).toBe(1)
    },
  )

  it('leave none behind in which a model is tried, when they are killed', { timeout: 60_000 }, async () => {
    const { child, loaded } = loadElsewhere(ownFolder(), endless())
    const [{ pid }] = (await once(child, 'message')) as [{ pid: number }]
    child.kill('SIGKILL')
    expect(await loaded).toBe(null)
    const isThere = () =>
      existsSync(`/proc/${pid}`) && !readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') Z ')
    await until(() => !isThere())
    expect(isThere()).toBe(false)
  })
})
