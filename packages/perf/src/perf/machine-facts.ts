import { availableParallelism, cpus } from 'node:os'
import { availableMemory, libraryVersion } from 'zerohop/internals'
import type { Capabilities } from 'zerohop'
import type { PerfResult } from './result.ts'

/** What figures depend on beside the settings. */
export function machineFacts({ cpu, node, onnxruntime, executor }: Capabilities): PerfResult['machine'] {
  return {
    cores: availableParallelism(),
    coresInUse: cpu.cores,
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    memoryGiB: Number((availableMemory().usableBytes / 2 ** 30).toFixed(1)),
    system: `${process.platform}-${process.arch}`,
    node,
    zerohop: libraryVersion,
    onnxruntime: onnxruntime ?? executor.ortVersion ?? 'unknown',
    executor: executor.kind ?? 'none',
  }
}
