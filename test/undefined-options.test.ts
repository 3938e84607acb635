import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { decodeImage } from '../src/features/image/exports.ts'
import { identity } from './models/small.ts'
import { compile, root } from './cli/run.ts'
import { load, ownEngine } from './support/open.ts'

/** What an application hands on of its own callers' options, who may have left it out. */
const handedOn = `
import { InferenceEngine, type Model } from 'zerohop'
import { decodeImage } from 'zerohop/image'
import { connect } from 'zerohop/processes'
const engine = new InferenceEngine()
interface Given { signal?: AbortSignal; timeoutMs?: number; deadlineMs?: number; priority?: number; requestId?: string; outputs?: string[]; version?: number; sequenceId?: string; maxHoldMs?: number; maxInFlight?: number }
export async function call(model: Model, { signal, timeoutMs, deadlineMs, priority, requestId, outputs, version, sequenceId, maxHoldMs, maxInFlight }: Given) {
  const { y } = await model.infer({}, { signal, timeoutMs, deadlineMs, priority, requestId, outputs, sequenceId })
  await engine.infer('m', {}, { signal, version })
  await (await connect('path')).infer('m', {}, { signal, version })
  model.inferMany([], { signal, timeoutMs, maxInFlight })
  await model.lease(1, { maxHoldMs }).infer({ signal })
  await decodeImage('file', { width: 1, height: 1, signal, timeoutMs })
  await engine.load('m', { path: 'm' }, { signal })
  await engine.close({ timeoutMs })
  return y?.dims
}
`

it('options of a call may be undefined, also to a compiler that tells that from left out', async () => {
  const folder = join(root, '.cache/undefined-options')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'handed-on.mts'), handedOn)
  expect(await compile(join(folder, 'handed-on.mts'), ['--exactOptionalPropertyTypes'])).toMatchObject({
    code: 0,
    stdout: '',
  })
})

it('options of a call that are undefined are left out', async () => {
  const engine = ownEngine()
  const none = undefined
  const model = await load(engine, identity('float32', [2]), { maxBatchSize: 8 })
  const feeds = { x: Float32Array.of(1, 2) }
  const perItem = {
    signal: none,
    timeoutMs: none,
    maxRunMs: none,
    deadlineMs: none,
    priority: none,
    outputs: none,
    splitOversized: none,
  }
  const options = { ...perItem, requestId: none, sequenceId: none, sequenceStart: none, sequenceEnd: none }
  expect((await model.infer(feeds, options))['y']!.data).toEqual(feeds.x)
  expect((await engine.infer(model.name, feeds, { ...options, version: none }))['y']!.data).toEqual(feeds.x)
  for await (const { outputs } of model.inferMany([feeds], { ...perItem, ordered: none, maxInFlight: none }))
    expect(outputs!['y']!.data).toEqual(feeds.x)
  const lease = model.lease(1, { maxHoldMs: none, dims: none })
  expect((await lease.infer(options))['y']!.data).toEqual(Float32Array.of(0, 0))
  const limits = {
    signal: none,
    timeoutMs: none,
    formats: none,
    limitInputBytes: none,
    limitInputPixels: none,
  }
  expect(
    (await decodeImage(join(root, 'examples/digits/images/0-0000.png'), { width: 8, height: 8, ...limits }))
      .dims,
  ).toEqual([1, 3, 8, 8])
  await engine.unload(model.name, { version: none })
  await engine.close({ timeoutMs: none })
})
