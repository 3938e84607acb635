import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { TrialSkipped } from '../trial.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Builds a file from C or C++ sources of this checkout, unless it has been built of what they are now.
 *
 * @param name the file's name; it has a folder of its own.
 * @returns the path of that folder.
 * @throws TrialSkipped where there is no compiler.
 */
export function built(name: string, sources: readonly string[], options: readonly string[]): string {
  const folder = join(root, '.cache/gpu', hashOf(sources, options))
  const file = join(folder, name)
  if (existsSync(file)) return folder
  mkdirSync(folder, { recursive: true })
  const unfinished = `${file}.${process.pid}.tmp`
  const compiler = sources.some((source) => source.endsWith('.cc')) ? ['c++', '-std=c++17'] : ['cc']
  const args = [
    ...compiler.slice(1),
    '-O2',
    '-Inative',
    ...options,
    '-o',
    unfinished,
    ...sources,
    '-pthread',
    '-ldl',
  ]
  const { status, error } = spawnSync(compiler[0]!, args, {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  if (error !== undefined)
    throw new TrialSkipped(
      ` (skipped: it takes a C++ compiler, and ${compiler[0]} could not be started: ${error.message})`,
    )
  if (status !== 0) throw new Error(`${compiler[0]} ${args.join(' ')} ended with code ${status}`)
  renameSync(unfinished, file)
  return folder
}

/** Of all that may be part of it: the sources, and every header. */
function hashOf(sources: readonly string[], options: readonly string[]): string {
  const headers = readdirSync(join(root, 'native'), { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.h') && !path.startsWith('build'),
  )
  const hash = createHash('sha256').update(JSON.stringify([sources, options, headers]))
  for (const path of [...sources, ...headers.map((header) => join('native', header))])
    hash.update(readFileSync(join(root, path)))
  return hash.digest('hex').slice(0, 16)
}
