import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { libraryVersion } from '../../src/base/own-package.ts'
import { toolCommands } from '../../src/cli/hand-over.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'
import { root, zerohop, type Ended } from './run.ts'

/** A project with this package, linked to or installed, and a package of tools that says by which arguments it was called. */
function project(toolsVersion: string | null, isInstalled = false): string {
  const folder = temporaryFolder({})
  const packages = join(folder, 'node_modules')
  mkdirSync(packages)
  if (isInstalled) {
    mkdirSync(join(packages, 'zerohop'))
    for (const name of ['package.json', 'dist'])
      symlinkSync(join(root, name), join(packages, 'zerohop', name))
  }
  if (toolsVersion !== null) {
    const tools = join(packages, '@zerohop/perf')
    mkdirSync(join(tools, 'dist/cli'), { recursive: true })
    writeFileSync(
      join(tools, 'package.json'),
      JSON.stringify({ name: '@zerohop/perf', version: toolsVersion, type: 'module' }),
    )
    writeFileSync(
      join(tools, 'dist/cli/main.js'),
      "console.log('tools of the project:', ...process.argv.slice(2)); process.exitCode = 7",
    )
  }
  return folder
}

/** Calls `zerohop` in a project: the one that is installed there, or that of this checkout. */
function call(cwd: string, line: readonly string[], isInstalled = false): Promise<Ended> {
  const main = isInstalled
    ? ['--preserve-symlinks', '--preserve-symlinks-main', join(cwd, 'node_modules/zerohop/dist/cli/main.js')]
    : [join(root, 'dist/cli/main.js')]
  return new Promise((resolve) =>
    execFile(process.execPath, [...main, ...line], { cwd }, (error, stdout, stderr) =>
      resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
    ),
  )
}

describe('commands of the tools', () => {
  it.each(Object.keys(toolCommands))(
    '%s is handed over with its arguments and its exit code',
    async (command) => {
      const { code, stdout, stderr } = await call(project(libraryVersion), [command, 'model.onnx', '--json'])
      expect({ code, stdout, stderr }).toEqual({
        code: 7,
        stdout: `tools of the project: ${command} model.onnx --json\n`,
        stderr: '',
      })
    },
  )

  it('are found beside this package where the working folder has none, or another version', async () => {
    for (const version of [null, '0.0.1']) {
      const { code, stdout } = await call(project(version), ['tune', '--help'])
      expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('Usage: zerohop tune ') })
    }
  })

  it('that are not installed say in one line how to install them', async () => {
    const wanted = `@zerohop/perf@${libraryVersion}`
    for (const [command, exitCode] of [
      ['tune', 1],
      ['perf', 99],
    ] as const) {
      const { code, stdout, stderr } = await call(project(null, true), [command, 'model.onnx'], true)
      expect({ code, stdout, stderr }).toEqual({
        code: exitCode,
        stdout: '',
        stderr: `ERR_MODULE_NOT_FOUND: zerohop ${command} needs the package ${wanted}: install it (npm install ${wanted}), or run npx -p zerohop@${libraryVersion} -p ${wanted} zerohop ${command}\n`,
      })
    }
    const { stdout } = await call(project(null, true), ['simulate', '--json'], true)
    expect(JSON.parse(stdout)).toEqual({
      error: { code: 'ERR_MODULE_NOT_FOUND', message: expect.stringContaining(wanted) },
    })
  })

  it('of another version say which one was found, and which one is needed', async () => {
    const { code, stderr } = await call(project('0.0.1', true), ['trace-summary', 'file.json'], true)
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(
        /^ERR_MODULE_NOT_FOUND: zerohop trace-summary needs the package @zerohop\/perf@\S+, and found version 0\.0\.1: install it/,
      ),
    })
  })

  it('are in the help of zerohop, with the words that each says of itself', async () => {
    const { stderr } = await zerohop()
    const shown = stderr.replaceAll(/\s+/g, ' ')
    for (const [command, description] of Object.entries(toolCommands)) {
      expect(shown).toContain(` ${command} ${description}`)
      const { stdout } = await zerohop('help', command)
      expect(stdout.replaceAll(/\s+/g, ' ')).toContain(` ${description} `)
    }
  })

  it('are misspelt like any other', async () => {
    expect((await zerohop('tun')).stderr).toBe("error: unknown command 'tun' (Did you mean tune?)\n")
  })
})
