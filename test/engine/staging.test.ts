import { describe, expect, it, vi } from 'vitest'
import type { EngineOptions, StagingOptions } from '../../src/index.ts'
import { loadBinding } from '../../src/native/addon.ts'
import * as small from '../models/small.ts'
import { largestBatch, matchesPlain } from '../support/against-plain.ts'
import { full } from '../support/full.ts'
import { load, ownEngine } from '../support/open.ts'
import { expectClose } from '../support/same.ts'
import { noise, sample } from '../support/samples.ts'

const native = loadBinding().binding !== null
const viaBinding = !native || process.env.ZEROHOP_EXECUTOR === 'binding'
const refusesShared = process.versions.node.startsWith('20.')
const counts = [1, 3, 0, 1, 2, 8, 1]

/** The kinds that can be had here; what cannot has a test of its own below. */
const kinds: NonNullable<StagingOptions['kind']>[] = ['auto', 'copied']
if (!viaBinding && full) kinds.push('native') // which 'auto' is here
if (!refusesShared) kinds.push('shared')

const bindings = refusesShared ? 'copied' : 'shared'
const best = viaBinding ? bindings : 'native'

const engineOf = (kind: StagingOptions['kind'], options: EngineOptions = {}) =>
  ownEngine({ ...options, staging: { ...options.staging, ...(kind === undefined ? {} : { kind }) } })

describe.each(kinds)('staging memory of kind %s', (kind) => {
  it('carries every kind of input and output', async () => {
    const engine = engineOf(kind)
    const sums = await load(engine, small.addSub('float32'))
    await matchesPlain(
      sums,
      counts.map((rows) => ({ a: noise([rows, 16]), b: noise([rows, 16]) })),
    )
    const halves = await load(engine, small.identity('float16'))
    await matchesPlain(
      halves,
      counts.map((rows) => ({ x: sample('float16', [rows, 4]) })),
    )
    const strings = await load(engine, small.stringConcat())
    await matchesPlain(
      strings,
      counts.map((rows) => ({ a: sample('string', [rows, 2]), b: sample('string', [rows, 2]) })),
    )
    const unknown = await load(engine, small.nonZero())
    await matchesPlain(
      unknown,
      counts.map((rows) => ({ x: noise([rows, 4]) })),
    )
    const lying = await load(engine, small.lyingShape('hidden'))
    await matchesPlain(
      lying,
      [1, 2, 3].map((rows) => ({ x: noise([rows, 4]) })),
    )
    const scalar = await load(engine, small.identityScalar('int64'))
    await matchesPlain(scalar, [{ x: sample('int64', []) }])
    expect(engine.stats().staging!.kind).toBe(kind === 'auto' ? best : kind)
    for (const model of [sums, halves, strings]) expect(largestBatch(model)).toBeGreaterThan(1)
  })

  it('grows and is used again as batches become larger and smaller', async () => {
    const engine = engineOf(kind)
    const model = await load(engine, small.identityVariable('float32'))
    for (const length of [1, 5_000, 3, 60_000, 300_000, 1, 60_000]) {
      await matchesPlain(
        model,
        [1, 2, 1].map((rows) => ({ x: noise([rows, length]) })),
      )
    }
    const { usedBytes, highWaterBytes, fallbacks } = engine.stats().staging!
    expect(usedBytes).toBeGreaterThanOrEqual(4 * 300_000 * 4)
    expect(highWaterBytes).toBeGreaterThanOrEqual(usedBytes)
    expect(fallbacks).toBe(0)
  })

  it('is given back when its model is unloaded', async () => {
    const engine = engineOf(kind)
    const model = await load(engine, small.bigRow(50_000))
    await matchesPlain(model, [{ x: noise([2, 50_000]) }])
    expect(engine.stats().staging!.usedBytes).toBeGreaterThan(0)
    await engine.unload(model.name)
    expect(engine.stats().staging!.usedBytes).toBe(0)
  })

  it('is apart for the instances and models of one engine', async () => {
    const engine = engineOf(kind, { cpuWorkers: 2 })
    const two = { instanceGroup: [{ kind: 'cpu', count: 2 }], dynamicBatching: false } as const
    const rotating = await load(engine, small.matmulSlow(64, 3), two)
    const equal = await load(engine, small.identity('float64'), two)
    await Promise.all([
      matchesPlain(
        rotating,
        Array.from({ length: 40 }, () => ({ x: noise([1, 64]) })),
        { same: expectClose },
      ),
      matchesPlain(
        equal,
        Array.from({ length: 40 }, () => ({ x: sample('float64', [2, 4]) })),
      ),
    ])
  })
})

describe('the binding', () => {
  it('takes shared memory, or copies where ONNX Runtime refuses that, and says why without a warning', async () => {
    const warn = vi.spyOn(process, 'emitWarning')
    const engine = ownEngine({ executor: 'binding' })
    await load(engine, small.identity('float32'))
    const why = "the executor 'binding' is in use: requested by executor: 'binding'"
    const reason = refusesShared
      ? `${why}; ONNX Runtime refuses SharedArrayBuffers on Node ${process.versions.node}`
      : why
    expect(engine.capabilities().staging).toEqual({ kind: bindings, reason })
    expect(engine.stats().staging).toMatchObject({ kind: bindings, reason })
    expect(warn.mock.calls.filter(([message]) => String(message).includes('staging'))).toEqual([])
    warn.mockRestore()
  })

  it('refuses kind native with ERR_NATIVE_LOAD and the reason', async () => {
    const engine = ownEngine({ executor: 'binding', staging: { kind: 'native' } })
    const message =
      "staging.kind 'native' is not available: it takes the native executor, and 'binding' is in use: requested by executor: 'binding'"
    await expect(engine.load('model', { path: small.identity('float32') })).rejects.toMatchObject({
      code: 'ERR_NATIVE_LOAD',
      message,
    })
  })
})

it.skipIf(!refusesShared)(
  'kind shared is refused with ERR_NATIVE_LOAD where ONNX Runtime refuses it (Node 20 only)',
  async () => {
    const engine = ownEngine({ staging: { kind: 'shared' } })
    const loading = engine.load('model', { path: small.identity('float32') })
    await expect(loading).rejects.toMatchObject({
      code: 'ERR_NATIVE_LOAD',
      message: expect.stringContaining("use 'copied'"),
    })
  },
)
