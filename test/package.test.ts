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
    'dist/licenses.txt',
    'dist/run/prover-thread.cjs',
    'dist/run/worker-thread/serve.cjs',
    'dist/run/function-thread/function-server.cjs',
    'native/CMakeLists.txt',
    'native/package.json',
    'native/sources.json',
    'native/addon.cc',
  ]
  expect(files).toEqual(expect.arrayContaining(needed))
  // Nothing else in the root: a binding.gyp there would be an install script to yarn, whatever package.json says.
  const expected = [
    /^(README\.md|CHANGELOG\.md|CONTRIBUTING\.md|SECURITY\.md|LICENSE|package\.json)$/,
    /^dist\/.+\.(c?js(\.map)?|d\.c?ts)$/,
    /^dist\/(adapters\/inspector\/page\.json|licenses\.txt)$/,
    /^docs\/([\w-]+\/)*[\w-]+\.(md|png)$/,
    /^docs\/api\/.+\.md$/,
    /^examples\/digits\/(README\.md|(finder|model)\.onnx)$/,
    /^native\/(?!build\/|test\/)([\w-]+\/)*[\w-]+\.(cc|h|json)$/,
    /^native\/CMakeLists\.txt$/,
    /^prebuilds\/[\w-]+\/zerohop\.node$/,
  ]
  expect(files.filter((path) => !expected.some((pattern) => pattern.test(path)))).toEqual([])
})

it('the package is bundled: a file for each entry point, with source maps, and all that they share in a few chunks', () => {
  const bundled = files.filter((path) => /^dist\/.+js$/.test(path))
  const chunks = bundled.filter((path) => path.startsWith('dist/chunks/'))
  expect(bundled.length - chunks.length).toBeLessThanOrEqual(23)
  expect(chunks.length).toBeLessThanOrEqual(37)
  const withCode = bundled.filter((path) => files.includes(`${path}.map`)) // the others only export again
  expect(withCode.length).toBeGreaterThan(30)
  for (const path of withCode) {
    const { sources, sourcesContent } = JSON.parse(readFileSync(`${root}${path}.map`, 'utf8')) as {
      sources: string[]
      sourcesContent: string[]
    }
    expect(sourcesContent.length, path).toBe(sources.length)
    const own = sources.filter((source) => !source.includes('node_modules'))
    expect(own.filter((source) => !existsSync(posix.join(root, posix.dirname(path), source)))).toEqual([])
  }
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
