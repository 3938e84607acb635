/** A process that serves the engine of a user's module until it has had no clients for a while. */
import type { InferenceEngine } from '../../engine.ts'
import { InferenceError } from '../../errors.ts'
import { EngineServer, freePath, reserve } from './engine-server.ts'
import type { ServingTask, StartReport } from './spawn-server.ts'
import { errorText, fromText } from './tagged-json.ts'

/** Reports to the process that started this one, if it is still there, and disconnects from it. */
function report(told: StartReport): Promise<void> {
  return new Promise((resolve) => {
    if (!process.connected) return resolve()
    process.send!(told, () => {
      if (process.connected) process.disconnect()
      resolve()
    })
  })
}

async function engineOf(module: string): Promise<InferenceEngine> {
  const { default: made } = (await import(module)) as { default?: unknown }
  const engine = (await (typeof made === 'function' ? made() : made)) as InferenceEngine | undefined
  if (typeof engine?.infer !== 'function')
    throw new TypeError(
      `${module} has neither an InferenceEngine nor a function that makes one as its default export`,
    )
  return engine
}

async function run({ path, module, idleMs }: ServingTask): Promise<void> {
  const lock = reserve(path) // before loading models, so that one of several starting processes does it
  const engine = await engineOf(module).catch((error: unknown) => {
    lock.release()
    throw error
  })
  try {
    const server = await EngineServer.start(engine, { path, idleMs }, lock)
    await report({})
    await server.closed
  } finally {
    await engine.close()
  }
}

try {
  await run(JSON.parse(process.argv[2]!) as ServingTask)
} catch (error) {
  // If another process was faster, clients connect to that one.
  const isTaken = error instanceof InferenceError && error.expected === freePath
  if (!isTaken) process.exitCode = 1
  await report(isTaken ? {} : { error: fromText(errorText(error)) })
}
process.exit() // even if the user's module has open handles
