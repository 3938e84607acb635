import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const source = new URL('../../src/', import.meta.url).href

/** What is loaded with a file, by the paths in src/: values that are imported where it begins, and what those import. */
function loadedWith(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found
  found.add(file)
  for (const [, path] of readFileSync(new URL(source + file), 'utf8').matchAll(
    /^(?:import (?!type )|export (?!type ).*from )[^'\n]*'(\.[^']*)'/gm,
  )) {
    loadedWith(new URL(path!, source + file).href.slice(source.length), found)
  }
  return found
}

it('the command line loads no command before one is asked for, and none loads the engine that does without', () => {
  expect([...loadedWith('cli/main.ts')].filter((file) => !file.startsWith('cli/')).sort()).toEqual([
    'base/own-package.ts',
    'base/own-package.ts',
    'errors.ts',
    'errors.ts',
  ])
  expect(loadedWith('cli/main.ts').size).toBeLessThan(20)
  for (const command of ['inspect', 'types', 'trace-summary', 'trace-export'])
    expect(loadedWith(`cli/${command}.ts`)).not.toContain('engine.ts')
  expect(loadedWith('cli/list-devices.ts')).toContain('engine.ts')
})
