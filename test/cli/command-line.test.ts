import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, openSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { perfExitCodes } from '../../packages/perf/src/cli/perf-left-out.ts'
import { libraryVersion } from '../../src/base/own-package.ts'
import { failureOf } from '../../src/cli/command-line.ts'
import { toolCommands } from '../../src/cli/hand-over.ts'
import { identity } from '../models/small.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'
import { type Ended, root, zerohop } from './run.ts'
import { full } from '../support/full.ts'

describe('command line', () => {
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
      [
        1,
        ['inspect', join(root, 'src')],
        /^ERR_MODEL_LOAD: Model 'src' cannot be loaded .*it is a directory/,
      ],
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
      expect(JSON.parse(stdout)).toEqual({
        error: { code: 'ERR_USAGE', message: "unknown option '--wrong'" },
      })
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
})

const [reference, ...pages] = [
  'reference/command-line',
  'guide/perf',
  'guide/capacity-planning',
  'guide/execution-providers',
  'guide/simulation',
]
  .map((page) => `docs/${page}.md`)
  .map((file) => readFileSync(join(root, file), 'utf8'))
const linesOf = (text: string) => [...text.matchAll(/^npx zerohop (.+)$/gm)].map(([, line]) => line!)
const lines = linesOf(reference!)
const others = pages.flatMap(linesOf).filter((line) => !lines.includes(line))

describe('the page of the command line, and those of single commands', () => {
  it('shows every command', () => {
    expect([...new Set(lines.map((line) => line.split(' ', 1)[0]))].sort()).toEqual([
      'compile',
      'devices',
      'inspect',
      'perf',
      'providers',
      'simulate',
      'trace-export',
      'trace-summary',
      'tune',
      'types',
    ])
  })

  it.runIf(full).each([...lines, ...others])('is right that one can call zerohop %s', async (line) => {
    const cwd = temporaryFolder({})
    symlinkSync(join(root, 'examples'), join(cwd, 'examples'))
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      [join(root, 'dist/cli/main.js'), ...line.split(' ')],
      { cwd },
    )
    const [, out] = /--out (\S+)/.exec(line) ?? []
    expect(out === undefined ? stdout : readFileSync(join(cwd, out), 'utf8')).not.toBe('')
    const progress = /^\S+: loading and compiling \(1 of 1\)\n/
    expect(line.startsWith('compile ') ? stderr.replace(progress, '') : stderr).toBe('')
  })
})

describe('imports', () => {
  const root = new URL('../../', import.meta.url).href
  /** What packages import by name. */
  const entries: Readonly<Record<string, string>> = {
    zerohop: 'src/index.ts',
    'zerohop/internals': 'src/internals.ts',
  }

  /** What is loaded with a file of this repository, by their paths: values that are imported where it begins, and what those import. */
  function loadedWith(file: string, found = new Set<string>()): Set<string> {
    if (found.has(file)) return found
    found.add(file)
    for (const [, path] of readFileSync(new URL(root + file), 'utf8').matchAll(
      /^(?:import (?!type )|export (?!type ))[^'`;]*?from '(\.[^']*|zerohop[^']*)'/gm,
    )) {
      loadedWith(entries[path!] ?? new URL(path!, root + file).href.slice(root.length), found)
    }
    return found
  }

  it('the command line loads no command before one is asked for, and none loads the engine that does without', () => {
    const withMain = loadedWith('src/cli/main.ts')
    expect([...withMain].filter((file) => !file.startsWith('src/cli/')).sort()).toEqual([
      'src/base/own-package.ts',
      'src/errors.ts',
    ])
    expect(withMain.size).toBeLessThan(20)
    for (const command of ['inspect', 'types'])
      expect(loadedWith(`src/cli/${command}.ts`)).not.toContain('src/engine.ts')
    for (const command of ['main', 'traces'])
      expect(loadedWith(`packages/perf/src/cli/${command}.ts`)).not.toContain('src/engine.ts')
    expect(loadedWith('packages/perf/src/cli/traces.ts')).toContain('src/internals.ts')
    expect(loadedWith('src/cli/device-report.ts')).toContain('src/engine.ts')
  })

  it('the command line loads its parser only where it has a command of its own to run', () => {
    for (const file of loadedWith('src/cli/main.ts'))
      expect(readFileSync(new URL(root + file), 'utf8')).not.toMatch(/^import (?!type )[^\n]*'commander'/m)
  })
})

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

/** How Node.js is called for the `zerohop` that is installed in a project. */
const installed = (project: string) => [
  '--preserve-symlinks',
  '--preserve-symlinks-main',
  join(project, 'node_modules/zerohop/dist/cli/main.js'),
]

/** Calls `zerohop` in a project: the one that is installed there, or that of this checkout. */
function call(cwd: string, line: readonly string[], isInstalled = false): Promise<Ended> {
  const main = isInstalled ? installed(cwd) : [join(root, 'dist/cli/main.js')]
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

  it('that are not installed have their own exit code even if standard error is closed', async () => {
    const cwd = project(null, true)
    const child = spawn(process.execPath, [...installed(cwd), 'perf'], {
      cwd,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    child.stderr.destroy()
    expect(await once(child, 'close')).toEqual([99, null])
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
