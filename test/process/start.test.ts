import { describe, expect, it } from 'vitest'
import { endsEachTime, testTimeoutMs } from './child.ts'

const matching = (text: RegExp) => expect.stringMatching(text)

const failures: [way: string, code: string, message: RegExp][] = [
  [
    'throws',
    'ERR_MODEL_LOAD',
    /^workers of model 'small': expected a worker thread that stays, received 'thrown at start on purpose'\. Load it again once the cause is gone: that starts a thread afresh$/,
  ],
  ['exits', 'ERR_MODEL_LOAD', /received 'the worker thread ended with exit code 3'\. Load it again/],
  [
    'exits as it loads ONNX Runtime',
    'ERR_MODEL_LOAD',
    /received 'the worker thread ended with exit code 5'\. Load it again/,
  ],
  ['hangs', 'ERR_MODEL_LOAD', /received 'The worker did not start within 2000 ms\.'\. Load it again/],
  [
    'onnxruntime-node is missing',
    'ERR_NATIVE_LOAD',
    /received 'Cannot find module 'onnxruntime-node''\. Run `npm install onnxruntime-node`\.$/,
  ],
  [
    'onnxruntime-node is too old',
    'ERR_NATIVE_LOAD',
    /expected onnxruntime-node 1\.25 or newer.*received 'its version 1\.24\.3 is older/,
  ],
  [
    'onnxruntime-node cannot be loaded',
    'ERR_NATIVE_LOAD',
    /cannot open shared object file.*run `npm install onnxruntime-node` again\.$/,
  ],
]

const forGood: [way: string, code: string, message: RegExp][] = [
  ['cannot be made at all', 'ERR_MODEL_LOAD', /--foo/],
  ['gets no memory for its stack', 'ERR_MODEL_LOAD', /EAGAIN/],
  ['may load no addons', 'ERR_NATIVE_LOAD', /loading addons is disabled.*without --no-addons/],
]

describe('a worker that does not start', () => {
  it.each(failures)(
    'fails each load, leaves no thread, and the next load tries afresh: %s',
    { timeout: testTimeoutMs },
    (way, code, message) => {
      const failure = [code, matching(message)]
      return endsEachTime('start.mjs', way, { answer: [[failure, failure, failure], true, 0] })
    },
  )

  it.each(forGood)(
    'fails each load and leaves no thread: it %s',
    { timeout: testTimeoutMs },
    (way, code, message) => {
      const failure = [code, matching(message)]
      return endsEachTime('start.mjs', way, { answer: [[failure, failure, failure], 0] })
    },
  )

  it(
    'is left to itself while it hangs inside ONNX Runtime, and nobody waits for it',
    { timeout: testTimeoutMs },
    () => {
      const failure = ['ERR_MODEL_LOAD', matching(/did not start within 1000 ms/)]
      return endsEachTime('start.mjs', 'hangs as it loads ONNX Runtime', {
        answer: [[failure, failure], true, true],
      })
    },
  )

  it('ends itself when it comes back from ONNX Runtime after all', { timeout: testTimeoutMs }, () =>
    endsEachTime('start.mjs', 'hangs as it loads ONNX Runtime, and the engine lives on', {
      answer: ['ERR_MODEL_LOAD', true],
    }),
  )

  it.each([
    ['throws', 'ERR_MODEL_LOAD'],
    ['hangs', 'ERR_MODEL_LOAD'],
    ['hangs as it loads ONNX Runtime', 'ERR_MODEL_LOAD'],
    ['onnxruntime-node is missing', 'ERR_NATIVE_LOAD'],
  ])('lets the engine be closed at any moment: %s', { timeout: testTimeoutMs }, (way, code) =>
    endsEachTime('start.mjs', `${way}, and the engine is closed`, { answer: [code] }),
  )
})
