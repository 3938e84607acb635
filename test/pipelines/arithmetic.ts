import type { FunctionOptions, InferenceEngine, ModelFunction } from '../../src/index.ts'
import { deferred } from '../support/deferred.ts'

/** One number a row. */
const declared = {
  inputs: [{ name: 'x', type: 'float32', dims: [1] }],
  outputs: [{ name: 'y', type: 'float32', dims: [1] }],
} as const

type OneNumber = ModelFunction<typeof declared, undefined>

/** Loads y = f(x) for a number a row, run by the application's thread. */
export function loadNumber(
  engine: InferenceEngine,
  name: string,
  f: (x: number) => number,
  maxBatchSize = 32,
) {
  const run: OneNumber = ({ x }) => ({ y: Float32Array.from(x.data, f) })
  return engine.loadFunction(name, { ...declared, run, maxBatchSize })
}

/** Loads sum = a + b, of which `b` may be left out. */
export function loadSum(engine: InferenceEngine, name: string) {
  return engine.loadFunction(name, {
    inputs: [
      { name: 'a', type: 'float32', dims: [1] },
      { name: 'b', type: 'float32', dims: [1], optional: true },
    ],
    outputs: [{ name: 'sum', type: 'float32', dims: [1] }],
    run: ({ a, b }) => ({ sum: Float32Array.from(a.data, (value, row) => value + (b?.data[row] ?? 0)) }),
  })
}

/** Loads y = x that is given only once {@link Gate.open} is called; how many calls wait there. */
export async function loadGate(
  engine: InferenceEngine,
  name: string,
  options: GateOptions = { concurrency: 64 },
): Promise<Gate> {
  const opened = deferred<void>()
  const gate = { open: () => opened.resolve(), calls: 0 }
  const run: OneNumber = async ({ x }) => {
    gate.calls++
    await opened.promise
    return { y: Float32Array.from(x.data) }
  }
  await engine.loadFunction(name, { ...declared, ...options, run })
  return gate
}

/** Begins to load y = x, which is done only once `open()` is called: its warm-up waits for that. */
export async function beginLoad(engine: InferenceEngine, name: string, version = 1) {
  const [called, opened] = [deferred<void>(), deferred<void>()]
  const run: OneNumber = async ({ x }) => {
    called.resolve()
    await opened.promise
    return { y: Float32Array.from(x.data) }
  }
  const loading = engine.loadFunction(name, { ...declared, run, version, warmup: [{ feeds: { x: one(0) } }] })
  loading.catch(() => {})
  await called.promise
  return { loading, open: opened.resolve }
}

type GateOptions = Pick<FunctionOptions, 'concurrency' | 'maxBatchSize' | 'dynamicBatching'>

export interface Gate {
  open(): void
  readonly calls: number
}

/** A step of a model of {@link loadNumber}. */
export const step = (model: string, from: string, to: string) => ({
  model,
  inputs: { x: from },
  outputs: { y: to },
})

/** A number as a feed. */
export const one = (x: number) => Float32Array.of(x)
