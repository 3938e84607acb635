import { readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { ownFile, requireFromPackage } from '../own-files.ts'

/** What a page needs to draw, to be put into it with its license: a page asks nobody for anything. */
export function plottingLibrary(): { script: string; style: string } {
  const read = (file: string) => readFileSync(requireFromPackage.resolve(`uplot/${file}`), 'utf8')
  return {
    script: `/*!\n${read('LICENSE')}*/\n${read('dist/uPlot.iife.min.js')}`,
    style: read('dist/uPlot.min.css'),
  }
}

/**
 * A compiled module of a page, and those that it imports, as one script: each a function that gives its exports, those it imports before it.
 *
 * @param entry its path in `src/`, without `.ts`.
 */
export function pageScript(entry: string): string {
  const written = new Map<string, string>()
  const write = (module: string) => {
    if (written.has(module)) return
    const source = readFileSync(ownFile(`${module}.js`), 'utf8')
    for (const [, imported] of source.matchAll(/^import \{[^}]*\} from '(\.[^']+)\.js';$/gm))
      write(besides(module, imported!))
    written.set(module, asFunction(module, source))
  }
  write(entry)
  return `(() => {\n'use strict';\nconst modules = {};\n${[...written.values()].join('')}})();`
}

function asFunction(module: string, source: string): string {
  const exports = [...source.matchAll(/^export (?:const|function|class) (\w+)/gm)].map(([, name]) => name!)
  const body = source
    .replaceAll(
      /^import (\{[^}]*\}) from '(\.[^']+)\.js';$/gm,
      (_, names: string, imported: string) => `const ${names} = modules['${besides(module, imported)}'];`,
    )
    .replaceAll(/^export (?:\{\};$)?/gm, '')
    .replaceAll(/^\s*\/\/.*\n|^\s*\/\*\*[^]*?\*\/\n/gm, '')
  return `modules['${module}'] = (() => {\n${body}return { ${exports.join(', ')} };\n})();\n`
}

function besides(module: string, imported: string): string {
  return posix.join(posix.dirname(module), imported)
}
