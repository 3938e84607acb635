import { readFileSync } from 'node:fs'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { InferenceEngine, type InferenceError, type Model, type ModelState } from '../src/index.ts'
import { identity, notOnnx } from './models/small.ts'
import { full } from './support/full.ts'

const config = { path: identity('float32'), maxBatchSize: 4 }
const feeds = { x: new Float32Array([1, 2, 3, 4]) }
/** A request whose first number has a worker exit, thanks to the preloaded fixture. */
const deadly = { x: new Float32Array([-1003, 0, 0, 0]) }
const preload = new URL('process/fixtures/deadly.mjs', import.meta.url).href

const engines: InferenceEngine[] = []
/** What was begun to bring about a state; settled before the next test. */
const begun: Promise<unknown>[] = []
afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.destroy()))
  await Promise.allSettled(begun.splice(0))
})

/** @param isMortal whether {@link deadly} ends its worker, which is then a thread of its own that takes a while to start. */
function newEngine(isMortal = false): InferenceEngine {
  const engine = new InferenceEngine({
    cpuWorkers: 1,
    inline: false,
    ...(isMortal && { executor: 'binding', workers: { execArgv: ['--import', preload] } }),
  })
  engines.push(engine)
  return engine
}

function begin(promise: Promise<unknown>): void {
  promise.catch(() => {})
  begun.push(promise)
}

const modelOf = (engine: InferenceEngine): Model => engine.models()[0]!

/** Brings a model, `m`, into each state. */
const modelStates = {
  loading: async (engine: InferenceEngine) => {
    begin(engine.load('m', config))
    return modelOf(engine)
  },
  ready: (engine: InferenceEngine) => engine.load('m', config),
  draining: async (engine: InferenceEngine) => {
    const model = await engine.load('m', config)
    begin(model.infer(feeds))
    begin(engine.unload('m'))
    return model
  },
  closed: async (engine: InferenceEngine) => {
    const model = await engine.load('m', config)
    await engine.unload('m')
    return model
  },
  'never loaded, as that failed': async (engine: InferenceEngine) => {
    const loading = engine.load('m', { path: notOnnx() })
    const model = modelOf(engine)
    await loading.catch(() => {})
    return model
  },
  'failed after it was ready': async (engine: InferenceEngine) => {
    const model = await engine.load('m', { ...config, dynamicBatching: false })
    for (let deaths = 0; deaths < 3; deaths++) await model.infer(deadly).catch(() => {})
    return model
  },
} satisfies Record<string, (engine: InferenceEngine) => Promise<Model>>

const methods = {
  'model.infer': async (_, model) => (await model.infer(feeds)).y!.dims,
  'model.inferMany': async (_, model) => (await model.inferMany([feeds]).next()).value!.outputs!.y!.dims,
  'model.capacity': (_, model) => typeof model.capacity().free,
  'model.stats': (_, model) => typeof model.stats().inferenceCount,
  'model.metadata': (_, model) => model.metadata.maxBatchSize,
  'model.state': (_, model) => model.state,
  'model.version': (_, model) => model.version,
  'model.versions': (_, model) => model.versions.map(({ version, state }) => `${version} ${state}`),
  'model.failure': (_, model) => model.failure === null,
  'model.scale': async (_, model) => {
    await model.scale({ count: 2 })
    return model.capacity().instances
  },
  'model.unload': async (engine, model) => {
    await model.unload()
    return [model.state, engine.models().length]
  },
  'model[Symbol.asyncDispose]': async (engine, model) => {
    await model[Symbol.asyncDispose]()
    return [model.state, engine.models().length]
  },
  'engine.model': (engine) => engine.model('m').state,
  'engine.infer': async (engine) => (await engine.infer('m', feeds)).y!.dims,
  'engine.load': async (engine) => (await engine.load('m', config)).state,
  'engine.unload': async (engine, model) => {
    await engine.unload('m')
    return [model.state, engine.models().length]
  },
  'engine.close': async (engine, model) => {
    await engine.close()
    return model.state
  },
  'engine.destroy': async (engine, model) => {
    await engine.destroy()
    return model.state
  },
  'engine.models': (engine) => engine.models().map(({ name }) => name),
  'engine.stats': (engine) => Object.keys(engine.stats().models),
  'engine.capabilities': (engine) => engine.capabilities().cpu.maxWorkers,
} satisfies Record<string, (engine: InferenceEngine, model: Model) => unknown>

