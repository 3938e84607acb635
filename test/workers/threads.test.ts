import { join } from 'node:path'
import { readFileSync } from 'node:fs'
import { describe, expect, it, vi } from 'vitest'
import { EngineResources } from '../../src/engine/engine-resources.ts'
import { Loaded } from '../../src/engine/loaded.ts'
import { InferenceError } from '../../src/errors.ts'
import type { ModelOptions, Tensor } from '../../src/index.ts'
import { resolveEngineOptions } from '../../src/options/engine-options.ts'
import { resolveConfig } from '../../src/options/model-config.ts'
import { warnOfConvolutionLeak } from '../../src/run/devices.ts'
import type { Executor } from '../../src/run/executors/executor.ts'
import { startError, StartFailure } from '../../src/run/device-pool.ts'
import { openFrom, type SessionSource } from '../../src/run/worker-session.ts'
import { libraryCarrier } from '../../src/tensor/metadata.ts'
import { graph } from '../models/builder.ts'
import { identity } from '../models/small.ts'
import { load, ownEngine } from '../support/open.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'
import { FakeHost, House, settled } from './serving.ts'

// Two threads in the WebGPU provider at once end the process. There may be no adapter here: the load fails then, or goes on to the CPU.
it.each<[string, ModelOptions]>([
  ['by its kind', { instanceGroup: [{ kind: 'webgpu', count: 2 }] }],
  [
    'by executionProviders',
    { instanceGroup: [{ kind: 'auto', count: 2 }], executionProviders: ['webgpu', 'cpu'] },
  ],
])('sessions on WebGPU, asked for %s, have one thread together', async (_how, options) => {
  const engine = ownEngine({ cpuWorkers: 2 })
  const started: string[] = []
  engine.on('worker', ({ type, worker }) => void (type === 'started' && started.push(worker)))
  await engine.load('m', { path: identity('float32'), ...options }).catch(() => {})
  await new Promise(setImmediate)
  const onCpu = (worker: string) => worker.startsWith('cpu')
  expect(started.filter((worker) => !onCpu(worker))).toEqual(['webgpu_0'])
  if (options.executionProviders === undefined) expect(started.filter(onCpu)).toEqual([])
})

describe('a slot for which a worker has no memory', () => {
  it('fails the batch that was in it, and serves the next one', async () => {
    const execArgv = ['--import', new URL('fixtures/memory-refused-once.mjs', import.meta.url).href]
    const engine = ownEngine({ cpuWorkers: 1, workers: { execArgv }, staging: { kind: 'copied' } })
    const model = await load(engine, identity('float32'), { maxBatchSize: 0 })
    const x = Float32Array.of(1, 2, 3, 4)
    const infer = async () =>
      (await model.infer({ x: { type: 'float32', dims: [1, 4], data: x } as unknown as Tensor })).y!.data
    await expect(infer()).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      cause: { message: 'Array buffer allocation failed' },
    })
    expect(await infer()).toEqual(x)
  })
})

it('is warned of once, on arm64 before ONNX Runtime 1.27', () => {
  const emit = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  for (const [version, arch] of [
    ['1.26.1', 'x64'],
    ['1.27.0', 'arm64'],
    ['1.30.0', 'arm64'],
    ['2.0.0', 'arm64'],
  ] as const)
    warnOfConvolutionLeak(version, arch)
  expect(emit).not.toHaveBeenCalled()
  warnOfConvolutionLeak('1.26.1', 'arm64')
  warnOfConvolutionLeak('1.25.0', 'arm64')
  expect(emit.mock.calls).toEqual([
    [
      expect.stringContaining('ONNX Runtime 1.26.1 leaks memory'),
      { type: 'ZerohopWarning', code: 'ZEROHOP_ARM64_LEAK' },
    ],
  ])
  emit.mockRestore()
})

const x = { name: 'x', isTensor: true, type: 'float32', shape: ['N', 4] } as const

