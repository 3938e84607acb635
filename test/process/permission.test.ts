import { expect, it } from 'vitest'
import { limitMs, runFixture } from './child.ts'

const permission = process.allowedNodeEnvironmentFlags.has('--permission')
  ? '--permission'
  : '--experimental-permission'
const told = async (...allowed: string[]) =>
  (await runFixture('permission.mjs', '', [permission, '--allow-fs-read=*', ...allowed])).answer

it(
  "under Node's permission model a model is served with what the page on installing says",
  { timeout: limitMs },
  async () => {
    expect(await told('--allow-addons', '--allow-worker')).toBe('answered')
  },
)

it('the option that is missing is named', { timeout: 2 * limitMs }, async () => {
  expect(await told('--allow-addons')).toEqual({
    code: 'ERR_MODEL_LOAD',
    message: expect.stringContaining('Start Node with --allow-worker beside --permission'),
  })
  expect(await told('--allow-worker')).toEqual({
    code: 'ERR_NATIVE_LOAD',
    message: expect.stringContaining('with --permission, add --allow-addons'),
  })
})