type State = keyof typeof modelStates
type Method = keyof typeof methods

const CONFIG = 'ERR_MODEL_CONFIG'
const NOT_FOUND = 'ERR_MODEL_NOT_FOUND'
const NOT_READY = 'ERR_MODEL_NOT_READY'
const CLOSED = 'ERR_CLOSED'
const row = [1, 4]
const same = (outcome: unknown) => [outcome, outcome, outcome, outcome, outcome, outcome]

const order: State[] = [
  'loading',
  'ready',
  'draining',
  'closed',
  'never loaded, as that failed',
  'failed after it was ready',
]
const gone = ['closed', 0]
/** By method: what it gives in each state, or the code it fails with. */
const matrix: Record<Method, unknown[]> = {
  'model.infer': [NOT_READY, row, CLOSED, CLOSED, NOT_READY, NOT_READY],
  'model.inferMany': [NOT_READY, row, CLOSED, CLOSED, NOT_READY, NOT_READY],
  'model.capacity': [NOT_READY, 'number', 'number', 'number', NOT_READY, 'number'],
  'model.stats': [NOT_READY, 'number', 'number', 'number', NOT_READY, 'number'],
  'model.metadata': [NOT_READY, 4, 4, 4, NOT_READY, 4],
  'model.state': ['loading', 'ready', 'draining', 'closed', 'failed', 'failed'] satisfies ModelState[],
  'model.version': same(1),
  'model.versions': [['1 loading'], ['1 ready'], ['1 draining'], [], [], ['1 failed']],
  'model.failure': [true, true, true, true, false, false],
  'model.scale': [NOT_READY, 2, CLOSED, CLOSED, NOT_READY, NOT_READY],
  'model.unload': same(gone),
  'model[Symbol.asyncDispose]': same(gone),
  'engine.model': ['loading', 'ready', 'draining', NOT_FOUND, NOT_FOUND, 'failed'],
  'engine.infer': [NOT_READY, row, CLOSED, NOT_FOUND, NOT_FOUND, NOT_READY],
  'engine.load': same('ready'),
  'engine.unload': [gone, gone, gone, NOT_FOUND, NOT_FOUND, gone],
  'engine.close': ['closed', 'closed', 'closed', 'closed', 'failed', 'closed'],
  'engine.destroy': ['closed', 'closed', 'closed', 'closed', 'failed', 'closed'],
  'engine.models': [['m'], ['m'], ['m'], [], [], ['m']],
  'engine.stats': [[], ['m'], ['m'], [], [], ['m']],
  'engine.capabilities': same(1),
}

/** The value, or the code of the error, whether thrown or rejected with. */
async function outcomeOf(call: () => unknown): Promise<unknown> {
  try {
    return await call()
  } catch (error) {
    return (error as InferenceError).code ?? error
  }
}

/** In states that last, methods that leave a model there share an engine. */
const passing: State[] = ['loading', 'draining']
/** Methods that do what another does; each would cost three deaths. */
const alike = new Set<Method>(['model[Symbol.asyncDispose]', 'engine.unload', 'engine.destroy'])
const leavesState = (method: Method) => !/load|close|destroy|Dispose/.test(method)

describe.each(order.map((state, index) => ({ state, index })))(
  'a model that is $state',
  ({ state, index }) => {
    let kept: readonly [InferenceEngine, Model] | null = null
    afterAll(() => kept?.[0].destroy())

    async function inState() {
      const engine = newEngine(state === 'failed after it was ready')
      return [engine, await modelStates[state](engine)] as const
    }

    async function inStateAlready() {
      if (kept === null) {
        kept = await inState()
        engines.pop() // the test after this one has it, too
      }
      return kept
    }

    const some = (Object.keys(methods) as Method[]).filter(
      (method) => full || state !== 'failed after it was ready' || !alike.has(method),
    )
    it.each(some)('answers %s', async (method) => {
      const [engine, model] = await (
        !passing.includes(state) && leavesState(method) ? inStateAlready : inState
      )()
      expect(await outcomeOf(() => methods[method](engine, model))).toEqual(matrix[method][index])
    })
  },
)

