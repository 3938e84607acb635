import fs from 'node:fs/promises'
import { expect, it, onTestFinished } from 'vitest'
import { RepositoryWatch } from '../../src/features/triton-repository/watch.ts'
import { FakeClock } from '../fake-clock.ts'
import { replaceBuiltIn } from '../support/built-in.ts'
import { until } from '../support/until.ts'
import { temporaryFolder } from './temporary.ts'

it('a model folder that may not be listed is told of once and serves on, and no other waits for it', async () => {
  /** The name of the folders that may not be listed: who runs this test might be allowed to list any. */
  let locked: string | null = null
  const refusal = (path: unknown) =>
    Object.assign(new Error(`EACCES: permission denied, scandir '${path}'`), { code: 'EACCES' })
  onTestFinished(
    replaceBuiltIn(
      fs,
      'readdir',
      (readdir) =>
        (async (...args: Parameters<typeof readdir>) => {
          if (locked !== null && String(args[0]).endsWith(`/${locked}`)) throw refusal(args[0])
          return readdir(...args)
        }) as typeof readdir,
    ),
  )
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
