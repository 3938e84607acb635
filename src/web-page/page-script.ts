import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const { resolve } = createRequire(import.meta.url)

/** What a page needs to draw, to be put into it with its license: a page asks nobody for anything. */
export function plottingLibrary(): { script: string; style: string } {
  const read = (file: string) => readFileSync(resolve(`uplot/${file}`), 'utf8')
  return { script: `/*!\n${read('LICENSE')}*/\n${read('dist/uPlot.iife.min.js')}`, style: read('dist/uPlot.min.css') }
}

/**
 * A compiled module of a page, and those that it imports, as one script: each a function that gives its exports, those it imports before it.
 *
 * @param entry its path in `src/`, without `.ts`.
 */
export function pageScript(entry: string): string {
  const folder = compiledFolder(entry)
  const written = new Map<string, string>()
  const write = (module: string) => {
    if (written.has(module)) return
    const source = readFileSync(join(folder, `${module}.js`), 'utf8')
    for (const [, imported] of source.matchAll(/^import \{[^}]*\} from '(\.[^']+)\.js';$/gm)) write(besides(module, imported!))
    written.set(module, asFunction(module, source))
  }
  write(entry)
  return `(() => {\n'use strict';\nconst modules = {};\n${[...written.values()].join('')}})();`
}

function asFunction(module: string, source: string): string {
  const exports = [...source.matchAll(/^export (?:const|function|class) (\w+)/gm)].map(([, name]) => name!)
  const body = source
    .replaceAll(/^import (\{[^}]*\}) from '(\.[^']+)\.js';$/gm, (_, names: string, imported: string) => `const ${names} = modules['${besides(module, imported)}'];`)
    .replaceAll(/^export (?:\{\};$)?/gm, '')
    .replaceAll(/^\s*\/\/.*\n|^\s*\/\*\*[^]*?\*\/\n/gm, '')
  return `modules['${module}'] = (() => {\n${body}return { ${exports.join(', ')} };\n})();\n`
}

function besides(module: string, imported: string): string {
  return posix.join(posix.dirname(module), imported)
}

/** Also when this file runs from its TypeScript source. */
function compiledFolder(entry: string): string {
  const here = dirname(fileURLToPath(import.meta.url))
  const folder = [join(here, '..'), join(here, '../../dist')].find((place) => existsSync(join(place, `${entry}.js`)))
  if (folder === undefined) throw new Error(`zerohop's ${entry}.js is not where it was installed`)
  return folder
}
