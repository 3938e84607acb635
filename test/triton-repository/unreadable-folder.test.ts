// Alone: it mocks modules.
import { expect, it, vi } from 'vitest'
import { RepositoryWatch } from '../../src/features/triton-repository/watch.ts'
import { FakeClock } from '../fake-clock.ts'
import { until } from '../support/until.ts'
import { temporaryFolder } from './temporary.ts'

/** The name of the folders that may not be listed: who runs this test might be allowed to list any. */
let locked: string | null = null

vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof import('node:fs/promises')>()
  const readdir = (path: string): Promise<string[]> => {
    if (locked === null || !path.endsWith(`/${locked}`)) return real.readdir(path)
    return Promise.reject(
      Object.assign(new Error(`EACCES: permission denied, scandir '${path}'`), { code: 'EACCES' }),
    )
  }
  return { ...real, readdir }
})

it('a model folder that may not be listed is told of once and serves on, and no other waits for it', async () => {
  const folder = temporaryFolder({
    'a/1/model.onnx': 'one',
    'b/1/model.onnx': 'one',
    'c/1/model.onnx': 'one',
  })
  const clock = new FakeClock()
  const done: string[] = []
  const watch = new RepositoryWatch(folder, undefined, { pollMs: 10, debounceMs: 20 }, clock, {
    read: async (name) => [{ path: name }],
    load: async () => {},
    unload: async () => {},
    tell: ({ type, model, error }) => void done.push([type, model, error?.code].join(' ').trim()),
  })
  const look = async (): Promise<string[]> => {
    for (let looks = 0; looks < 10; looks++) {
      clock.stall(10)
      await watch.look()
      await watch.done()
    }
    return done.splice(0)
  }
  locked = 'b'
  const starting = watch.start()
  await until(() => clock.timers === 1)
  clock.advanceBy(20) // the files are old enough then
  await starting
  expect((await look()).sort()).toEqual(['failed b ERR_MODEL_LOAD', 'loaded a', 'loaded c']) // each model is looked at by itself
  locked = null
  expect(await look()).toEqual(['loaded b'])
  locked = 'a'
  expect(await look()).toEqual(['failed a ERR_MODEL_LOAD'])
  expect(watch.loaded).toEqual(['a', 'b', 'c'])
  watch.close()
})
