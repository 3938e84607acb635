// Bundles src/ into dist/, a step of `npm run build:ts`: a file for each entry point and program, with what they share in
// dist/chunks, and a file for each thread, which a thread reads alone. Their names are those of the sources.
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'

const root = fileURLToPath(new URL('..', import.meta.url))
const { bin, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

/** Programs that processes of their own run. */
const programs = [
  'adapters/processes/serving-process.js',
  'cli/opening-child.js',
  'engine/trial-process/try-model.js',
  'run/executors/native/plugin-trial-child.js',
  'run/worker-thread/provider-trial-child.js',
]
const publicFiles = [...Object.values(exports), bin.zerohop]
  .map((entry) => entry.default?.default ?? entry)
  .filter((path) => path.endsWith('.js'))
  .map((path) => path.replace('./dist/', ''))

/** CommonJS, each by itself: what Piscina takes by require(), and what require() gets where there are no ES modules. */
const alone = {
  'run/worker-thread/native-thread.cjs': 'run/worker-thread/native-thread.ts',
  'run/worker-thread/serve.cjs': 'run/worker-thread/serve.ts',
  'run/function-thread/function-server.cjs': 'run/function-thread/function-server.ts',
  'commonjs.cjs': 'commonjs.cts',
}

const sourceOf = (file) => join(root, 'src', file.replace(/js$/, 'ts'))
const shared = {
  cwd: root,
  platform: 'node',
  external: /^[^./]/,
  transform: { target: 'node20.19' },
  treeshake: { moduleSideEffects: 'no-external' },
  logLevel: 'warn',
}
const output = { sourcemap: true, comments: { legal: true, annotation: false, jsdoc: false } }

await build({
  ...shared,
  input: Object.fromEntries([...publicFiles, ...programs].map((file) => [file.replace(/\.js$/, ''), sourceOf(file)])),
  output: { ...output, dir: join(root, 'dist'), chunkFileNames: 'chunks/[name].js' },
})
for (const [file, source] of Object.entries(alone))
  await build({
    ...shared,
    input: join(root, 'src', source),
    output: { ...output, file: join(root, 'dist', file), format: 'cjs', exports: 'named', codeSplitting: false },
  })
