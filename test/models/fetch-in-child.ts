import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { InferenceSession, Tensor } from 'onnxruntime-node'

/** How a child process ended that ran a model. */
export interface ChildOutcome {
  code: number | null
  signal: NodeJS.Signals | null
  stderr: string
}

/**
 * Loads a model in a separate process, runs it with one row of four ones as input `x`, and fetches the outputs of
 * the given names: for runs that can take the whole process down. Exit code 0 means that the run returned.
 */
export async function fetchInChild(path: string, outputs: readonly string[]): Promise<ChildOutcome> {
  const child = fork(fileURLToPath(import.meta.url), [path, ...outputs], {
    execArgv: ['--import', 'tsx'],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  let stderr = ''
  child.stderr?.on('data', (chunk) => {
    stderr += chunk
  })
  const [code, signal] = await once(child, 'close')
  return { code, signal, stderr }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [path, ...outputs] = process.argv.slice(2)
  const session = await InferenceSession.create(path!)
  await session.run({ x: new Tensor('float32', new Float32Array(4).fill(1), [1, 4]) }, outputs)
  process.disconnect?.()
}
