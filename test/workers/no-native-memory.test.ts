import { afterEach, describe, expect, it, vi } from 'vitest'
import { InferenceEngine } from '../../src/index.ts'
import { loadBinding } from '../../src/memory/addon.ts'
import { identity } from '../models/small.ts'

const { binding } = loadBinding()
const workers = { env: { ZEROHOP_NATIVE: 'off' } }

afterEach(() => void vi.restoreAllMocks())

describe.skipIf(binding === null)(`workers without the addon that the application has${binding ? '' : ' (skipped: it has none)'}`, () => {
  it('get shared memory or copies, with the reason and one warning', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    await using engine = new InferenceEngine({ cpuWorkers: 1, executor: 'binding', workers })
    const model = await engine.load('m', { path: identity('float32') })
    const x = new Float32Array([1, 2, 3, 4])
    expect((await model.infer({ x })).y!.data).toEqual(x)
    const { kind, reason } = engine.stats().staging!
    expect(kind).toMatch(/^(shared|copied)$/)
    expect(reason).toBe('In the workers: the native addon is switched off by ZEROHOP_NATIVE=off')
    expect(engine.capabilities()).toMatchObject({ native: { available: true }, staging: { kind, reason } })
    expect(warn.mock.calls.map(([message]) => message)).toEqual([expect.stringContaining(reason)])
  })

  it('cannot be asked for native memory', async () => {
    await using engine = new InferenceEngine({ cpuWorkers: 1, executor: 'binding', workers, staging: { kind: 'native' } })
    const message = "staging.kind 'native' needs the native addon. In the workers: the native addon is switched off by ZEROHOP_NATIVE=off"
    await expect(engine.load('m', { path: identity('float32') })).rejects.toMatchObject({ code: 'ERR_NATIVE_LOAD', message })
  })
})
