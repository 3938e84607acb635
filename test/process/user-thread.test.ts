import { describe, it } from 'vitest'
import { loadBinding } from '../../src/native/addon.ts'
import { endsEachTime, testTimeoutMs, type Expected } from './child.ts'

const endings: [scenario: string, answer: unknown][] = [
  ['terminated while idle', true],
  ['closes its engine and ends', [true, 0]],
  ['ends with its engine open', [true, 0]],
  ['calls process.exit in its thread mid-run', ['running', 4]],
  ['two threads and the main thread', [true, true, true, true]],
  ['terminated, and another one started', [true, true]],
]

const longOperators: [scenario: string, expected: Expected][] = [
  ['terminated during one long operator', { answer: 'terminated' }],
  ['the main thread calls process.exit during one long operator', { code: 3 }],
]

it.skipIf(loadBinding().binding === null).each(longOperators)(
  'an engine of the native executor in such a thread leaves the process whole: %s',
  { timeout: testTimeoutMs },
  (scenario, expected) =>
    endsEachTime('user-thread.mjs', scenario, expected, [], { ZEROHOP_EXECUTOR: 'native' }),
)

describe.each(['binding', 'native'])(
  'an engine in a thread of the application, with the executor %s',
  (executor) => {
    it.each(endings)('leaves the process whole: %s', { timeout: testTimeoutMs }, (scenario, answer) =>
      endsEachTime('user-thread.mjs', scenario, { answer }, [], { ZEROHOP_EXECUTOR: executor }),
    )
  },
)
