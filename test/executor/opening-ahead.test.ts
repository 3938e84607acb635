import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { describeNative } from '../support/native.ts'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'

const feeds = { x: Float32Array.of(1, 2, 3, 4) }
/** Takes some tenths of a second to open. */
const slow = { path: small.matmulSlow(512, 600), warmup: false, checkRows: false } as const

describeNative('a session that is opened', () => {
  /** An engine of one worker, on which a model is served. */
  async function serving() {
    const engine = ownEngine({ cpuWorkers: 1, executor: 'native', inline: false })
    return { engine, model: await engine.load('small', { path: small.identity('float32') }) }
  }

  it('holds up no run of another model on its worker', async () => {
    const { engine, model } = await serving()
    let isOpen = false
    const loading = engine.load('slow', slow).then(() => (isOpen = true))
    let longestMs = 0
    let answered = 0
    const startMs = performance.now()
    while (!isOpen) {
      const sinceMs = performance.now()
      await model.infer(feeds)
      longestMs = Math.max(longestMs, performance.now() - sinceMs)
      answered++
      await sleep(1)
    }
    await loading
    const loadMs = performance.now() - startMs
    expect(answered).toBeGreaterThan(20)
    expect(longestMs).toBeLessThan(0.8 * loadMs) // one that is held up takes nearly all of it
  })

  it('is given up when its load is aborted, and whoever opens others does not wait for it', async () => {
    const { engine, model } = await serving()
    const controller = new AbortController()
    const aborted = rejectionOf(() => engine.load('slow', slow, { signal: controller.signal }))
    const others = Promise.all(
      [1, 2, 3].map((index) => engine.load(`other ${index}`, { path: small.addSub('float32') })),
    )
    await until(() => engine.models().length === 5)
    setTimeout(() => controller.abort('no longer wanted'), 20)
    expect(await aborted).toBe('no longer wanted')
    expect((await others).map(({ state }) => state)).toEqual(['ready', 'ready', 'ready'])
    expect((await model.infer(feeds))['y']!.data).toEqual(feeds.x)
    await engine.close()
  })

  it('fails with what ONNX Runtime says', async () => {
    const { engine, model } = await serving()
    expect(await rejectionOf(() => engine.load('broken', { path: small.notOnnx() }))).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      model: 'broken',
    })
    expect((await model.infer(feeds))['y']!.data).toEqual(feeds.x)
  })
})
