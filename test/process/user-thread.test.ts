import { describe, it } from 'vitest'
import { endsEachTime, testTimeoutMs } from './child.ts'

const endings: [scenario: string, answer: unknown][] = [
  ['terminated while idle', true],
  ['closes its engine and ends', [true, 0]],
  ['ends with its engine open', [true, 0]],
  ['calls process.exit in its thread mid-run', ['running', 4]],
  ['two threads and the main thread', [true, true, true, true]],
  ['terminated, and another one started', [true, true]],
]

describe.each(['binding', 'native'])('an engine in a thread of the application, with the executor %s', (executor) => {
  it.each(endings)('leaves the process whole: %s', { timeout: testTimeoutMs }, (scenario, answer) =>
    endsEachTime('user-thread.mjs', scenario, { answer }, [], { ZEROHOP_EXECUTOR: executor }),
  )
})
