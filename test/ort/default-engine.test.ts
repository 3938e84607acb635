import { expect, it } from 'vitest'
import { endsEachTime, testTimeoutMs } from '../process/child.ts'

it(
  'a process that has run a session, and neither released it nor closed anything, ends when nothing runs',
  { timeout: testTimeoutMs },
  async () => {
    await endsEachTime('ort.mjs', 'run', { answer: { y: [1, 2, 3, 4], models: 1 } })
  },
)

it('a module may be imported without an engine being made', { timeout: testTimeoutMs }, async () => {
  await endsEachTime('ort.mjs', 'import', { answer: { threads: 0 } })
})

it('is left to be imported by CommonJS as well', async () => {
  expect((await import('node:module')).createRequire(import.meta.url)('zerohop/ort')).toHaveProperty(
    'InferenceSession',
  )
})
