import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { limitMs } from './child.ts'
import { models } from './models.ts'

const fixture = fileURLToPath(new URL('fixtures/open-files.mjs', import.meta.url))

it.skipIf(process.platform === 'win32')('a model that cannot be looked at for want of file descriptors is not said to be missing', { timeout: limitMs }, () => {
  const env = { ...process.env, ZEROHOP_TEST_MODELS: JSON.stringify(models()) }
  const { stdout, stderr } = spawnSync('sh', ['-c', 'ulimit -n 256 && exec "$0" "$@"', process.execPath, fixture], { env, encoding: 'utf8' })
  expect(stdout, stderr).not.toBe('')
  expect(JSON.parse(stdout)).toEqual({
    code: 'ERR_MODEL_LOAD',
    message: expect.stringMatching(/^Model 'small' cannot be loaded from \/.*: no more files can be open \(EMFILE\)\..*ulimit -n/),
    cause: 'EMFILE',
    right: true,
  })
})
