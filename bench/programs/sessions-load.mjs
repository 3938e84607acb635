// Loads of one file: the first, then under another name, in another engine and in another isolate, which runs this file as well.
// What each took, in milliseconds; the threads that they run on were up before.
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads'
import { InferenceEngine } from 'zerohop'

const input = isMainThread ? JSON.parse(process.argv[2]) : workerData
const { engine: options, path, smallPath } = input
const asItIs = { maxBatchSize: 8, checkRows: false, warmup: false, sessionOptions: { intraOpNumThreads: 1 } }

async function warmEngine() {
  const engine = new InferenceEngine({ ...options, cpuWorkers: 1 })
  await engine.load('small', { path: smallPath, ...asItIs })
  return engine
}

async function loadMs(engine, name) {
  const startMs = performance.now()
  await engine.load(name, { path, ...asItIs })
  return performance.now() - startMs
}

async function inOtherIsolate() {
  const worker = new Worker(fileURLToPath(import.meta.url), { workerData: input })
  const [ms] = await once(worker, 'message')
  await once(worker, 'exit')
  return ms
}

const engine = await warmEngine()
if (isMainThread) {
  const other = await warmEngine()
  const first = await loadMs(engine, 'model')
  const result = {
    first,
    otherName: await loadMs(engine, 'another'),
    otherEngine: await loadMs(other, 'model'),
    otherIsolate: await inOtherIsolate(),
  }
  await Promise.all([engine.close(), other.close()])
  process.send(result, () => process.disconnect())
} else {
  const ms = await loadMs(engine, 'model')
  await engine.close()
  parentPort.postMessage(ms)
}
