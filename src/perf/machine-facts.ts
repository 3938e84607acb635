import { availableParallelism, cpus, totalmem } from 'node:os'
import type { Capabilities } from '../index.ts'
import { libraryVersion } from '../library-version.ts'
import type { PerfResult } from './result.ts'

/** What figures depend on beside the settings. */
export function machineFacts({ cpu, node, onnxruntime, executor }: Capabilities): PerfResult['machine'] {
  return {
    cores: availableParallelism(),
    coresInUse: cpu.cores,
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${process.platform}-${process.arch}`,
    node,
    zerohop: libraryVersion,
    onnxruntime: onnxruntime ?? executor.ortVersion ?? 'unknown',
    executor: executor.kind ?? 'none',
  }
}
