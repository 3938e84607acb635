import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Paths of the files that the package would have. */
function packedFiles(): string[] {
  const report = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  const [{ files }] = JSON.parse(report) as [{ files: { path: string }[] }]
  return files.map(({ path }) => path)
}

it('the package has what it needs to run and to build its addon, nothing that was built here, and nothing that npm would build by itself', () => {
  const files = packedFiles()
  const needed = ['README.md', 'docs/coming-from.md', 'docs/statistics.md', 'docs/onnxruntime-api.md', 'LICENSE', 'dist/index.js', 'dist/index.d.ts', 'dist/image/exports.js', 'docs/kserve.md', 'examples/digits/model.onnx', 'dist/kserve/kserve-exports.js', 'dist/ort/ort-exports.js', 'dist/transformers/transformers-exports.js', 'dist/processes/public.js', 'dist/prometheus/prometheus-exports.js', 'dist/processes/serving-process.js', 'dist/cli/main.js', 'dist/perf/html-report/page/draw-charts.js', 'dist/inspector/inspector.js', 'dist/inspector/page/live-page.js', 'native/binding.gyp', 'native/sources.json', 'native/addon.cc']
  expect(files).toEqual(expect.arrayContaining(needed))
  // So nothing in the root: a binding.gyp there would be an install script to npm and yarn, whatever package.json says.
  const expected = [/^(README\.md|CHANGELOG\.md|SECURITY\.md|LICENSE|package\.json)$/, /^dist\/.+\.(c?js|d\.c?ts|css|html)$/, /^docs\/[\w-]+\.(md|png)$/, /^docs\/api\/.+\.md$/, /^examples\/digits\/(README\.md|model\.onnx)$/, /^native\/(?!build\/|test\/)([\w-]+\/)*[\w-]+\.(cc|h|gyp|json)$/, /^native\/CMakeLists\.txt$/, /^prebuilds\/[\w-]+\/zerohop\.node$/]
  expect(files.filter((path) => !expected.some((pattern) => pattern.test(path)))).toEqual([])
})
