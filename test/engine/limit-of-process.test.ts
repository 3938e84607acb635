// Alone: it measures the memory of its process.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { InferenceEngine, type StagingOptions } from '../../src/index.ts'
import { loadBinding } from '../../src/native/addon.ts'
import { plainMemory } from '../../src/native/native-binding.ts'
import * as small from '../models/small.ts'
import { ownEngine } from '../support/open.ts'

// In a file, and so a process, of its own: native staging memory is shared by all engines of a process.

const native = new InferenceEngine().capabilities().native.available
const missing = native ? '' : ' (skipped: no addon, npm run build:native makes one)'

const mib = 2 ** 20
const warnings: string[] = []
const onWarning = ({ code, message }: Error & { code?: string }): void => {
  if (code === 'ZEROHOP_STAGING_LIMIT') warnings.push(message)
}

beforeEach(() => void process.on('warning', onWarning))
afterEach(() => {
  process.off('warning', onWarning)
  warnings.length = 0
})

/** An engine whose staging memory is in use, and the limit that it finds in force. */
async function open(staging: StagingOptions = {}) {
  const engine = ownEngine({ cpuWorkers: 1, executor: 'native', staging })
  await engine.load('identity', { path: small.identity('float32') })
  return { engine, limitMib: () => engine.stats().staging!.limitBytes / mib }
}

/** Whether the pool gives that much within its limit. */
function gives(bytes: number): boolean {
  const binding = loadBinding().binding!
  const lease = binding.acquire(bytes, plainMemory)
  if (lease !== null) binding.release(lease.bytes)
  binding.trim()
  return lease !== null
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

describe.skipIf(!native)(`staging.limitBytes in a process with several engines${missing}`, () => {
  it('is 256 MiB when nobody says anything', async () => {
    expect((await open()).limitMib()).toBe(256)
    expect(gives(400 * mib)).toBe(false)
  })

  it('is not reset by an engine that says nothing', async () => {
    const raised = await open({ limitBytes: 1024 * mib })
    expect(gives(400 * mib)).toBe(true)
    const silent = await open()
    expect(gives(400 * mib)).toBe(true)
    expect([raised.limitMib(), silent.limitMib()]).toEqual([1024, 1024])
    await silent.engine.close()
    expect(raised.limitMib()).toBe(1024)
    await nextTurn()
    expect(warnings).toEqual([])
  })

  it('is what the one engine asks for that asks, also when it comes second, and the default again once that is closed', async () => {
    const silent = await open()
    const asking = await open({ limitBytes: 64 * mib })
    expect([silent.limitMib(), asking.limitMib()]).toEqual([64, 64])
    await asking.engine.close()
    expect(silent.limitMib()).toBe(256)
    await nextTurn()
    expect(warnings).toEqual([])
  })

  it('is the largest that is asked for, and the engine that asked for less is warned', async () => {
    const more = await open({ limitBytes: 1024 * mib })
    const less = await open({ limitBytes: 64 * mib })
    expect([more.limitMib(), less.limitMib()]).toEqual([1024, 1024])
    await nextTurn()
    expect(warnings).toEqual([
      `staging.limitBytes is ${64 * mib} here, but another engine of this process asks for ${1024 * mib}; the largest counts`,
    ])
    await more.engine.close()
    expect(less.limitMib()).toBe(64)
  })

  it('is raised by an engine that asks for more, which is no conflict', async () => {
    const less = await open({ limitBytes: 64 * mib })
    const more = await open({ limitBytes: 1024 * mib })
    expect([less.limitMib(), more.limitMib()]).toEqual([1024, 1024])
    await more.engine.destroy()
    expect(less.limitMib()).toBe(64)
    await nextTurn()
    expect(warnings).toEqual([])
  })
})
