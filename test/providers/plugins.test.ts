// Alone: it changes the environment of its process.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { InferenceEngine, type EngineOptions } from '../../src/index.ts'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { tryInChild } from '../../src/run/executors/native/trial-process.ts'
import { loadBinding } from '../../src/native/addon.ts'
import { mlp } from '../models/networks.ts'
import { matchesPlain } from '../support/against-plain.ts'
import { load, ownEngine } from '../support/open.ts'
import { noise } from '../support/samples.ts'
import { fallbackWarnings } from './fallback-warnings.ts'
import { libraryThat } from './libraries.ts'

const { version, reason } = openNativeOrt()
const root = fileURLToPath(new URL('../..', import.meta.url))
const absent = '/nonexistent/plugin.so'
const withPlugin = (library: string, options: EngineOptions = {}) =>
  ownEngine({ cpuWorkers: 1, providers: { extra: { library } }, ...options })

beforeEach(() => void vi.stubEnv('ZEROHOP_EXECUTOR', '')) // whatever the other tests run with

describe('provider plugins in the options', () => {
  it.each([
    ['no library', { extra: {} }, 'options.providers.extra.library'],
    [
      'a URL of another scheme',
      { extra: { library: new URL('https://example.org/plugin.so') } },
      'options.providers.extra.library',
    ],
    [
      'a precision that there is not',
      { extra: { library: absent, precision: 'int4' } },
      'options.providers.extra.precision',
    ],
    ['a name that means something else', { cpu: { library: absent } }, 'options.providers.cpu'],
    ['a name with capital letters', { OpenVINO: { library: absent } }, 'options.providers.OpenVINO'],
  ])('are refused with %s', (_, providers, argument) => {
    expect(() => new InferenceEngine({ providers: providers as never })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument }),
    )
  })

  it("are refused with executor: 'binding', which says what to take", () => {
    const options = { executor: 'binding', providers: { extra: { library: absent } } } as const
    expect(() => new InferenceEngine(options)).toThrow(/options\.providers: .*Take executor: 'native'/)
  })

  it('are not touched before a model asks for them', () => {
    const { providers } = withPlugin(absent).capabilities()
    expect(providers).toEqual([
      {
        name: 'extra',
        source: 'plugin',
        library: absent,
        precision: null,
        available: null,
        reason: 'no model uses it',
        devices: [],
      },
    ])
  })

  it('make kinds of instances, and no others', async () => {
    const loading = withPlugin(absent).load('m', { path: mlp(), instanceGroup: [{ kind: 'other' }] })
    await expect(loading).rejects.toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument: 'instanceGroup[0].kind',
      received: 'other',
    })
  })
})

