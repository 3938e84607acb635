import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const source = (file: string) => fileURLToPath(new URL(`src/${file}`, import.meta.url))
/** What packages import by name is tested from its source, as all else is: there must be one of each class. */
const sources: Readonly<Record<string, string>> = {
  zerohop: source('index.ts'),
  'zerohop/internals': source('internals.ts'),
}

const files = ['test', 'packages/perf/test'].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => `${folder}/${file.replaceAll('\\', '/')}`),
)
/** Files among whose first lines is one with this word and a reason. */
const marked = (word: 'Alone' | 'Alone in test:full' | 'Full') =>
  files.filter((file) => new RegExp(`^(//.*\n)*// ${word}: `).test(readFileSync(file, 'utf8')))
/** They mock modules, or measure or change the process they run in. */
const alwaysAlone = marked('Alone')
const aloneInFull = marked('Alone in test:full')
/** They take long: `npm run test:full` runs them, `npm test` does not. */
const long = marked('Full')

export default defineConfig(({ mode }) => {
  const run = mode === 'full' ? files : files.filter((file) => !long.includes(file))
  const alone = mode === 'full' ? [...alwaysAlone, ...aloneInFull] : alwaysAlone
  // Each project has it for itself: what it extends is read again without the mode.
  const env = {
    // Tests that call onnxruntime-node themselves would have it look up a host outside this machine.
    ORT_DISABLE_TELEMETRY: '1',
    // Models of tests are neither kept on this machine nor tried in another process, except where a test is about that.
    ZEROHOP_CACHE: 'off',
    ZEROHOP_VERIFY: 'none',
    // Each program that a test starts would read them first, for 60 ms; a test that installs packages has them back.
    NODE_EXTRA_CA_CERTS: '',
    ZEROHOP_TEST_CA_CERTS: process.env['NODE_EXTRA_CA_CERTS'] ?? '',
    ZEROHOP_TESTS: mode === 'full' ? 'full' : '',
  }
  return {
    plugins: [
      {
        name: 'zerohop-from-source',
        enforce: 'pre',
        resolveId: (id, importer) => (importer?.includes('/packages/') ? sources[id] : undefined),
      },
    ],
    test: {
      pool: 'forks',
      maxWorkers: 2,
      testTimeout: 60_000,
      hookTimeout: 120_000,
      projects: [
        // Two processes for all files: importing the engine anew for each takes longer than most of them.
        {
          extends: true,
          test: {
            name: 'shared',
            env,
            include: run.filter((file) => !alone.includes(file)),
            isolate: false,
            setupFiles: ['test/support/leave-nothing.ts'],
          },
        },
        { extends: true, test: { name: 'alone', env, include: run.filter((file) => alone.includes(file)) } },
      ],
    },
  }
})
