import { spawnSync } from 'node:child_process'
import { AsyncLocalStorage } from 'node:async_hooks'
import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { ModelEvent } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { load, ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'

const storage = new AsyncLocalStorage<string>()
const row = () => ({ x: new Float32Array(4) })

describe('a listener runs in the context that it was added in', () => {
  it('of an engine, and is taken away as it was added', async () => {
    const engine = ownEngine()
    const seen: string[] = []
    const tell = (event: ModelEvent) => void seen.push(`${event.type} in ${storage.getStore()}`)
    storage.run('a', () => engine.on('model', tell))
    storage.run('b', () => engine.once('model', tell))
    await storage.run('load', () => engine.load('m', { path: small.identity('float32') }))
    await until(() => seen.length === 2)
    expect(seen).toEqual(['ready in a', 'ready in b'])
    storage.run('c', () => engine.off('model', tell))
    const once = storage.run('d', () => engine.once('model', tell).off('model', tell))
    await once.unload('m')
    await new Promise(setImmediate)
    expect(seen).toHaveLength(2)
  })

  it('of a channel, whoever asks, and whoever else is in the batch', async () => {
    const model = await storage.run('load', () =>
      load(ownEngine(), small.identity('float32'), {
        maxBatchSize: 4,
        dynamicBatching: { holdUntilQueued: 2 },
      }),
    )
    const seen = new Set<string>()
    const listener = () => void seen.add(`${storage.getStore()}`)
    for (const name of ['zerohop:request', 'zerohop:batch']) {
      storage.run(`who listens to ${name}`, () => subscribe(name, listener))
      onTestFinished(() => void unsubscribe(name, listener))
    }
    const afterwards = ['a', 'b'].map((caller) =>
      storage.run(caller, async () => (await model.infer(row()), storage.getStore())),
    )
    expect(await Promise.all(afterwards)).toEqual(['a', 'b'])
    expect(seen).toEqual(new Set(['who listens to zerohop:request', 'who listens to zerohop:batch']))
  })

  it('of a channel as often as it has subscribed, and is none that it cannot be', async () => {
    const name = 'zerohop:request'
    let calls = 0
    const listener = () => void calls++
    subscribe(name, listener)
    subscribe(name, listener)
    channel(name).publish({})
    expect([calls, unsubscribe(name, listener)]).toEqual([2, true])
    channel(name).publish({})
    expect([
      calls,
      unsubscribe(name, listener),
      unsubscribe(name, listener),
      channel(name).hasSubscribers,
    ]).toEqual([3, true, false, false])
    expect(() => subscribe(name, 7 as never)).toThrow(TypeError)
    expect(channel(name).hasSubscribers).toBe(false)
  })
})

it(
  'nothing that an engine keeps holds the store of who has made it, loaded, scaled or asked, nor runs in that of who has imported it',
  { timeout: 60_000 },
  () => {
    const fixture = fileURLToPath(new URL('./fixtures/stores.mjs', import.meta.url))
    const { stdout, stderr } = spawnSync(process.execPath, ['--expose-gc', fixture], { encoding: 'utf8' })
    expect(stderr).toBe('')
    const { seen, kept, dropped } = JSON.parse(stdout) as {
      seen: string[]
      kept: string[]
      dropped: string[]
    }
    expect([seen, kept, dropped.length]).toEqual([['nobody'], [], 13])
  },
)
