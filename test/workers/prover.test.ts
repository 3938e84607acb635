import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import * as ownPackage from '../../src/base/own-package.ts'
import { matmulSlow } from '../models/small.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-prover-'))
const file = join(folder, 'thread.cjs')
let instances = 0
const fresh = (): Promise<typeof import('../../src/run/prover.ts')> =>
  import(/* @vite-ignore */ `../../src/run/prover.ts?${++instances}`)

beforeEach(() => void vi.spyOn(ownPackage, 'ownFile').mockReturnValue(file))
afterEach(() => {
  vi.useRealTimers()
  rmSync(folder, { recursive: true, force: true })
})

const question = {
  inputs: [{ name: 'x', shape: ['n', 16], batchAxis: 0 }],
  outputs: [{ name: 'y', batchAxis: 0 }],
}

/** What is found of a model whose proof takes more steps than the calling thread takes, where the thread for that runs `code`. */
async function found(code: string | null) {
  const { prove } = await fresh()
  if (code !== null) {
    mkdirSync(folder, { recursive: true })
    writeFileSync(file, code)
  }
  return prove(matmulSlow(16, 500), [question])
}

it.each([
  ['has no file', null],
  ['throws', 'throw new Error("on purpose")'],
  ['ends', 'process.exit(3)'],
])('a graph is proved here where the thread for large ones does not start: it %s', async (_, code) => {
  expect(await found(code)).toMatchObject([{ rows: 'independent' }])
})

it('a thread that says too late that it serves is given up and ended, and the graph is proved here', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const started = once(process, 'worker') as Promise<[Worker]>
  const proofs = found(`const { parentPort } = require('node:worker_threads')
    parentPort.once('message', () => setTimeout(() => {
      parentPort.postMessage('ready')
      parentPort.postMessage({ proofs: [] })
    }, 1000))`)
  const [thread] = await started
  const ended = once(thread, 'exit')
  await vi.waitFor(() => expect(vi.getTimerCount()).toBeGreaterThan(0))
  let settled = false
  void proofs.then(() => (settled = true))
  await vi.waitFor(() => {
    vi.advanceTimersByTime(10_000)
    expect(settled).toBe(true)
  })
  expect(await proofs).toMatchObject([{ rows: 'independent' }])
  await ended
})

it('a thread that ends over a graph leaves it unknown, and the next question gets another thread', async () => {
  const dies = `const { parentPort } = require('node:worker_threads')
    parentPort.on('message', () => process.exit(4))
    parentPort.postMessage('ready')`
  expect(await found(dies)).toMatchObject([
    { rows: 'unknown', reason: expect.stringContaining('The thread that reads graphs') },
  ])
  const says = dies.replace(
    'process.exit(4)',
    `parentPort.postMessage({ proofs: [{ rows: 'dependent', node: null, reason: 'it says so' }] })`,
  )
  expect(await found(says)).toMatchObject([{ rows: 'dependent', reason: 'it says so' }])
})

it('small graphs start no thread', async () => {
  const { prove } = await fresh()
  let threads = 0
  const count = () => void threads++
  process.on('worker', count)
  onTestFinished(() => void process.off('worker', count))
  expect(await prove(matmulSlow(16, 4), [question])).toMatchObject([{ rows: 'independent' }])
  expect(threads).toBe(0)
})
