import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

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
  expect(loadedWith('src/cli/list-devices.ts')).toContain('src/engine.ts')
})

it('the command line loads its parser only where it has a command of its own to run', () => {
  for (const file of loadedWith('src/cli/main.ts'))
    expect(readFileSync(new URL(root + file), 'utf8')).not.toMatch(/^import (?!type )[^\n]*'commander'/m)
})
