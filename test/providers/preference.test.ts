import { describe, expect, it, vi } from 'vitest'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { EngineProviders } from '../../src/run/engine-providers.ts'
import { resolveConfig } from '../../src/options/model-config.ts'
import { tryBuiltIn, cudaProviderInstalled } from '../../src/run/built-in-providers.ts'
import type { ModelOptions } from '../../src/index.ts'
import { mlp } from '../models/networks.ts'
import { matchesPlain } from '../support/against-plain.ts'
import { load, ownEngine } from '../support/open.ts'
import { expectClose } from '../support/same.ts'
import { noise } from '../support/samples.ts'
import { runFixture } from '../process/child.ts'
import { fallbackWarnings } from './fallback-warnings.ts'

const executors = openNativeOrt().binding === null ? (['binding'] as const) : (['native', 'binding'] as const)
const cpu = { name: 'cpu', used: true, reason: null }
const noLibrary = expect.stringContaining('is not installed')

describe.each(executors)('a list of execution providers, with the executor %s,', (executor) => {
  const engine = () => ownEngine({ executor, cpuWorkers: 1 })
  const serves = async (options: ModelOptions, on = engine()) => {
    const model = await load(on, mlp(), options)
    await matchesPlain(model, [{ input: noise([2, 64]) }], { same: expectClose })
    return model
  }
  const fails = (options: ModelOptions) => expect(engine().load('m', { path: mlp(), ...options })).rejects

  it.skipIf(cudaProviderInstalled())(
    'is served by the next where one is not installed, with one warning for all models',
    async () => {
      const warnings = fallbackWarnings()
      const on = engine()
      for (const executionProviders of [
        ['cuda', 'cpu'],
        [{ name: 'cuda', deviceId: 0 }, 'cpu'],
      ]) {
        const { metadata } = await serves({ executionProviders }, on)
        expect(metadata.executionProviders).toEqual([{ name: 'cuda', used: false, reason: noLibrary }, cpu])
      }
      expect(on.capabilities().providers.find(({ name }) => name === 'cuda')).toMatchObject({
        source: 'built-in',
        available: false,
        reason: noLibrary,
      })
      await vi.waitFor(() =>
        expect(warnings).toEqual([
          expect.stringMatching(/^execution provider 'cuda' cannot be used: .*\. Models run without it$/),
        ]),
      )
    },
  )

  it('is served by the next where nobody knows one', async () => {
    const warnings = fallbackWarnings()
    const { metadata } = await serves({ executionProviders: ['quantum', 'cpu'] })
    expect(metadata.executionProviders).toEqual([
      { name: 'quantum', used: false, reason: expect.stringMatching(/built into|not found/) },
      cpu,
    ])
    await vi.waitFor(() => expect(warnings).toHaveLength(1))
  })

  it("has no provider 'auto', which is a kind of instances", async () => {
    const { metadata } = await serves({ executionProviders: ['auto', 'cpu'] })
    expect(metadata.executionProviders).toEqual([
      { name: 'auto', used: false, reason: expect.stringMatching(/built into|not found/) },
      cpu,
    ])
    await fails({ executionProviders: [{ name: 'auto', required: true }, 'cpu'] }).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      argument: 'executionProviders',
    })
  })

  it('is served by WebGPU where there is an adapter, else by the next', async () => {
    const { metadata } = await serves({ executionProviders: ['webgpu', 'cpu'] })
    const [webGpu, last] = metadata.executionProviders
    expect(webGpu).toMatchObject({ name: 'webgpu', reason: webGpu!.used ? null : expect.stringMatching(/./) })
    expect(last).toEqual(cpu)
    // What is there is not left out for a wrong option of it.
    if (webGpu!.used)
      await fails({
        executionProviders: [{ name: 'webgpu', validationMode: 'no such mode' }, 'cpu'],
      }).toMatchObject({ code: 'ERR_MODEL_LOAD', argument: 'executionProviders' })
  })

  it.skipIf(cudaProviderInstalled())(
    'is refused without one that is required, whoever says that',
    async () => {
      const refusal = {
        code: 'ERR_MODEL_LOAD',
        argument: 'executionProviders',
        received: ['cuda'],
        message: expect.stringContaining('cuda: its library'),
      }
      await fails({ executionProviders: [{ name: 'cuda', required: true }, 'cpu'] }).toMatchObject(refusal)
      await fails({ executionProviders: ['cuda', 'cpu'], required: true }).toMatchObject(refusal)
    },
  )

  it.skipIf(cudaProviderInstalled())(
    'is refused with the reason of each where none can be used',
    async () => {
      await fails({ executionProviders: ['tensorrt', 'cuda'] }).toMatchObject({
        code: 'ERR_MODEL_LOAD',
        received: ['tensorrt', 'cuda'],
        message: expect.stringMatching(/tensorrt: its library.*cuda: its library.*List 'cpu' as well/),
      })
    },
  )

  it.skipIf(cudaProviderInstalled())('does not fall back to a CPU that is forbidden', async () => {
    const sessionOptions = { extra: { session: { disable_cpu_ep_fallback: '1' } } }
    await fails({ executionProviders: ['cuda', 'cpu'], sessionOptions }).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      received: ['cuda'],
    })
    await fails({ executionProviders: ['cpu'], sessionOptions }).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      message: expect.stringContaining('CPU'),
    })
  })

  it.skipIf(cudaProviderInstalled())('is not what kinds are that mean a GPU', async () => {
    await fails({ instanceGroup: [{ kind: 'cuda' }] }).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      argument: 'instanceGroup',
      received: ['cuda'],
      message: expect.stringContaining("Kind 'auto'"),
    })
  })

  it('may be left to zerohop, which says why it does not take CUDA', async () => {
    const { metadata } = await serves({})
    const [cuda, last] = metadata.executionProviders
    expect(cuda).toMatchObject({ name: 'cuda', used: cuda!.reason === null })
    expect(last).toEqual(cpu)
  })

  it('has a model that cannot be read refused for that', async () => {
    await expect(
      engine().load('m', { bytes: new Uint8Array([1, 2, 3]), executionProviders: ['webgpu', 'cpu'] }),
    ).rejects.toMatchObject({ code: 'ERR_MODEL_LOAD', argument: 'bytes' })
  })

  it('can be tried beforehand, which later loads go by', async () => {
    const warnings = fallbackWarnings()
    const on = engine()
    const found = await on.probeProviders()
    expect(found.every(({ available, reason }) => available !== null && reason !== '')).toBe(true)
    expect(found.find(({ name }) => name === 'cpu')).toMatchObject({ source: 'built-in', available: true })
    expect(on.capabilities().providers).toEqual(found)
    const absent = found.filter(({ available }) => available === false)
    const { metadata } = await serves({ executionProviders: [...absent.map(({ name }) => name), 'cpu'] }, on)
    expect(metadata.executionProviders).toEqual([
      ...absent.map(({ name, reason }) => ({ name, used: false, reason })),
      cpu,
    ])
    await vi.waitFor(() => expect(warnings).toHaveLength(absent.length))
  })
})

