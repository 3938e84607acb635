import { describe, expect, it, onTestFinished } from 'vitest'
import { InferenceEngine, InferenceError } from '../../src/index.ts'
import { decodeImage, imageConcurrency, imageDims } from '../../src/features/image/exports.ts'
import { identity } from '../models/small.ts'
import { expectNoWarnings } from './refusal.ts'

expectNoWarnings()

const path = identity('float32')
const fails = (): never => {
  throw new Error("from the caller's own code")
}
const traps = {
  get: fails,
  has: fails,
  ownKeys: fails,
  getPrototypeOf: fails,
  getOwnPropertyDescriptor: fails,
}
function revoked(target: object): object {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}

/** Values that throw whatever is done with them. */
const values: [what: string, make: () => unknown][] = [
  ['an object whose traps throw', () => new Proxy({}, traps)],
  ['an array whose traps throw', () => new Proxy([], traps)],
  ['a revoked object', () => revoked({})],
  ['a revoked array', () => revoked([])],
  [
    'a getter that throws for every option',
    () =>
      Object.defineProperties(
        {},
        Object.fromEntries(
          ['path', 'cpuWorkers', 'timeoutMs', 'outputs', 'models', 'maxInFlight', 'width', 'into'].map(
            (name) => [name, { get: fails, enumerable: true }],
          ),
        ),
      ),
  ],
]

const calls: [what: string, call: (value: never, engine: InferenceEngine) => unknown][] = [
  ['new InferenceEngine(options)', (value) => new InferenceEngine(value)],
  ['engine.load(name)', (value, engine) => engine.load(value, { path })],
  ['engine.load(name, config)', (value, engine) => engine.load('second', value)],
  [
    'engine.load(name, { instanceGroup })',
    (value, engine) => engine.load('second', { path, instanceGroup: value }),
  ],
  [
    'engine.load(name, { dynamicBatching })',
    (value, engine) => engine.load('second', { path, dynamicBatching: value }),
  ],
  [
    'engine.load(name, { sessionOptions })',
    (value, engine) => engine.load('second', { path, sessionOptions: value }),
  ],
  [
    'engine.load(name, { sessionOptions: { extra } })',
    (value, engine) => engine.load('second', { path, sessionOptions: { extra: value } }),
  ],
  [
    'engine.load(name, { sessionOptions: { logId } })',
    (value, engine) => engine.load('second', { path, sessionOptions: { logId: value } }),
  ],
  [
    'engine.load(name, { executionProviders })',
    (value, engine) => engine.load('second', { path, executionProviders: value }),
  ],
  [
    'engine.load(name, { warmup: [{ feeds }] })',
    (value, engine) => engine.load('second', { path, warmup: [{ feeds: value }, value] }),
  ],
  ['engine.loadRepository(path)', (value, engine) => engine.loadRepository(value)],
  ['engine.loadRepository(path, options)', (value, engine) => engine.loadRepository('.', value)],
  [
    'engine.loadRepository(path, { models })',
    (value, engine) => engine.loadRepository('.', { models: value, onNote: value }),
  ],
  ['engine.infer(name)', (value, engine) => engine.infer(value, {})],
  ['engine.unload(name)', (value, engine) => engine.unload(value)],
  ['engine.close(options)', (value, engine) => engine.close(value)],
  ['engine.close({ timeoutMs })', (value, engine) => engine.close({ timeoutMs: value })],
  [
    'model.infer(feeds, options)',
    (value, engine) => engine.infer('first', { x: new Float32Array(4) }, value),
  ],
  [
    'model.infer(feeds, { outputs })',
    (value, engine) => engine.infer('first', { x: new Float32Array(4) }, { outputs: value }),
  ],
  [
    'model.infer(feeds, { signal })',
    (value, engine) => engine.infer('first', { x: new Float32Array(4) }, { signal: value }),
  ],
  ['model.inferMany(source)', (value, engine) => engine.models()[0]!.inferMany(value).next()],
  ['model.inferMany(source, options)', (value, engine) => engine.models()[0]!.inferMany([], value).next()],
  ['decodeImage(source)', (value) => decodeImage(value, { width: 1, height: 1 })],
  ['decodeImage(source, options)', (value) => decodeImage(Buffer.alloc(9), value)],
  [
    'decodeImage(source, { mean })',
    (value) =>
      decodeImage(Buffer.alloc(9), { width: 1, height: 1, mean: value, std: value, background: value }),
  ],
  [
    'decodeImage(source, { formats })',
    (value) => decodeImage(Buffer.alloc(9), { width: 1, height: 1, formats: value }),
  ],
  [
    'decodeImage(source, options, target)',
    (value) => decodeImage(Buffer.alloc(9), { width: 1, height: 1 }, value),
  ],
  [
    'decodeImage(source, options, { into })',
    (value) => decodeImage(Buffer.alloc(9), { width: 1, height: 1 }, { into: value }),
  ],
  ['imageDims(options)', (value) => imageDims(value)],
  ['imageConcurrency(concurrency)', (value) => imageConcurrency(value)],
]

describe.each(values)('%s', (_, make) => {
  it('is answered with an InferenceError by every public function, and the engine serves on', async () => {
    const engine = new InferenceEngine({ cpuWorkers: 1 })
    onTestFinished(() => engine.destroy())
    await engine.load('first', { path })
    for (const [what, call] of calls) {
      let error: unknown
      try {
        await call(make() as never, engine)
      } catch (reason) {
        error = reason
      }
      expect(error, what).toBeInstanceOf(InferenceError)
      expect((error as InferenceError).message.length, what).toBeLessThan(1000)
    }
    const { y } = await engine.infer('first', { x: Float32Array.of(1, 2, 3, 4) })
    expect([...(y!.data as Float32Array)]).toEqual([1, 2, 3, 4])
  })
})
