import { spawn } from 'node:child_process'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { named } from '../../scripts/package/named.mjs'
import { SaidLines } from '../../scripts/package/said-lines.mjs'
import { usersEnvironment } from '../../scripts/package/users-environment.mjs'

const bin = fileURLToPath(new URL('../../node_modules/.bin', import.meta.url))

it('a user has nothing in the environment that has this checkout taken for the package', () => {
  const ours = {
    npm_config_registry: 'a',
    ONNXRUNTIME_NODE_INSTALL: 'skip',
    ZEROHOP_NATIVE: 'build/zerohop.node',
    ZEROHOP_EXECUTOR: 'native',
    NODE_PATH: bin,
  }
  expect(
    usersEnvironment({
      ...ours,
      HOME: '/home/me',
      PATH: [bin, join('/home', 'node_modules/.bin'), '/usr/bin'].join(delimiter),
    }),
  ).toEqual({ HOME: '/home/me', PATH: [join('/home', 'node_modules/.bin'), '/usr/bin'].join(delimiter) })
})

describe('what a command line names', () => {
  it('is what is checked, all or less where it names nothing', () => {
    expect(named(['a', 'b', 'c'], ['--quick', 'c', 'a'])).toEqual(['c', 'a'])
    expect(named(['a', 'b', 'c'], [])).toEqual(['a', 'b', 'c'])
    expect(named(['a', 'b', 'c'], ['--quick'], ['b'])).toEqual(['b'])
  })

  it('has to be known: what is misspelt would have all checked', () => {
    expect(() => named(['npm 11', 'npm 12'], ['npm 13'])).toThrow(
      'expected some of npm 11, npm 12, received npm 13',
    )
  })
})

describe('of what a program says', () => {
  function says(code: string): SaidLines {
    return new SaidLines(spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'pipe'] }))
  }

  it('a line is found that is its last word', async () => {
    expect(
      await says("process.stderr.write('a\\nb\\nready at 7'); process.exitCode = 3").said(/ready at (\d)/),
    ).toMatchObject({ 1: '7' })
  })

  it('its end is told where it did not say so, with what it said', async () => {
    await expect(says("console.log('nothing')").said(/ready/)).rejects.toThrow(
      'it has ended before it said /ready/:\nnothing',
    )
  })

  it('all lines are waited for, and none is listened to more than once', async () => {
    const warnings: Error[] = []
    const warned = (warning: Error) => warnings.push(warning)
    process.on('warning', warned)
    onTestFinished(() => void process.off('warning', warned))
    const lines = says(
      "let n = 0; const timer = setInterval(() => { console.log('line', ++n); if (n === 30) clearInterval(timer) }, 1)",
    )
    expect(await lines.said(/line 30/)).toMatchObject({ 0: 'line 30' })
    expect(await lines.ended()).toMatchObject({ code: 0, signal: null })
    expect(warnings).toEqual([])
  })
})
