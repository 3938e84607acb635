// A program: opens the model that its argument names with an engine, and tells its parent what that knows of it then.
import { basename } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { InferenceEngine, InferenceError, type EngineOptions } from '../index.ts'
import { openNativeOrt } from '../run/executors/native/native-ort.ts'
import { notRunYet } from '../schedule/joining.ts'
import { switchOffTelemetry } from '../run/telemetry.ts'
import type { OpeningAnswer } from './open-in-child.ts'

/** How long the check of rows is waited for. */
const checkLimitMs = 10_000
const [path] = process.argv.slice(2) as [string]
process.once('disconnect', () => process.exit()) // its parent has ended

/** The native executor knows more types; with the binding, as no request is made, no better kind of memory is missed. */
function engineOptions(): EngineOptions {
  switchOffTelemetry(undefined)
  const executor = openNativeOrt().binding === null ? 'binding' : 'native'
  return { executor, cache: false, verify: 'none' } // a trial itself, which leaves nothing behind
}

async function open(): Promise<OpeningAnswer> {
  const engine = new InferenceEngine(engineOptions())
  try {
    const model = await engine.load(basename(path), { path, instanceGroup: [{ kind: 'cpu' }], warmup: false })
    // On a busy machine the check goes on after the load.
    for (
      const end = performance.now() + checkLimitMs;
      model.metadata.joining.reason.endsWith(notRunYet) && performance.now() < end;
    )
      await setTimeout(10)
    return { metadata: model.metadata, executor: engine.capabilities().executor }
  } catch (error) {
    if (error instanceof InferenceError) return { code: error.code, message: error.message }
    throw error
  }
}

// Not closed: the process ends, and what the operating system takes back need not be given.
const answer = await open()
process.send!(answer, () => process.exit())
