// Alone: it counts the objects of its process.
import { expect, it } from 'vitest'
import { doAll } from '../../src/base/slices.ts'
import type { InferenceEngine } from '../../src/index.ts'
import { ServedMethods } from '../../src/adapters/processes/engine-server.ts'
import { collectGarbage } from '../support/garbage.ts'

const call = (methods: ServedMethods, ...of: Parameters<ServedMethods['begin']>) =>
  doAll(methods.begin(...of)).result

it('methods of a served engine keep nothing of models that clients have loaded and unloaded', async () => {
  const models = new Map<string, { state: string; version: number }>()
  const known: WeakRef<{ state: string }>[] = []
  const engine = {
    load: async (name: string) => {
      const model = { state: 'ready', version: 1 }
      models.set(name, model)
      known.push(new WeakRef(model))
      return model
    },
    unload: async (name: string) => {
      models.get(name)!.state = 'closed'
      models.delete(name)
    },
  }
  const methods = new ServedMethods(engine as unknown as InferenceEngine)
  for (const name of ['a', 'b', 'c'])
    expect(await call(methods, 'load', [name, { path: 'x' }])).toEqual({ version: 1 })
  for (const name of ['a', 'c']) await call(methods, 'unload', [name])
  await new Promise(setImmediate)
  collectGarbage()
  expect(known.map((each) => each.deref()?.state)).toEqual([undefined, 'ready', undefined])
})

/** Methods of an engine whose loads end by hand, or by their signal. */
function loading() {
  const loads: { name: string; signal: AbortSignal; done: () => void }[] = []
  const engine = {
    load: (name: string, _config: unknown, { signal }: { signal: AbortSignal }) =>
      new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error))
        loads.push({ name, signal, done: () => resolve({ state: 'ready', version: 1 }) })
      }),
  }
  return { methods: new ServedMethods(engine as unknown as InferenceEngine), loads }
}

it('a load for which no client waits any more is ended, one for which another waits goes on', async () => {
  const { methods, loads } = loading()
  const [first, second] = [new AbortController(), new AbortController()]
  const config = { bytes: new Uint8Array(5000) }
  const results = [
    call(methods, 'load', ['m', config], first.signal),
    call(methods, 'load', ['m', { bytes: new Uint8Array(5000) }], second.signal),
  ]
  expect(loads).toHaveLength(1)
  first.abort(new Error('it has gone'))
  await expect(results[0]).rejects.toThrow('it has gone')
  expect(loads[0]!.signal.aborted).toBe(false)
  second.abort(new Error('so has the other'))
  await expect(results[1]).rejects.toThrow('so has the other')
  expect(loads[0]!.signal.aborted).toBe(true)
  const third = call(methods, 'load', ['m', config]) // not the one that is ended
  expect(loads).toHaveLength(2)
  loads[1]!.done()
  expect(await third).toEqual({ version: 1 })
  const other = new AbortController()
  expect(await call(methods, 'load', ['m', { bytes: new Uint8Array(5000) }], other.signal)).toEqual({
    version: 1,
  })
  other.abort() // it is loaded, for all
  expect(loads.map(({ signal }) => signal.aborted)).toEqual([true, false])
  void call(methods, 'load', ['m', { bytes: new Uint8Array(5000).fill(1) }])
  expect(loads).toHaveLength(3)
})

it('the bytes of a model are not kept by methods that know it is loaded', async () => {
  const { methods, loads } = loading()
  const known: WeakRef<ArrayBufferLike>[] = []
  const load = () => {
    const bytes = new Uint8Array(2_000_000)
    known.push(new WeakRef(bytes.buffer))
    const result = call(methods, 'load', ['m', { bytes }])
    loads[0]!.done()
    return result
  }
  await load()
  await new Promise(setImmediate)
  collectGarbage()
  expect(known[0]!.deref()).toBeUndefined()
})

it('a load with tens of thousands of labels is compared with others in pieces', async () => {
  const { methods, loads } = loading()
  const config = () => ({
    path: 'x',
    outputs: [{ name: 'y', labels: Array.from({ length: 60_000 }, (_, at) => `l${at}`) }],
  })
  for (const expected of [1, 1]) {
    const pieces = methods.begin('load', ['m', config()])
    let count = 0
    while (!pieces.next().done) count++
    expect(count).toBeGreaterThan(60_000 / 600)
    expect(loads).toHaveLength(expected)
  }
})
