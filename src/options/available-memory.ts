import { totalmem } from 'node:os'
import { limitOfControlGroups, type GroupLimit } from './control-groups.ts'

/** Memory of the machine, and what of it a process may use. */
export interface AvailableMemory {
  readonly machineBytes: number
  /** What the control group allows (of a container, mostly); `null` for no limit. */
  readonly limitBytes: number | null
  /** What follows. */
  readonly usableBytes: number
}

/** Finds out what there is now. Node.js itself looks at the process's own control group only, and not at those above it. */
export function availableMemory(root = '/'): AvailableMemory {
  const machineBytes = totalmem()
  const limit = process.platform === 'linux' ? limitOfControlGroups(memoryLimit, root) : null
  const limitBytes = limit === null || limit >= machineBytes ? null : limit // the first version has 2^63 for none
  return { machineBytes, limitBytes, usableBytes: limitBytes ?? machineBytes }
}

const memoryLimit: GroupLimit = {
  controller: 'memory',
  first: (read) => Number(read('memory.limit_in_bytes')),
  second: (read) => Math.min(...['memory.max', 'memory.high'].map((name) => Number(read(name)) || Infinity)), // `max` is none
}