describe('the documentation of a method', () => {
  const failing = (Object.keys(methods) as Method[]).filter((method) =>
    matrix[method].some((outcome) => String(outcome).startsWith('ERR_')),
  )

  it.each(failing)('%s names the errors that it fails with in some state', (method) => {
    const [of, name] = method.split('.')
    const source = readFileSync(new URL(`../src/${of}.ts`, import.meta.url), 'utf8')
    const at = source.search(new RegExp(`^ {2}(?:async |get )?${name}[<(]`, 'm'))
    const [, thrown = ''] = source.slice(source.lastIndexOf('/**', at), at).split('@throws')
    const codes = matrix[method].filter((outcome) => String(outcome).startsWith('ERR_'))
    const inherited = thrown.includes('{@link Model.infer}') ? [NOT_READY, CLOSED] : []
    for (const code of new Set(codes)) expect(`${thrown} ${inherited.join(' ')}`).toContain(code)
  })
})

describe('what was begun when a model is unloaded', () => {
  it('a load is rejected', async () => {
    const engine = newEngine()
    const loading = outcomeOf(() => engine.load('m', config))
    await engine.unload('m')
    expect(await loading).toBe(CLOSED)
  })

  it('a request is answered', async () => {
    const engine = newEngine()
    const model = await engine.load('m', config)
    const call = model.infer(feeds)
    await engine.unload('m')
    expect((await call).y!.dims).toEqual(row)
  })
})

/** Brings an engine with one ready model into each state. */
const engineStates = {
  open: async () => {},
  closing: async (engine: InferenceEngine, model: Model) => {
    begin(model.infer(feeds))
    begin(engine.close())
  },
  closed: (engine: InferenceEngine) => engine.close(),
  destroyed: (engine: InferenceEngine) => engine.destroy(),
}

const engineMatrix: Record<
  string,
  [call: (engine: InferenceEngine, model: Model) => unknown, open: unknown, ended: unknown]
> = {
  load: [async (engine) => (await engine.load('other', config)).state, 'ready', CLOSED],
  'load of a name that is taken': [async (engine) => (await engine.load('m', config)).state, 'ready', CLOSED],
  'load of nonsense': [(engine) => engine.load('other', {} as never), CONFIG, CLOSED],
  loadRepository: [(engine) => engine.loadRepository('/no/such/folder'), NOT_FOUND, CLOSED],
  infer: [async (engine) => (await engine.infer('m', feeds)).y!.dims, row, CLOSED],
  'infer of no model': [(engine) => engine.infer('other', feeds), NOT_FOUND, CLOSED],
  'infer of its model': [async (_, model) => (await model.infer(feeds)).y!.dims, row, CLOSED],
  unload: [(engine) => engine.unload('m'), undefined, CLOSED],
  'unload of its model': [(_, model) => model.unload(), undefined, undefined],
  'unload of its model, twice': [
    (_, model) => Promise.all([model.unload(), model.unload()]),
    [undefined, undefined],
    [undefined, undefined],
  ],
  model: [(engine) => engine.model('m').name, 'm', 'm'],
  'model of no name': [(engine) => engine.model('other'), NOT_FOUND, NOT_FOUND],
  on: [(engine) => engine.on('model', () => {}) === engine, true, true],
  once: [(engine) => engine.once('worker', () => {}) === engine, true, true],
  off: [(engine) => engine.off('model', () => {}) === engine, true, true],
  models: [(engine) => engine.models().length, 1, 1],
  stats: [(engine) => Object.keys(engine.stats().models), ['m'], ['m']],
  capabilities: [(engine) => engine.capabilities().cpu.maxWorkers, 1, 1],
  close: [(engine) => engine.close(), undefined, undefined],
  'close with a limit': [(engine) => engine.close({ timeoutMs: 5 }), undefined, undefined],
  destroy: [(engine) => engine.destroy(), undefined, undefined],
}

describe.each(Object.entries(engineStates))('an engine that is %s', (state, bring) => {
  it.each(Object.entries(engineMatrix))('answers %s', async (_, [call, open, ended]) => {
    const engine = newEngine()
    const model = await engine.load('m', config)
    await bring(engine, model)
    expect(await outcomeOf(() => call(engine, model))).toEqual(state === 'open' ? open : ended)
  })
})
