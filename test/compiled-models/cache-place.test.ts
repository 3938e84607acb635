import os from 'node:os'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { userCacheFolder } from '../../src/models/compiled-models/cache-folder.ts'
import { replaceBuiltIn } from '../support/built-in.ts'

describe.runIf(process.platform === 'linux')('of a user whom the system does not know', () => {
  let restore: () => void
  beforeAll(() => {
    // As of a container's user who is but a number, and has no HOME.
    restore = replaceBuiltIn(os, 'homedir', () => () => {
      throw new Error('A system error occurred: uv_os_homedir returned ENOENT')
    })
  })
  afterAll(() => restore())

  it('the folder is what the environment says', () => {
    vi.stubEnv('XDG_CACHE_HOME', '/caches')
    expect(userCacheFolder()).toBe('/caches')
  })

  it('there is none where it says nothing, and why is told', () => {
    vi.stubEnv('XDG_CACHE_HOME', undefined)
    expect(userCacheFolder).toThrow(
      'this user has no home folder: choose another by cache: { dir } or ZEROHOP_CACHE',
    )
  })
})
