// A program that opens the model named by its argument with an engine, and sends the engine's findings to its
// parent.
import { basename } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { InferenceEngine, InferenceError, type EngineOptions } from '../index.ts'
import { openNativeOrt } from '../run/executors/native/native-ort.ts'
import { switchOffTelemetry } from '../run/telemetry.ts'
import type { OpeningAnswer } from './model-file.ts'

/** How long to wait for the check of rows. */
const checkLimitMs = 10_000
const [path] = process.argv.slice(2) as [string]
process.once('disconnect', () => process.exit()) // the parent has ended

/** Chooses the native executor, which supports more types, or the binding where the addon cannot be loaded. */
function engineOptions(): EngineOptions {
  switchOffTelemetry(undefined)
  const executor = openNativeOrt().binding === null ? 'binding' : 'native'
  return { executor, cache: false, verify: 'none' } // this process is a trial itself, and leaves nothing behind
}

async function open(): Promise<OpeningAnswer> {
  const engine = new InferenceEngine(engineOptions())
  try {
    const model = await engine.load(basename(path), { path, instanceGroup: [{ kind: 'cpu' }], warmup: false })
    await Promise.race([model.joiningKnown(), setTimeout(checkLimitMs)])
    return { metadata: model.metadata, executor: engine.capabilities().executor }
  } catch (error) {
    if (error instanceof InferenceError) return { code: error.code, message: error.message }
    throw error
  }
}

// Not closed: the process exits, and the operating system frees everything.
const answer = await open()
process.send!(answer, () => process.exit())
