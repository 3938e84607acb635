import { describe, it } from 'vitest'
import { loadBinding } from '../../src/native/addon.ts'
import { endsEachTime, testTimeoutMs, type Expected } from './child.ts'

// A thread that is ended inside ONNX Runtime takes the whole process along, by SIGABRT.
const endings: [scenario: string, expected: Expected][] = [
  ['process.exit', { code: 3 }],
  ['process.exit with more batches handed over', { code: 3 }],
  ['process.exit with two workers', { code: 3 }],
  ['uncaught exception', { code: 1, stderr: /Error: uncaught on purpose\n +at .*exit\.mjs/ }],
  ['unhandled rejection', { code: 1, stderr: /Error: unhandled on purpose\n +at .*exit\.mjs/ }],
  ['SIGTERM with a handler that closes', { code: 0, answer: true }],
  ['SIGTERM with a handler that exits', { code: 5 }],
  ['SIGTERM without a handler', { code: null, signal: 'SIGTERM' }],
  ['SIGINT without a handler', { code: null, signal: 'SIGINT' }],
  ['process.exit while the worker starts', { code: 3 }],
  ['process.exit while a model is opened', { code: 3 }],
  ['process.exit while a model is opened beside another', { code: 3 }],
  ['process.exit while the engine closes', { code: 3 }],
  ['process.exit after close', { code: 3, answer: true }],
]

describe.each(['binding', 'native'])('a process that ends mid-run, with the executor %s', (executor) => {
  it.each(endings)('ends as it was told to: %s', { timeout: testTimeoutMs }, (scenario, expected) =>
    endsEachTime('exit.mjs', scenario, expected, [], { ZEROHOP_EXECUTOR: executor }),
  )
})

const longOperators = [
  'process.exit during one long operator',
  'process.exit during one long operator of a warm-up',
]

it.skipIf(loadBinding().binding === null).each(longOperators)(
  'a process whose run of the addon does not stop at once ends without waiting for it: %s',
  { timeout: testTimeoutMs },
  (scenario) =>
    endsEachTime('exit.mjs', scenario, { code: 3, answer: 'listeners were called' }, [], {
      ZEROHOP_EXECUTOR: 'native',
    }),
)
