import { join } from 'node:path'
import type { EngineOptions, InferenceEngine, TraceOptions } from '../../src/index.ts'
import { readTraceFile, type Trace } from '../../packages/perf/src/trace-files/read-trace-file.ts'
import { ownEngine } from '../support/open.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'

/** An engine that traces every request to a file of its own. */
export interface TracedEngine {
  readonly engine: InferenceEngine
  readonly file: string
  /** What it has traced so far. */
  traces(): Promise<readonly Trace[]>
}

export function tracedEngine(trace: TraceOptions = {}, options: EngineOptions = {}): TracedEngine {
  const file = join(temporaryFolder({}), 'trace.json')
  const engine = ownEngine({ ...options, trace: { file, rate: 1, ...trace } })
  const traces = async () => {
    await engine.trace.flush()
    return (await readTraceFile(file)).traces
  }
  return { engine, file, traces }
}

/** Names of the timestamps of a trace. */
export const namesOf = ({ timestamps }: Trace): string[] => timestamps.map(({ name }) => name)
