import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const { resolve } = createRequire(import.meta.url)

/** What a page needs to draw, to be put into it with its license: a page asks nobody for anything. */
export function plottingLibrary(): { script: string; style: string } {
  const read = (file: string) => readFileSync(resolve(`uplot/${file}`), 'utf8')
  return { script: `/*!\n${read('LICENSE')}*/\n${read('dist/uPlot.iife.min.js')}`, style: read('dist/uPlot.min.css') }
}

/** The compiled modules of the page as one script: each a function that gives its exports, those it imports before it. */
export function pageScript(): string {
  const folder = compiledFolder()
  const written = new Map<string, string>()
  const write = (module: string) => {
    if (written.has(module)) return
    const source = readFileSync(join(folder, `${module}.js`), 'utf8')
    for (const [, imported] of source.matchAll(/^import .* from '\.\/([\w-]+)\.js';$/gm)) write(imported!)
    written.set(module, asFunction(module, source))
  }
  write('draw-charts')
  return `(() => {\n'use strict';\nconst modules = {};\n${[...written.values()].join('')}})();`
}

function asFunction(module: string, source: string): string {
  const exports = [...source.matchAll(/^export (?:const|function) (\w+)/gm)].map(([, name]) => name!)
  const body = source
    .replaceAll(/^import (\{[^}]*\}) from '\.\/([\w-]+)\.js';$/gm, "const $1 = modules['$2'];")
    .replaceAll(/^export (?:\{\};$)?/gm, '')
    .replaceAll(/^\s*\/\/.*\n|^\s*\/\*\*[^]*?\*\/\n/gm, '')
  return `modules['${module}'] = (() => {\n${body}return { ${exports.join(', ')} };\n})();\n`
}

/** Also when this file runs from its TypeScript source. */
function compiledFolder(): string {
  const here = dirname(fileURLToPath(import.meta.url))
  const folder = [join(here, 'page'), join(here, '../../../dist/perf/html-report/page')].find((place) => existsSync(join(place, 'draw-charts.js')))
  if (folder === undefined) throw new Error("zerohop's perf/html-report/page/draw-charts.js is not where it was installed")
  return folder
}
