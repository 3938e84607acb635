// Bundles the script of each page that packages/perf writes, a step of `npm run build:ts`: a page is one file, and loads nothing.
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'

const perf = fileURLToPath(new URL('../packages/perf/', import.meta.url))

for (const page of ['perf/html-report/page/draw-charts', 'inspector-page/page/live-page'])
  await build({
    input: `${perf}src/${page}.ts`,
    platform: 'browser',
    logLevel: 'warn',
    output: {
      file: `${perf}dist/${page}.js`,
      format: 'iife',
      comments: { legal: true, annotation: false, jsdoc: false },
    },
  })
