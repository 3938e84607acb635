import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { cachedLoad, entriesIn, ownFolder, plainLoad } from './cached.ts'
import { loadElsewhere } from './in-processes.ts'
import { endless, perceptron } from './models.ts'
import { until } from '../support/until.ts'
import { repetitions } from '../support/full.ts'

const kills = repetitions(20, 2)

describe('processes that share a cache', () => {
  it(
    'compile a model once when several processes want it at the same time',
    { timeout: 120_000 },
    async () => {
      const dir = ownFolder()
      const all = await Promise.all(
        Array.from({ length: repetitions(8, 3) }, () => loadElsewhere(dir, perceptron()).loaded),
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

  it(
    `go on after one of them was killed while it compiled, at ${kills} random times`,
    { timeout: 300_000 },
    async () => {
      const dir = ownFolder()
      const expected = await plainLoad({ path: perceptron() })
      const startMs = performance.now()
      expect((await loadElsewhere(dir, perceptron(1000)).loaded)?.compiled).toBe(true)
      const tookMs = performance.now() - startMs
      for (let count = 0; count < kills; count++) {
        const { child, loaded } = loadElsewhere(dir, perceptron())
        await sleep(tookMs * Math.random())
        child.kill('SIGKILL')
        await loaded
      }
      const { y, origin } = await cachedLoad(dir, { path: perceptron() })
      expect([y, origin.compiled]).toEqual([expected, true])
      // Of what the others have left nothing is there once a model was compiled again.
      await cachedLoad(dir, { path: perceptron(1001) })
      const left = (room: string) => readdirSync(join(dir, 'compiled-models-v1', room))
      expect([left('unfinished'), left('locks')]).toEqual([[], []])
    },
  )
})
