import { readdirSync, readFileSync, existsSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const examples = fileURLToPath(new URL('../../examples', import.meta.url))
const names = readdirSync(examples).filter((name) => existsSync(join(examples, name, 'package.json')))

/** The packages that the modules of an example import. */
function imported(name: string): string[] {
  const modules = readdirSync(join(examples, name), { recursive: true, encoding: 'utf8' }).filter((path) => /\.m?js$/.test(path) && !/^(?:node_modules|public|\.next)\b/.test(path))
  const texts = modules.map((path) => readFileSync(join(examples, name, path), 'utf8'))
  const words = texts.flatMap((text) => [...text.matchAll(/(?:\bfrom |^import |\bimport\()'([^'.][^']*)'/gm)].map(([, word]) => word!))
  return [...new Set(words.filter((word) => !isBuiltin(word)).map((word) => /^(?:@[^/]+\/)?[^/]+/.exec(word)![0]))]
}

// Here all of them would be found in this checkout's own node_modules.
it.each(names)('the example %s installs every package that it imports', (name) => {
  const { dependencies } = JSON.parse(readFileSync(join(examples, name, 'package.json'), 'utf8')) as { dependencies: Record<string, string> }
  const packages = imported(name)
  expect(packages).toContain('zerohop')
  expect(Object.keys(dependencies)).toEqual(expect.arrayContaining(packages))
})
