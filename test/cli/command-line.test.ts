import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { failureOf } from '../../src/cli/command-line.ts'
import { perfExitCodes } from '../../packages/perf/src/cli/perf-left-out.ts'
import { identity } from '../models/small.ts'
import { root, zerohop } from './run.ts'

describe('zerohop', () => {
  it.each([
    [
      1,
      ['types', 'missing.onnx'],
      /^ERR_MODEL_NOT_FOUND: Model 'missing\.onnx': expected a file at .*missing\.onnx/,
    ],
    [
      1,
      ['inspect', 'missing.onnx'],
      /^ERR_MODEL_NOT_FOUND: Model 'missing\.onnx': expected a file at .*missing\.onnx/,
    ],
    [1, ['types', join(root, 'package.json')], /^ERR_MODEL_LOAD: Model 'package\.json' cannot be loaded/],
    [1, ['inspect', join(root, 'src')], /^ERR_MODEL_LOAD: Model 'src' cannot be loaded .*it is a directory/],
    [
      1,
      ['types', identity('float32', [2]), '--out', 'no/such/folder/out.ts'],
      /^error: ENOENT: .*out\.ts'\. Check the path: a file to read must exist, and so must the folder of a file to write\n$/,
    ],
    [
      2,
      ['types', identity('float32', [2]), '--name', 'a-b'],
      /^error: .*'a-b' is invalid.*Expected the name of an interface/,
    ],
    [
      2,
      ['types', identity('float32', [2]), '--name', 'Float32Array'],
      /^error: .*'Float32Array' is invalid.*uses that name itself/,
    ],
    [2, ['types', join(root, 'src'), '--name', 'Name'], /^error: .*is for one model, and this is a folder/],
    [2, ['types'], /^error: missing required argument 'model'/],
    [2, ['inspect', 'a.onnx', 'b.onnx'], /^error: too many arguments/],
    [2, ['inspect', 'a.onnx', '--timeout', 'long'], /^error: .*Expected a number of seconds/],
    [2, ['tipes'], /^error: unknown command 'tipes' \(Did you mean types\?\)\n$/],
    [2, ['inspect', '--jsno', 'a.onnx'], /^error: unknown option '--jsno' \(Did you mean --json\?\)\n$/],
    [2, ['devices', '--jso'], /\(Did you mean --json\?\)/],
  ])('exits with %d and one line for %j', async (expected, line, message) => {
    const { code, stdout, stderr } = await zerohop(...line)
    expect({ code, stdout }).toEqual({ code: expected, stdout: '' })
    expect(stderr).toMatch(message)
    expect(stderr.trim()).not.toContain('\n')
  })
  it('prints errors as JSON, too, where JSON is asked for', async () => {
    const { code, stdout, stderr } = await zerohop('devices', '--json', '--wrong')
    expect({ code, stderr }).toEqual({ code: 2, stderr: "error: unknown option '--wrong'\n" })
    expect(JSON.parse(stdout)).toEqual({ error: { code: 'ERR_USAGE', message: "unknown option '--wrong'" } })
  })
  it('shows its help for want of a command, and that of each command', async () => {
    const { code, stdout, stderr } = await zerohop()
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain('Exit codes: 0 done;')
    for (const command of ['inspect', 'types', 'devices', 'providers']) {
      expect(stderr).toMatch(new RegExp(`^  ${command} `, 'm'))
      const help = await zerohop(command, '--help')
      expect({ code: help.code, stderr: help.stderr }).toEqual({ code: 0, stderr: '' })
      expect(help.stdout).toContain(`Usage: zerohop ${command} `)
    }
  })
  it.each([
    ['types', identity('float32', [2])],
    ['types', 'missing.onnx'],
    ['inspect', identity('float32', [2])],
    ['--help'],
    ['--version'],
  ])('ends quietly when nobody reads what it prints: %s %s', async (...line) => {
    const child = spawn(process.execPath, [join(root, 'dist/cli/main.js'), ...line], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    child.stdout.destroy()
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
    const missing = line.includes('missing.onnx')
    expect({ code, signal }).toEqual({ code: missing ? 1 : 0, signal: null })
    expect(stderr).toMatch(missing ? /^ERR_MODEL_NOT_FOUND: / : /^$/)
  })
  it('keeps its exit code when nobody reads its errors', async () => {
    const child = spawn(process.execPath, [join(root, 'dist/cli/main.js'), 'types', 'missing.onnx'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    child.stderr.destroy()
    expect(await once(child, 'exit')).toEqual([1, null])
  })
  it.skipIf(process.platform !== 'linux').each(['types', 'inspect'])(
    'tells in one line that there is no room for what %s prints',
    (command) => {
      const full = openSync('/dev/full', 'w')
      const { status, stderr } = spawnSync(
        process.execPath,
        [join(root, 'dist/cli/main.js'), command, identity('float32', [2])],
        { stdio: ['ignore', full, 'pipe'], encoding: 'utf8' },
      )
      closeSync(full)
      expect({ status, stderr }).toEqual({
        status: 1,
        stderr: expect.stringMatching(/^error: ENOSPC: .*\n$/),
      })
    },
  )
  it('has a fault of its own end no command with a code that means something else', () => {
    const fault = new TypeError('nobody has thought of this')
    expect(failureOf(fault)).toEqual({ code: 'ERR_UNEXPECTED', message: fault.stack, exitCode: 1 })
    expect(failureOf(fault, perfExitCodes)).toMatchObject({ exitCode: 99 })
    expect(failureOf('thrown')).toMatchObject({ code: 'ERR_UNEXPECTED', message: 'thrown' })
  })
  it('tells its version', async () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
    expect((await zerohop('--version')).stdout.trim()).toBe(version)
  })
})
