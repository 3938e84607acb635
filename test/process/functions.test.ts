import { describe, it } from 'vitest'
import { endsEachTime, testTimeoutMs, type Expected } from './child.ts'

const endings: [scenario: string, expected: Expected][] = [
  ['process.exit while a function loops', { code: 3 }],
  ['an uncaught exception while a function loops', { code: 1, stderr: /Error: uncaught on purpose/ }],
  ['an idle engine with a function', { code: 0, answer: 42 }],
  ['close', { code: 0, answer: 42 }],
  ['an engine in a thread of the user that is terminated', { code: 0, answer: 'terminated' }],
]

describe('a process with a function', () => {
  it.each(endings)(
    'ends as it was told to, and no thread holds it: %s',
    { timeout: testTimeoutMs },
    (scenario, expected) => endsEachTime('function.mjs', scenario, expected),
  )
})
