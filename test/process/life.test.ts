import { describe, it } from 'vitest'
import { endsEachTime, testTimeoutMs } from './child.ts'

// Two requests had been handed over: the running one and the one behind it. They are finished in any case.
const drained = [true, true, true, true, 'ERR_CLOSED', 'closed']
const dropped = ['ERR_CLOSED', 'ERR_CLOSED', 'ERR_CLOSED', 'ERR_CLOSED', 'ERR_CLOSED', 'closed']

const closings: [scenario: string, answer: unknown][] = [
  ['close during a run', drained],
  ['close with a limit during a run', dropped],
  ['destroy during a run', dropped],
  ['destroy while close drains', dropped],
  ['close during load', ['ERR_CLOSED', [], 'ERR_CLOSED']],
  ['destroy during load', ['ERR_CLOSED', [], 'ERR_CLOSED']],
  ['close while the worker starts', 'ERR_CLOSED'],
  ['unload during a run', [true, 'closed']],
  ['await using', [true, 'ERR_CLOSED']],
  ['two engines', [true, true, true, true, 'ERR_CLOSED', true]],
  ['many engines one after another', []],
]

describe('an engine that closes', () => {
  it.each(closings)(
    'settles everything and lets the process end: %s',
    { timeout: testTimeoutMs },
    (scenario, answer) => endsEachTime('life.mjs', scenario, { answer }),
  )
})

const idle: [scenario: string, answer: unknown][] = [
  ['an engine that was never used', 0],
  ['an idle open engine', true],
]

const busy: [scenario: string, answer: unknown][] = [
  ['a request in flight and nothing else', true],
  ['a load in flight and nothing else', 'ready'],
  ['a close in flight and nothing else', 'closed'],
  ['an unload after the process is idle', 0],
]

describe('an engine with the native executor', () => {
  it.each([...idle, ['await using', [true, 'ERR_CLOSED']]] as const)(
    'lets the process end: %s',
    { timeout: testTimeoutMs },
    (scenario, answer) => endsEachTime('life.mjs', scenario, { answer }, [], { ZEROHOP_EXECUTOR: 'native' }),
  )
})

describe('an open engine', () => {
  it.each(idle)('does not keep the process alive: %s', { timeout: testTimeoutMs }, (scenario, answer) =>
    endsEachTime('life.mjs', scenario, { answer }),
  )

  it.each(busy)('keeps it alive until that is done: %s', { timeout: testTimeoutMs }, (scenario, answer) =>
    endsEachTime('life.mjs', scenario, { answer }),
  )
})
