import { readdirSync, readFileSync, existsSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const examples = fileURLToPath(new URL('../../examples', import.meta.url))
const names = readdirSync(examples).filter((name) => existsSync(join(examples, name, 'package.json')))

/** The modules of an example. What was installed and built in its folder is not looked into: a link there leads back to the checkout, and round and round. */
function modulesOf(name: string): string[] {
  const entries = readdirSync(join(examples, name), { withFileTypes: true }).filter(
    (entry) => !['node_modules', 'public', '.next'].includes(entry.name),
  )
  const paths = entries.flatMap((entry) =>
    entry.isDirectory()
      ? readdirSync(join(examples, name, entry.name), { recursive: true, encoding: 'utf8' }).map((path) =>
          join(entry.name, path),
        )
      : [entry.name],
  )
  return paths.filter((path) => /\.m?js$/.test(path))
}

/** The packages that the modules of an example import. */
function imported(name: string): string[] {
  const modules = modulesOf(name)
  const texts = modules.map((path) => readFileSync(join(examples, name, path), 'utf8'))
  const words = texts.flatMap((text) =>
    [...text.matchAll(/(?:\bfrom |^import |\bimport\()'([^'.][^']*)'/gm)].map(([, word]) => word!),
  )
  return [
    ...new Set(words.filter((word) => !isBuiltin(word)).map((word) => /^(?:@[^/]+\/)?[^/]+/.exec(word)![0])),
  ]
}

// Here all of them would be found in this checkout's own node_modules.
it.each(names)('the example %s installs every package that it imports', (name) => {
  const { dependencies } = JSON.parse(readFileSync(join(examples, name, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>
  }
  const packages = imported(name)
  expect(packages).toContain('zerohop')
  expect(Object.keys(dependencies)).toEqual(expect.arrayContaining(packages))
})
