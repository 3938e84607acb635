import { once } from 'node:events'
import { startExample, type RunningExample } from '../packed-example.ts'

/** The environment that a worker needs; see the settings of the example. */
export type WorkerSettings = Readonly<Record<string, string>>

/** A worker process that takes jobs. */
export interface RunningWorker {
  /** As its jobs have it. */
  readonly name: string
  readonly running: RunningExample
}

/** Starts a worker, and waits until it takes jobs. */
export async function startWorker(
  folder: string,
  settings: WorkerSettings,
  within: readonly string[] = [],
): Promise<RunningWorker> {
  const running = startExample(folder, 'worker.js', settings, { within })
  const [, name] = await running.said(/^(\S+) takes jobs$/)
  return { name: name!, running }
}

/** As a machine that fails ends it. */
export async function killWorker({ running: { child } }: RunningWorker): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** Tells it to stop. */
export function stopWorker({ running }: RunningWorker): ReturnType<RunningExample['ended']> {
  running.child.kill('SIGTERM')
  return running.ended()
}
