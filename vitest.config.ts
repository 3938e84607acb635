import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const source = (file: string) => fileURLToPath(new URL(`src/${file}`, import.meta.url))
/** What packages import by name is tested from its source, as all else is: there must be one of each class. */
const sources: Readonly<Record<string, string>> = {
  zerohop: source('index.ts'),
  'zerohop/internals': source('internals.ts'),
}

export default defineConfig({
  plugins: [
    {
      name: 'zerohop-from-source',
      enforce: 'pre',
      resolveId: (id, importer) => (importer?.includes('/packages/') ? sources[id] : undefined),
    },
  ],
  test: {
    include: ['test/**/*.test.ts', 'packages/*/test/**/*.test.ts'],
    pool: 'forks',
    maxWorkers: 2,
    // Tests that call onnxruntime-node themselves would have it look up a host outside this machine.
    // What they load is nobody's: it is neither kept on this machine nor tried aside, but where a test is about that.
    env: { ORT_DISABLE_TELEMETRY: '1', ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' },
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
})