describe('a model that is loaded', () => {
  it.each([false, true])(
    'is ready only when its threads live (one dies while nothing is asked of it: %s)',
    async (dies) => {
      const house = await House.open(2)
      const [first, last] = house.places.map(({ threads }) => threads)
      first!.opened = last!.opened = { inputs: [x], outputs: [{ ...x, name: 'y' }], carrier: libraryCarrier }
      last!.onSample = async () => {
        // The first one was warmed up before, and is asked nothing more.
        if (dies) first!.current.die()
        await settled()
      }
      const warmup = [{ feeds: { x: { type: 'float32', dims: [1, 4], data: new Float32Array(4) } } }] as const
      const config = resolveConfig('m', {
        bytes: new Uint8Array(1),
        maxBatchSize: 4,
        checkRows: false,
        warmup,
      } as never)
      const engine = new EngineResources(resolveEngineOptions({ cache: false, verify: 'none' }))
      const host = new FakeHost(house.clock, house.places, () => expect.fail('nothing is run'))
      const model = new Loaded('m', config, Object.assign(engine, { host }), { changed: () => {} })
      const loaded = await model.load().catch((error: Error) => error.message)
      expect([loaded, model.state]).toEqual(
        dies ? [expect.stringContaining('thread'), 'failed'] : [undefined, 'ready'],
      )
    },
  )
})

const ort = '/app/node_modules/onnxruntime-node'
const linux = `${ort}/bin/napi-v6/linux/x64`

// As Node and the system's loaders have said it.
const messages: [cause: string, message: string, remedy: RegExp][] = [
  [
    'not installed',
    "Cannot find module 'onnxruntime-node'\nRequire stack:\n- /app/node_modules/zerohop/dist/worker-thread/onnxruntime.js",
    /npm install onnxruntime-node`\.$/,
  ],
  [
    'without the package it needs',
    `Cannot find module 'onnxruntime-common'\nRequire stack:\n- ${ort}/dist/index.js`,
    /npm install onnxruntime-node`\.$/,
  ],
  ['too old', 'its version 1.24.3 is older than 1.25', /npm install onnxruntime-node@1/],
  [
    'in a thread without addons',
    'Cannot load native addon because loading addons is disabled.',
    /without --no-addons; with --permission, add --allow-addons/,
  ],
  [
    'beside another version',
    `${linux}/libonnxruntime.so.1: version \`VERS_1.30.0' not found (required by /app/other/node_modules/onnxruntime-node/bin/napi-v6/linux/x64/onnxruntime_binding.node)`,
    /Another version of it is loaded in this process. See `npm ls onnxruntime-node`/,
  ],
  ['a second time', `Module did not self-register: '${linux}/onnxruntime_binding.node'.`, /Another version/],
  [
    'on an old system',
    `/lib/x86_64-linux-gnu/libm.so.6: version \`GLIBC_2.27' not found (required by ${linux}/libonnxruntime.so.1)`,
    /needs glibc 2\.28/,
  ],
  [
    'on musl',
    `Error loading shared library ld-linux-x86-64.so.2: No such file or directory (needed by ${linux}/libonnxruntime.so.1)`,
    /not for musl \(Alpine\): use an image such as node:22-slim/,
  ],
  [
    'on musl with gcompat',
    `Error relocating ${linux}/libonnxruntime.so.1: __vsnprintf_chk: symbol not found`,
    /not for musl/,
  ],
  [
    'on a platform without a binary',
    `Cannot find module '../bin/napi-v6/darwin/x64/onnxruntime_binding.node'\nRequire stack:\n- ${ort}/dist/binding.js`,
    /It has no binary for \w+-\w+/,
  ],
  [
    'without its library',
    'libonnxruntime.so.1: cannot open shared object file: No such file or directory',
    /Remove node_modules\/onnxruntime-node/,
  ],
  [
    'on Windows without the C++ runtime',
    'The specified module could not be found.\n\\\\?\\C:\\app\\onnxruntime_binding.node',
    /Visual C\+\+ Redistributable/,
  ],
  ['for reasons nobody has thought of', 'the moon is full', /Remove node_modules\/onnxruntime-node/],
]

