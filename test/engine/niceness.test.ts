// Alone: it counts the threads of its process.
import { readdirSync, readFileSync } from 'node:fs'
import { getPriority } from 'node:os'
import { InferenceEngine, Tensor } from 'zerohop'
import { expect, it } from 'vitest'
import { identity } from '../models/small.ts'
import { describeNative } from '../support/native.ts'

/** How many threads of this process have that niceness. */
function threadsOfNiceness(niceness: number): number {
  return readdirSync('/proc/self/task').filter((thread) => {
    const fields = readFileSync(`/proc/self/task/${thread}/stat`, 'utf8').split(') ')[1]!.split(' ')
    return Number(fields[16]) === niceness
  }).length
}

async function withEngine(workers: { niceIncrement?: number }, look: () => void): Promise<void> {
  await using engine = new InferenceEngine({ executor: 'native', inline: false, workers })
  const model = await engine.load('m', {
    path: identity('float32'),
    sessionOptions: { intraOpNumThreads: 2 },
  })
  await model.infer({ x: new Tensor('float32', [1, 2, 3, 4], [1, 4]) })
  look()
}

describeNative('niceness of the threads that run models, on Linux', () => {
  const own = getPriority()
  const linux = process.platform === 'linux'

  it.runIf(linux)('is 5 above that of the application, for the worker and for what ONNX Runtime starts', () =>
    withEngine({}, () => expect(threadsOfNiceness(own + 5)).toBe(2)),
  )

  it.runIf(linux)('is what workers.niceIncrement adds', () =>
    withEngine({ niceIncrement: 9 }, () => expect(threadsOfNiceness(own + 9)).toBe(2)),
  )

  it.runIf(linux)('stays that of the application with 0', () =>
    withEngine({ niceIncrement: 0 }, () =>
      expect(threadsOfNiceness(own)).toBe(readdirSync('/proc/self/task').length),
    ),
  )
})
