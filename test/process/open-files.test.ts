import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { limitMs } from './child.ts'
import { models } from './models.ts'

/** What a program says that may have 256 files open. */
function said(program: string): unknown {
  const fixture = fileURLToPath(new URL(`fixtures/${program}`, import.meta.url))
  const env = { ...process.env, ZEROHOP_TEST_MODELS: JSON.stringify(models()) }
  const { stdout, stderr } = spawnSync(
    'sh',
    ['-c', 'ulimit -n 256 && exec "$0" "$@"', process.execPath, fixture],
    { env, encoding: 'utf8' },
  )
  expect(stdout, stderr).not.toBe('')
  return JSON.parse(stdout)
}

it.skipIf(process.platform === 'win32')(
  'a model that cannot be looked at for want of file descriptors is not said to be missing',
  { timeout: limitMs },
  () => {
    expect(said('open-files.mjs')).toEqual({
      code: 'ERR_MODEL_LOAD',
      message: expect.stringMatching(
        /^Model 'small' cannot be loaded from \/.*: no more files can be opened \(EMFILE\)\..*ulimit -n/,
      ),
      cause: 'EMFILE',
      right: true,
    })
  },
)

it.skipIf(process.platform === 'win32' || openNativeOrt().binding === null)(
  'an execution provider that cannot be tried for want of file descriptors is tried again later, and the application lives',
  { timeout: limitMs },
  () => {
    expect(said('probe-without-files.mjs')).toEqual({
      before: expect.stringMatching(/could not be started: .*EMFILE/),
      changed: true,
      right: true,
    })
  },
)

it.skipIf(process.platform === 'win32')(
  'a model that cannot be tried in a separate process for want of file descriptors is opened without, and the application lives',
  { timeout: limitMs },
  () => {
    expect(said('trial-without-files.mjs')).toEqual({
      warning: 'ZEROHOP_VERIFY_FALLBACK',
      reason: expect.stringContaining('EMFILE'),
      right: true,
    })
  },
)
