// Alone: run options are warned of once in a process.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createOrt, type InferenceSession, Tensor } from '../../src/adapters/ort/ort-exports.ts'
import { graph } from '../models/builder.ts'
import { identity } from '../models/identity.ts'
import { endsEachTime, testTimeoutMs } from '../process/child.ts'
import { ownEngine } from '../support/open.ts'

type Options = InferenceSession.SessionOptions

const row = () => new Tensor('float32', Float32Array.of(1, 2, 3, 4), [1, 4])

function ownFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

/** A session on an engine of its own. */
async function opened(options: Options, source: string | Uint8Array = identity('float32')) {
  const engine = ownEngine()
  const session = await createOrt(engine).InferenceSession.create(source as string, options)
  return { session, engine, model: engine.models()[0]! }
}

describe('session options', () => {
  const warnings: string[] = []
  const note = (warning: Error & { code?: string }) => warnings.push(`${warning.code}: ${warning.message}`)
  beforeEach(() => {
    warnings.length = 0
    process.on('warning', note)
  })
  afterEach(() => void process.off('warning', note))

  const told = async () => {
    await new Promise(setImmediate)
    return warnings.filter((warning) => warning.startsWith('ZEROHOP_ORT_IGNORED'))
  }

  it('that ONNX Runtime has are honoured without a word', async () => {
    const { session } = await opened({
      executionProviders: ['cpu'], intraOpNumThreads: 1, interOpNumThreads: 1, graphOptimizationLevel: 'basic', enableCpuMemArena: false, enableMemPattern: false,
      executionMode: 'sequential', logId: 'mine', logSeverityLevel: 4, logVerbosityLevel: 0, extra: { session: { intra_op: { allow_spinning: '0' } } },
    }) // prettier-ignore
    expect((await session.run({ x: row() }))['y']!.data[3]).toBe(4)
    expect(await told()).toEqual([])
  })

  it('that are not given run on the CPU, as those of onnxruntime-node', async () => {
    const { model } = await opened({})
    expect(model.metadata.executionProviders).toEqual([{ name: 'cpu', used: true, reason: null }])
    const { model: none } = await opened({ executionProviders: [] })
    expect(none.metadata.executionProviders.map(({ name }) => name)).toEqual(['cpu'])
  })

  it('that are null are as good as not given', async () => {
    const options = {
      executionProviders: null,
      freeDimensionOverrides: null,
      externalData: null,
      preferredOutputLocation: null,
    } as never
    expect((await (await opened(options)).session.run({ x: row() }))['y']!.data[3]).toBe(4)
    expect(await told()).toEqual([])
  })

  it('that are wrong are refused by the load', async () => {
    await expect(opened({ externalData: {} as never })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'externalData',
    })
    await expect(opened({ intraOpNumThreads: -1 })).rejects.toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument: 'sessionOptions.intraOpNumThreads',
    })
    await expect(opened({ executionProviders: ['nonsense'] })).rejects.toMatchObject({
      code: 'ERR_MODEL_LOAD',
    })
    await expect(opened({ externalData: [{ path: 'a', data: 1 as never }] })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'externalData',
    })
  })

  it('that mean nothing here are ignored with one warning', async () => {
    const options = {
      enableGraphCapture: true,
      preferredOutputLocation: 'gpu-buffer',
      unheardOf: 1,
    } as Options
    await opened(options)
    await opened(options)
    expect(await told()).toEqual([
      expect.stringContaining("session option 'enableGraphCapture' is ignored"),
      expect.stringContaining("session option 'unheardOf' is ignored"),
      expect.stringContaining("session option 'preferredOutputLocation' is ignored"),
    ])
    await opened({ preferredOutputLocation: { y: 'cpu' } })
    expect(await told()).toHaveLength(3)
  })

  it('of a run are ignored with one warning', async () => {
    const { session } = await opened({})
    const options = { tag: 'mine', logSeverityLevel: 4, terminate: true } as const
    for (let run = 0; run < 2; run++) await session.run({ x: row() }, options)
    expect(await told()).toEqual([
      expect.stringContaining("run option 'tag'"),
      expect.stringContaining("run option 'logSeverityLevel'"),
      expect.stringMatching(/run option 'terminate' .* a signal/),
    ])
    await session.run({ x: row() }, { terminate: false })
    expect(await told()).toHaveLength(3)
  })

  it('fix free dimensions', async () => {
    const engine = ownEngine({ executor: 'native' })
    const { InferenceSession } = createOrt(engine)
    const session = await InferenceSession.create(identity('float32'), { freeDimensionOverrides: { N: 1 } })
    expect(session.inputMetadata).toMatchObject([{ shape: [1, 4] }])
  })

  it('have a profile written by the time of the release', async () => {
    const folder = ownFolder()
    const { session } = await opened({ enableProfiling: true, profileFilePrefix: join(folder, 'profile') })
    session.startProfiling()
    await session.run({ x: row() })
    session.endProfiling()
    expect(await told()).toEqual([expect.stringContaining('endProfiling() is ignored')])
    await session.release()
    await vi.waitUntil(() => readdirSync(folder).length > 0)
    expect(readFileSync(join(folder, readdirSync(folder)[0]!), 'utf8')).toContain('model_run')
  })

  it('give external data as bytes, a buffer, a blob or a file', async () => {
    const folder = ownFolder()
    const weights = Buffer.from(Float32Array.of(10, 20, 30, 40).buffer)
    const { model } = graph('external')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .initializer('w', 'float32', [4], [10, 20, 30, 40], { externalFile: 'weights.bin' })
      .node('Add', ['x', 'w'], ['y'])
      .bundle()
    const file = join(folder, 'weights.bin')
    writeFileSync(file, weights)
    const forms = [new Uint8Array(weights), new Uint8Array(weights).buffer, new Blob([weights]), file]
    for (const externalData of [...forms.map((data) => [{ path: 'weights.bin', data }]), [file]]) {
      const { session } = await opened({ externalData: externalData as never }, model)
      expect([...((await session.run({ x: row() }))['y']!.data as Float32Array)]).toEqual([11, 22, 33, 44])
    }
  })

  it('may leave the prefix of profiles to the whole engine', async () => {
    const sessionOptions = { profileFilePrefix: join(ownFolder(), 'profile') }
    const { InferenceSession } = createOrt(ownEngine(), { sessionOptions })
    await (await InferenceSession.create(identity('float32'), { enableProfiling: true })).release()
  })

  it('go before those of the whole engine', async () => {
    const engine = ownEngine()
    const ort = createOrt(engine, { maxBatchSize: 0, sessionOptions: { intraOpNumThreads: 2, logId: 'all' } })
    await ort.InferenceSession.create(identity('float32'), { intraOpNumThreads: 1 })
    expect(engine.models()[0]!.metadata.maxBatchSize).toBe(0)
    expect(ort.engine).toBe(engine)
  })
})

it(
  'a process that has run a session, and neither released it nor closed anything, ends when nothing runs',
  { timeout: testTimeoutMs },
  async () => {
    await endsEachTime('ort.mjs', 'run', { answer: { y: [1, 2, 3, 4], models: 1 } })
  },
)

it('a module may be imported without an engine being made', { timeout: testTimeoutMs }, async () => {
  await endsEachTime('ort.mjs', 'import', { answer: { threads: 0 } })
})

it('is left to be imported by CommonJS as well', async () => {
  expect((await import('node:module')).createRequire(import.meta.url)('zerohop/ort')).toHaveProperty(
    'InferenceSession',
  )
})
