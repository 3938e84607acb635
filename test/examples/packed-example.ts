import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { npmPack } from '../../scripts/package/npm-pack.mjs'
import { SaidLines } from '../../scripts/package/said-lines.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))

/**
 * A copy of an example outside the checkout, with zerohop from the tarball that `npm pack` makes, and all else that is installed here.
 *
 * @returns its folder.
 */
export function packedExample(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `zerohop-${name}-`))
  cpSync(join(root, 'examples', name), folder, {
    recursive: true,
    filter: (path) => !path.includes('node_modules'),
  })
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, 'zerohop'), { recursive: true })
  const { filename } = npmPack(root, '--pack-destination', folder)
  execFileSync('tar', [
    '-xzf',
    join(folder, filename),
    '-C',
    join(modules, 'zerohop'),
    '--strip-components=1',
  ])
  rmSync(join(folder, filename))
  for (const each of readdirSync(join(root, 'node_modules')).filter(
    (other) => !other.startsWith('.') && other !== 'zerohop',
  ))
    symlinkSync(join(root, 'node_modules', each), join(modules, each))
  return folder
}

/** A program that runs, and what it says. */
export interface RunningExample {
  readonly child: ChildProcess
  /** The first line that it says which this is in. */
  said(pattern: RegExp): Promise<RegExpExecArray>
  /** How it ended, and all that it said. */
  ended(): Promise<{ readonly code: number | null; readonly text: string }>
}

/**
 * Starts a module of an example.
 *
 * @param environment beside this process's.
 * @param within a command that becomes the one behind it, as `ip netns exec` does.
 */
export function startExample(
  folder: string,
  module: string,
  environment: Readonly<Record<string, string>>,
  options: { readonly args?: readonly string[]; readonly within?: readonly string[] } = {},
): RunningExample {
  const { args = [], within = [] } = options
  // Beside its own modules a linked package finds its dependencies here.
  const [command, ...rest] = [...within, process.execPath, '--preserve-symlinks', module, ...args]
  const child = spawn(command!, rest, {
    cwd: folder,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines = new SaidLines(child)
  return {
    child,
    said: (pattern) => lines.said(pattern),
    ended: async () => ({ code: (await lines.ended()).code, text: lines.text }),
  }
}