describe('what fails on a provider that is there', () => {
  const config = resolveConfig('m', {
    path: 'm.onnx',
    executionProviders: [{ name: 'webgpu', validationMode: 'no such mode' }, 'cpu'],
  })

  it('fails the load, and is no reason to go on without it', async () => {
    const providers = new EngineProviders([])
    providers.builtIn.opened('webgpu')
    expect(await providers.lacking(config)).toBe(false)
    expect(providers.use('m', config.executionProviders![0]!)).toMatchObject({
      name: 'webgpu',
      validationMode: 'no such mode',
    })
  })
})

it('a trial has its time', async () => {
  expect(await tryBuiltIn('cpu', 1)).toEqual({
    name: 'cpu',
    available: false,
    reason: 'loading it took more than 1 ms in a separate process',
  })
})

it.each(['close', 'destroy'] as const)('%s() waits for no trial', async (end) => {
  const engine = ownEngine()
  const probing = engine.probeProviders()
  await engine[end]()
  await expect(probing).rejects.toMatchObject({ code: 'ERR_CLOSED' })
})

it('an engine that is destroyed ends no trial of another', async () => {
  expect(await runFixture('other-trials.mjs', '')).toMatchObject({ code: 0, hung: false, answer: true })
})

it('nothing is tried by an engine that is closed', async () => {
  const engine = ownEngine()
  await engine.close()
  await expect(engine.probeProviders()).rejects.toMatchObject({ code: 'ERR_CLOSED' })
})