describe('onnxruntime-node that cannot be loaded', () => {
  it.each(messages)('is an ERR_NATIVE_LOAD that says what to do: %s', (_, message, remedy) => {
    const cause = new StartFailure({ message, code: 'ERR_DLOPEN_FAILED', onnxruntime: true })
    const error = startError(cause) as InferenceError
    expect(error).toBeInstanceOf(InferenceError)
    expect(error).toMatchObject({ code: 'ERR_NATIVE_LOAD', expected: expect.any(String), cause })
    expect(error.message).toMatch(remedy)
    expect(error.message).toContain(`received '${message.split('\nRequire stack')[0]}'`)
    expect(error.message).not.toContain('Require stack')
  })
})

describe('the package', () => {
  it('asks for the versions of onnxruntime-node that its errors ask for', () => {
    const { peerDependencies, dependencies } = JSON.parse(
      readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
    )
    expect(peerDependencies['onnxruntime-node']).toBe('>=1.25 <2')
    expect(dependencies['onnxruntime-common']).toBe(peerDependencies['onnxruntime-node'])
  })
})

describe('another failure of a thread to start', () => {
  it('stays what it is: the load says that of its model', () => {
    const ended = new Error('the worker thread ended with exit code 3')
    const refused = new StartFailure({ message: 'out of ports', code: undefined, onnxruntime: false })
    expect(startError(ended)).toBe(ended)
    expect(startError(refused)).toBe(refused)
  })
})

function opening(isStillMade: boolean, failing: string[] = []) {
  const done: string[] = []
  const executor = {
    open: async (_id: number, model: string) => {
      done.push(`open ${model}`)
      if (failing.includes(model)) throw new Error(`cannot open ${model}`)
      return { inputs: [], outputs: [] }
    },
    close: async () => void done.push('close'),
  }
  const used = vi.fn()
  const source = {
    model: 'made',
    options: {},
    original: { model: 'original', options: {}, isStillMade: () => (done.push('look'), isStillMade), used },
  }
  return {
    done,
    used,
    open: (isWanted = true) =>
      openFrom(executor as unknown as Executor, 1, source as unknown as SessionSource, () => isWanted),
  }
}

it('what is still what was checked once it is open is used', async () => {
  const { done, used, open } = opening(true)
  const [, state] = await open()
  expect([done, state.isOriginal, used.mock.calls.length]).toEqual([['open made', 'look'], false, 0])
})

it('what is not what was checked any more when it is open is closed, and the model is opened as it is', async () => {
  const { done, used, open } = opening(false)
  const [, state] = await open()
  expect([done, state.isOriginal]).toEqual([['open made', 'look', 'close', 'open original'], true])
  expect(used).toHaveBeenCalledExactlyOnceWith('it changed while it was opened')
})

it('what cannot be opened is not looked at', async () => {
  const { done, used, open } = opening(true, ['made'])
  const [, state] = await open()
  expect([done, state.isOriginal]).toEqual([['open made', 'open original'], true])
  expect(used).toHaveBeenCalledExactlyOnceWith('cannot open made')
})

it('the model is not opened for who does not want it any more', async () => {
  const { done, open } = opening(false)
  await expect(open(false)).rejects.toThrow()
  expect(done).toEqual(['open made', 'look', 'close'])
})

it.each([
  ['the addon, on the CPU, where one session is shared', true, undefined, 0],
  ['the addon, on a GPU', true, ['cuda', 'cpu'], 1],
  ['the binding', false, undefined, 1],
])(
  'files with weights are looked at again before a session more is opened with %s',
  async (_, shares, executionProviders, count) => {
    const { model, files } = graph('weighted')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .initializer('mark', 'float32', [4], [1, 1, 1, 1], { externalFile: 'weights' })
      .node('Add', ['x', 'mark'], ['y'])
      .bundle()
    const folder = temporaryFolder({ 'm.onnx': model, weights: files.get('weights')! })
    const executor = {
      open: async () => ({ inputs: [], outputs: [], carrier: libraryCarrier }),
      ...(shares ? { openAhead: () => null } : {}),
    } as unknown as Executor
    const source = {
      model: `${folder}/m.onnx`,
      options: executionProviders === undefined ? {} : { executionProviders },
    }
    const [, state] = await openFrom(executor, 1, source as unknown as SessionSource, () => true)
    expect(state.beside).toEqual(count === 0 ? [] : [join(folder, 'weights')])
  },
)
