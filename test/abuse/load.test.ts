import { execFileSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { InferenceEngine, type ModelConfig } from '../../src/index.ts'
import {
  emptyFile,
  identity,
  identityUnbatched,
  missingExternalData,
  missingKernel,
  notOnnx,
  truncated,
  unknownDomain,
  unknownOperator,
} from '../models/small.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'
import { expectNoWarnings, expectRefusal, rejectionOf, type Refusal } from './refusal.ts'

let engine: InferenceEngine
beforeAll(async () => {
  engine = new InferenceEngine({ cpuWorkers: 1 })
  await engine.load('good', { path: identity('float32') })
  await infersWell()
})
afterAll(() => engine.close())
expectNoWarnings()

async function infersWell() {
  const { y } = await engine.infer('good', { x: new Float32Array([1, 2, 3, 4]) })
  expect([...(y!.data as Float32Array)]).toEqual([1, 2, 3, 4])
}

const path = identity('float32')
const held = () => [engine.stats().staging!.usedBytes, engine.capabilities().cpu.workers]

/** A load that has to fail as described, to leave nothing behind, and to leave the other model alone. */
async function refusesToLoad(name: unknown, config: unknown, refusal: Refusal): Promise<void> {
  const before = held()
  const loading = rejectionOf(() => engine.load(name as string, config as ModelConfig))
  const begun = engine.models().find((model) => model.name === name && name !== 'good')
  const error = await loading
  expectRefusal(error, refusal)
  if (begun !== undefined) {
    expect(begun).toMatchObject({ state: 'failed', failure: (error as Error).message })
    expect(await rejectionOf(() => engine.unload(begun.name))).toMatchObject({ code: 'ERR_MODEL_NOT_FOUND' })
  }
  expect(engine.models().map((model) => model.name)).toEqual(['good'])
  expect(held()).toEqual(before)
  await infersWell()
}

type Case = [what: string, config: () => unknown, refusal: Refusal]
const config = (argument: string, expected?: RegExp, received?: unknown): Refusal => ({
  code: 'ERR_MODEL_CONFIG',
  argument,
  ...(expected === undefined ? {} : { expected }),
  ...(received === undefined ? {} : { received }),
})
const unreadable = { code: 'ERR_MODEL_LOAD', argument: 'path' }
const notFound = { code: 'ERR_MODEL_NOT_FOUND', argument: 'path' }
const fixed = identityUnbatched('float32', [2, 3])

const files: Case[] = [
  ['no file', () => ({ path: '/does/not/exist.onnx' }), { ...notFound, received: '/does/not/exist.onnx' }],
  ['a path that cannot be one', () => ({ path: 'nul\0byte' }), notFound],
  ['a folder', () => ({ path: dirname(path) }), unreadable],
  ['a device', () => ({ path: '/dev/null' }), unreadable],
  ['an empty file', () => ({ path: emptyFile() }), unreadable],
  ['a text file', () => ({ path: notOnnx() }), unreadable],
  ['half a model', () => ({ path: truncated() }), unreadable],
  ['an unknown operator', () => ({ path: unknownOperator() }), unreadable],
  ['an unknown domain', () => ({ path: unknownDomain() }), unreadable],
  [
    'an operator without a kernel',
    () => ({ path: missingKernel() }),
    { ...unreadable, received: expect.stringMatching(/^Conv\(\d+\)$/) },
  ],
  [
    'an operator without a kernel, on providers that are named',
    () => ({ path: missingKernel('missing-ExecutionProvider-kernel'), executionProviders: ['cpu'] }),
    { ...unreadable, received: expect.stringMatching(/^Conv/) },
  ],
  [
    'a format that an entry of extra forces on it',
    () => ({ path, sessionOptions: { extra: { 'session.load_model_format': 'ORT' } } }),
    unreadable,
  ],
  ['no file of external data', () => ({ path: missingExternalData() }), unreadable],
]

const contradictions: Case[] = [
  [
    'a batch size for a fixed shape',
    () => ({ path: fixed, maxBatchSize: 4 }),
    config('maxBatchSize', /^0/, 4),
  ],
  [
    'a preferred size over the largest',
    () => ({ path, maxBatchSize: 4, dynamicBatching: { preferredBatchSize: [2, 8] } }),
    config('dynamicBatching.preferredBatchSize', /at most/, 8),
  ],
  [
    'a preferred size over the default one',
    () => ({ path, dynamicBatching: { preferredBatchSize: 64 } }),
    config('dynamicBatching.preferredBatchSize', /32/, 64),
  ],
  [
    'a delay without a batch',
    () => ({ path, maxBatchSize: 0, dynamicBatching: { maxQueueDelayMs: 5 } }),
    config('dynamicBatching.maxQueueDelayMs', /^0/, 5),
  ],
  [
    'GPUs for the CPU',
    () => ({ path, instanceGroup: [{ kind: 'cpu', gpus: [0] }] }),
    config('instanceGroup[0].gpus'),
  ],
  [
    'GPUs that are neither all nor a list',
    () => ({ path, instanceGroup: [{ kind: 'cpu' }, { gpus: 'some' }] }),
    config('instanceGroup[1].gpus'),
  ],
]

const providers: Case[] = [
  [
    'an execution provider that there is not',
    () => ({ path, executionProviders: ['quantum'] }),
    { code: 'ERR_MODEL_LOAD', argument: 'executionProviders', received: ['quantum'] },
  ],
  [
    'CUDA without its library',
    () => ({ path, executionProviders: [{ name: 'cuda', deviceId: 0 }] }),
    { code: 'ERR_MODEL_LOAD', argument: 'executionProviders', received: ['cuda'] },
  ],
  [
    'CUDA without its library, where it has to be there',
    () => ({ path, executionProviders: [{ name: 'cuda', required: true }, 'cpu'] }),
    { code: 'ERR_MODEL_LOAD', argument: 'executionProviders', received: ['cuda'] },
  ],
  [
    'required that is no boolean',
    () => ({ path, executionProviders: [{ name: 'cuda', required: 'yes' }, 'cpu'] }),
    config('executionProviders[0].required', /./, 'yes'),
  ],
  [
    'an instance on a GPU without the library',
    () => ({ path, instanceGroup: [{ kind: 'cuda' }] }),
    { code: 'ERR_MODEL_LOAD', argument: 'instanceGroup', received: ['cuda'] },
  ],
]

const good = { feeds: { x: new Float32Array(4) } }
const warmups: Case[] = [
  [
    'of another shape',
    () => ({ path, warmup: [{ feeds: { x: new Float32Array(3) } }] }),
    config('warmup[0].feeds', /^4 elements/, 3),
  ],
  [
    'of another input',
    () => ({ path, warmup: [good, { feeds: { y: new Float32Array(4) } }] }),
    config('warmup[1].feeds'),
  ],
  ['without feeds', () => ({ path, warmup: [{}] }), config('warmup[0].feeds')],
  [
    'with a count of 0',
    () => ({ path, warmup: [{ feeds: {}, count: 0 }] }),
    config('warmup[0].count', /./, 0),
  ],
  ['that is no list', () => ({ path, warmup: 'yes' }), config('warmup', /./, 'yes')],
]

describe.each(Object.entries({ files, contradictions, providers, 'warm-up samples': warmups }))(
  'bad %s',
  (_, table) => {
    it.each(table)('are refused: %s', (_what, make, refusal) => refusesToLoad('bad', make(), refusal))
  },
)

describe('a bad name', () => {
  const names: [what: string, name: unknown, received?: unknown][] = [
    ['empty', ''],
    ['missing', undefined],
    ['null', null],
    ['a number', 7],
    ['an object', {}, 'an instance of Object'],
  ]
  it.each(names)('is refused: %s', (_, name, received = name) =>
    refusesToLoad(name, { path }, { argument: 'name', received }),
  )
})

describe.skipIf(process.platform === 'win32')('a model file that is a pipe', () => {
  it('is refused at once', async () => {
    const fifo = join(temporaryFolder({}), 'model.onnx')
    execFileSync('mkfifo', [fifo])
    await refusesToLoad('bad', { path: fifo }, { ...unreadable, received: fifo })
  })
})
