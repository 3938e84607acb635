// A model with so many instances that have not run anything: the memory of the process, in bytes. Plain JavaScript, so that
// its threads load nothing but what they need.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceEngine } from 'zerohop'

const { engine: options, path, instances } = JSON.parse(process.argv[2])
const engine = new InferenceEngine(options)
await engine.load('model', {
  path,
  maxBatchSize: 8,
  checkRows: false,
  warmup: false,
  instanceGroup: [{ kind: 'cpu', count: instances }],
  sessionOptions: { intraOpNumThreads: 1 },
})
globalThis.gc()
await sleep(200)
globalThis.gc()
const kilobytes = Number(/^Pss:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/smaps_rollup', 'utf8'))[1])
await engine.close()
process.send(kilobytes * 1024, () => process.disconnect())