describe.skipIf(version === undefined)(
  `a plugin that cannot be used${reason === undefined ? '' : ` (skipped: ${reason.split('\n', 1)[0]})`}`,
  () => {
    it('is left out with a warning and a reason, whichever way it is asked for', async () => {
      const warnings = fallbackWarnings()
      const engine = withPlugin(absent)
      for (const config of [
        { instanceGroup: [{ kind: 'extra' }] },
        { executionProviders: [{ name: 'extra', anything: 1 }, 'cpu'] },
      ]) {
        await matchesPlain(await load(engine, mlp(), config), [{ input: noise([2, 64]) }])
      }
      const [extra, ...builtIn] = engine.capabilities().providers
      expect(extra).toMatchObject({
        name: 'extra',
        available: false,
        reason: expect.stringContaining('there is no such library'),
      })
      expect(builtIn.map(({ name }) => name)).toContain('cpu')
      await vi.waitFor(() => expect(warnings).toHaveLength(1))
      expect(warnings[0]).toContain("provider plugin 'extra' cannot be used: there is no such library")
    })

    it('makes a load fail that names nothing else', async () => {
      const loading = withPlugin(absent).load('m', { path: mlp(), executionProviders: ['extra'] })
      await expect(loading).rejects.toMatchObject({
        code: 'ERR_MODEL_LOAD',
        argument: 'executionProviders',
        received: ['extra'],
        message: expect.stringContaining('extra: there is no such library'),
      })
    })

    it('makes a load fail that requires it, in a list or by a kind', async () => {
      const engine = withPlugin(absent)
      for (const config of [
        { executionProviders: [{ name: 'extra', required: true }, 'cpu'] },
        { instanceGroup: [{ kind: 'extra' }], required: true },
      ]) {
        const loading = engine.load('m', { path: mlp(), ...config })
        await expect(loading).rejects.toMatchObject({
          code: 'ERR_MODEL_LOAD',
          received: ['extra'],
          message: expect.stringContaining('there is no such library'),
        })
      }
    })

    it('is in the metadata of a model that is loaded without it', async () => {
      const { metadata } = await load(withPlugin(absent), mlp(), { instanceGroup: [{ kind: 'extra' }] })
      expect(metadata.executionProviders).toEqual([
        { name: 'extra', used: false, reason: expect.stringContaining('there is no such library') },
        { name: 'cpu', used: true, reason: null },
      ])
    })

    it('is found out by probeProviders(), too, which leaves the process without it', async () => {
      const engine = withPlugin(loadBinding().path!)
      const [extra] = await engine.probeProviders()
      expect(extra).toMatchObject({
        name: 'extra',
        available: false,
        reason: expect.stringContaining('CreateEpFactories'),
      })
    })

    it('is not meant by its name in other letters, also where the model cannot be opened', async () => {
      const engine = withPlugin(absent)
      const executionProviders = ['Extra', 'cpu']
      const { metadata } = await load(engine, mlp(), { executionProviders })
      expect(metadata.executionProviders[0]).toEqual({
        name: 'Extra',
        used: false,
        reason: expect.stringContaining('neither built into ONNX Runtime'),
      })
      await expect(
        engine.load('broken', { bytes: Uint8Array.of(1, 2, 3), executionProviders }),
      ).rejects.toMatchObject({ code: 'ERR_MODEL_LOAD', argument: 'bytes' })
    })

    it('is tried again by probeProviders(), as what it lacked may be there', async ({ skip }) => {
      const library =
        libraryThat('if (!getenv("REPAIRED")) { write(2, "it is broken", 12); abort(); }') ??
        skip('no C compiler')
      const engine = withPlugin(library)
      await load(engine, mlp(), { instanceGroup: [{ kind: 'extra' }] })
      const found = async () => (await engine.probeProviders())[0]!.reason
      expect(await found()).toContain('it is broken')
      vi.stubEnv('REPAIRED', 'yes')
      expect(await found()).toContain('CreateEpFactories')
      expect(engine.capabilities().providers[0]!.reason).toContain('CreateEpFactories')
    })

    it('may be a library that is none of ONNX Runtime', async () => {
      const engine = withPlugin(loadBinding().path!)
      await load(engine, mlp(), { instanceGroup: [{ kind: 'extra' }] })
      expect(engine.capabilities().providers[0]!.reason).toContain('CreateEpFactories')
    })

    it('ends a process of its own, and not the application', async ({ skip }) => {
      const library = libraryThat('write(2, "wrong machine", 13); abort();') ?? skip('no C compiler')
      const engine = withPlugin(library)
      await matchesPlain(await load(engine, mlp(), { instanceGroup: [{ kind: 'extra' }] }), [
        { input: noise([1, 64]) },
      ])
      expect(engine.capabilities().providers[0]!.reason).toBe(
        'the separate process that tried it ended: with SIGABRT (wrong machine)',
      )
    })

    it('may hang: then its time is up', async ({ skip }) => {
      const library = libraryThat('for (;;) pause();') ?? skip('no C compiler')
      expect(await tryInChild('extra', library, 1000)).toEqual({
        reason: 'loading it took more than 1000 ms in a separate process',
      })
    })

    it.for(['close', 'destroy'] as const)(
      'may hang while its engine ends by %s(), which does not wait for it',
      async (end, { skip }) => {
        const library = libraryThat(`for (;;) pause(); /* ${end} */`) ?? skip('no C compiler')
        const engine = withPlugin(library)
        const loading = load(engine, mlp(), { instanceGroup: [{ kind: 'extra' }] })
        await new Promise(setImmediate)
        await engine[end]()
        await expect(loading).rejects.toMatchObject({ code: 'ERR_CLOSED' })
      },
    )

    it('may hang while it is probed, and holds no process whose engine is closed', ({ skip }) => {
      const library = libraryThat('for (;;) pause(); /* probed */') ?? skip('no C compiler')
      const program = `
      import { InferenceEngine } from 'zerohop'
      const engine = new InferenceEngine({ providers: { extra: { library: ${JSON.stringify(library)} } } })
      engine.probeProviders().catch(({ code }) => console.log(code))
      const isNext = ({ source, available }) => source === 'plugin' || available !== null
      const timer = setInterval(() => {
        const { length } = engine.capabilities().providers.filter(isNext)
        if (length < 2 || length < engine.capabilities().providers.length) return
        clearInterval(timer)
        engine.close()
      }, 10)
    `
      const ended = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
        cwd: root,
        encoding: 'utf8',
        timeout: 30_000,
      })
      expect(ended).toMatchObject({ status: 0, signal: null, stdout: 'ERR_CLOSED\n' })
    })

    it('is one where ZEROHOP_EXECUTOR asks for the binding', async () => {
      vi.stubEnv('ZEROHOP_EXECUTOR', 'binding')
      const engine = withPlugin(absent)
      await load(engine, mlp(), { instanceGroup: [{ kind: 'extra' }] })
      expect(engine.capabilities().providers[0]!.reason).toBe(
        "it takes executor: 'native', and 'binding' is at work (ZEROHOP_EXECUTOR says so)",
      )
    })
  },
)
