// Bundles src/ into dist/, a step of `npm run build:ts`: a file for each entry point and program, with what they share in
// dist/chunks, and a file for each kind of thread, which a thread reads alone. Their names are those of the sources.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'

const root = fileURLToPath(new URL('..', import.meta.url))
const { bin, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

const publicFiles = [...Object.values(exports), bin.zerohop]
  .map((entry) => entry.default?.default ?? entry)
  .filter((path) => path.endsWith('.js'))
  .map((path) => path.replace('./dist/', ''))
/** What processes of their own run. */
const programs = [
  'adapters/processes/serving-process.js',
  'cli/opening-child.js',
  'engine/trial-process/try-in-engine.js',
  'run/executors/native/plugin-trial-child.js',
  'run/worker-thread/provider-trial-child.js',
]
/**
 * CommonJS, each by itself but for what it loads later: what Piscina takes by require(), a process that a first load waits for, and
 * what require() gets where there are no ES modules.
 */
const alone = {
  'run/prover-thread.cjs': 'run/prover-thread.ts',
  'run/worker-thread/serve.cjs': 'run/worker-thread/serve.ts',
  'run/function-thread/function-server.cjs': 'run/function-thread/function-server.ts',
  'engine/trial-process/try-model.cjs': 'engine/trial-process/try-model.ts',
  'commonjs.cjs': 'commonjs.cts',
}

/**
 * The engine, in pieces that those who need less of it load alone: the command line, a client of a serving process, images, the
 * tools. A piece has what all of its files need, and what no piece before it has. What serves models is loaded with the first.
 */
const [engine, serving, proofs] = ['index.ts', 'engine/loaded-model.ts', 'run/proof-task.ts']
const pieces = {
  base: [engine, 'cli/main.ts'],
  client: [engine, 'adapters/processes/processes.ts'],
  images: [engine, 'features/image/exports.ts'],
  tools: [engine, 'internals.ts'],
  engine: [engine],
  rows: [serving, 'cli/inspect.ts'],
  proofs: [proofs, 'cli/inspect.ts'],
  queues: [serving, 'internals.ts'],
  serving: [serving],
}

const source = (file) => join(root, 'src', file)
const shared = {
  cwd: root,
  platform: 'node',
  external: /^(?!(?:valibot|lru-cache)$)[^./]/, // of these, little is used
  transform: { target: 'node20.19' },
  treeshake: { moduleSideEffects: 'no-external' },
  logLevel: 'warn',
}
/** Less to parse at each start; what stack traces show keeps its lines and names. */
const output = {
  sourcemap: true,
  comments: { legal: true, annotation: false, jsdoc: false },
  minify: {
    compress: true,
    mangle: { toplevel: false, keepNames: true },
    codegen: { removeWhitespace: false },
  },
}

const reached = new Map()
/** All modules that a file imports, and those that they import; not what is loaded later. */
function reachedFrom(file, modules) {
  if (!reached.has(file)) {
    const ids = new Set([source(file)])
    for (const id of ids)
      for (const imported of modules.getModuleInfo(id)?.importedIds ?? []) ids.add(imported)
    reached.set(file, ids)
  }
  return reached.get(file)
}

const groups = Object.entries(pieces).map(([piece, files], index) => ({
  name: (id, modules) => (files.every((file) => reachedFrom(file, modules).has(id)) ? piece : null),
  debugName: piece,
  priority: 9 - index,
}))

const built = [
  await build({
    ...shared,
    input: Object.fromEntries(
      [...publicFiles, ...programs].map((file) => [
        file.replace(/\.js$/, ''),
        source(file.replace(/js$/, 'ts')),
      ]),
    ),
    output: {
      ...output,
      dir: join(root, 'dist'),
      chunkFileNames: 'chunks/[name].js',
      codeSplitting: { groups },
    },
  }),
]
for (const [file, from] of Object.entries(alone))
  built.push(
    await build({
      ...shared,
      input: source(from),
      output: {
        ...output,
        dir: join(root, 'dist', dirname(file)),
        entryFileNames: basename(file),
        chunkFileNames: '[name].cjs',
        format: 'cjs',
        exports: 'named',
      },
    }),
  )

/** Two of these may have the same chunk. */
const chunks = new Map()
for (const { fileName, code } of built.slice(1).flatMap(({ output }) => output)) {
  if (!fileName.endsWith('.cjs')) continue
  if ((chunks.get(fileName) ?? code) !== code)
    throw new Error(`${fileName} is built twice, each time another one`)
  chunks.set(fileName, code)
}

/** The folders of packages whose code is part of these files. */
const packages = new Set(
  built
    .flatMap(({ output }) => output.flatMap(({ moduleIds = [] }) => moduleIds))
    .flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? []),
)
const licenseOf = (folder) => {
  const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const file = ['LICENSE', 'LICENSE.md'].map((each) => join(folder, each)).find((path) => existsSync(path))
  return `${name} ${version}\n\n${readFileSync(file, 'utf8').trim()}\n`
}
writeFileSync(join(root, 'dist/licenses.txt'), [...packages].sort().map(licenseOf).join('\n---\n\n'))
