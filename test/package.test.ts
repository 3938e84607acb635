import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { npmPack } from '../scripts/package/npm-pack.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))

const files = npmPack(root, '--dry-run').files.map(({ path }) => path)

it('the package has what it needs to run and to build its addon, nothing that was built here, and nothing that npm would build by itself', () => {
  const needed = [
    'README.md',
    'docs/coming-from/triton.md',
    'docs/reference/statistics.md',
    'docs/coming-from/onnxruntime-node.md',
    'LICENSE',
    'dist/index.js',
    'dist/index.d.ts',
    'dist/features/image/exports.js',
    'docs/guide/kserve.md',
    'examples/digits/model.onnx',
    'dist/adapters/kserve/kserve.js',
    'dist/adapters/ort/ort-exports.js',
    'dist/adapters/transformers/transformers-exports.js',
    'dist/adapters/processes/processes.js',
    'dist/adapters/prometheus/prometheus-metrics.js',
    'dist/adapters/processes/serving-process.js',
    'dist/cli/main.js',
    'dist/adapters/inspector/inspector.js',
    'dist/adapters/inspector/page.json',
    'dist/internals.js',
    'native/binding.gyp',
    'native/sources.json',
    'native/addon.cc',
  ]
  expect(files).toEqual(expect.arrayContaining(needed))
  // So nothing in the root: a binding.gyp there would be an install script to npm and yarn, whatever package.json says.
  const expected = [
    /^(README\.md|CHANGELOG\.md|CONTRIBUTING\.md|SECURITY\.md|LICENSE|package\.json)$/,
    /^dist\/.+\.(c?js|d\.c?ts|css|html)$/,
    /^dist\/adapters\/inspector\/page\.json$/,
    /^docs\/([\w-]+\/)*[\w-]+\.(md|png)$/,
    /^docs\/api\/.+\.md$/,
    /^examples\/digits\/(README\.md|(finder|model)\.onnx)$/,
    /^native\/(?!build\/|test\/)([\w-]+\/)*[\w-]+\.(cc|h|gyp|json)$/,
    /^native\/CMakeLists\.txt$/,
    /^prebuilds\/[\w-]+\/zerohop\.node$/,
  ]
  expect(files.filter((path) => !expected.some((pattern) => pattern.test(path)))).toEqual([])
})

it('the package has no module whose source is gone (npm run build:ts)', () => {
  const sources = files
    .filter((path) => /^dist\/.+js$/.test(path))
    .map((path) => path.replace(/^dist\/(.+)js$/, 'src/$1ts'))
  expect(sources).toEqual(expect.arrayContaining(['src/index.ts', 'src/run/worker-thread/entry.cts']))
  expect(sources.filter((path) => !existsSync(root + path))).toEqual([])
})

it('what can neither require() an ES module nor bundle one gets what says so, Jest for one', () => {
  const { exports } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as {
    exports: Record<string, string | Record<string, unknown>>
  }
  const entries = Object.values(exports).filter((entry) => typeof entry !== 'string')
  expect(entries.length).toBeGreaterThan(8)
  for (const entry of entries) {
    expect(Object.keys(entry)).toEqual(['module-sync', 'module', 'require', 'default']) // the first that is known is taken
    expect(entry).toMatchObject({
      'module-sync': entry['default'],
      module: entry['default'],
      require: { types: './dist/commonjs.d.cts', default: './dist/commonjs.cjs' },
    })
  }
  expect(() => createRequire(import.meta.url)('../dist/commonjs.cjs')).toThrow(
    /use `const \{ InferenceEngine \} = await import\('zerohop'\)`.* In Jest set NODE_OPTIONS=--experimental-vm-modules/,
  )
  expect(typeof createRequire(import.meta.url)('zerohop').InferenceEngine).toBe('function')
})

it('links in the pages of the package lead to what is in it', () => {
  const pages = files.filter((path) => path.endsWith('.md') && !path.startsWith('docs/api/'))
  const links = pages.flatMap((page) =>
    [...readFileSync(root + page, 'utf8').matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path]) =>
      posix.join(posix.dirname(page), path!),
    ),
  )
  expect(links).toContain('CONTRIBUTING.md')
  expect(links.filter((path) => !files.includes(path))).toEqual([])
})

it('@zerohop/perf has the version of this package, asks for that, and has what it needs', () => {
  const manifest = (folder: string) =>
    JSON.parse(readFileSync(`${root}${folder}package.json`, 'utf8')) as Record<string, unknown>
  const { version } = manifest('')
  expect(manifest('packages/perf/')).toMatchObject({ version, peerDependencies: { zerohop: version } })
  const packed = npmPack(`${root}packages/perf`, '--dry-run').files.map(({ path }) => path)
  const needed = [
    'README.md',
    'LICENSE',
    'dist/cli/main.js',
    'dist/perf/html-report/page/draw-charts.js',
    'dist/perf/load/metronome-thread.js',
    'dist/tune/measuring-child.js',
  ]
  expect(packed).toEqual(expect.arrayContaining(needed))
  expect(packed.filter((path) => !/^(README\.md|LICENSE|package\.json|dist\/.+\.js)$/.test(path))).toEqual([])
})
