// Workers that are replaced one after the other, as by a process manager: each answers, is told to stop, and stops by itself.
import { strictEqual } from 'node:assert/strict'
import cluster from 'node:cluster'
import { once } from 'node:events'
import { askDigits } from '../digits.js'

if (cluster.isPrimary) {
  for (let round = 0; round < 3; round++) {
    const worker = cluster.fork()
    await once(worker, 'message')
    worker.process.kill('SIGINT')
    const [code, signal] = await once(worker, 'exit')
    strictEqual(code, 0, `the worker ended with ${signal ?? code}`)
  }
} else {
  process.once('SIGINT', () => cluster.worker.disconnect())
  await askDigits()
  process.send('answered')
}
