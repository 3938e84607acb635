import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as plain from 'onnxruntime-node'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import defaultOrt, * as ort from '../../src/adapters/ort/ort-exports.ts'
import { addSub } from '../models/arithmetic.ts'
import { identity, identityVariable } from '../models/identity.ts'
import { mlp } from '../models/networks.ts'
import { int4Output, mapOutput, rowsAsSequence } from '../models/unusual-types.ts'
import { collectGarbage } from '../support/garbage.ts'
import { runsInPlace } from '../support/native.ts'
import { ownEngine, sharedEngine } from '../support/open.ts'
import { expectClose } from '../support/same.ts'
import { until } from '../support/until.ts'

const { createOrt, Tensor } = ort
const engine = sharedEngine()
const { InferenceSession } = createOrt(engine)

const row = (value: number) => new Tensor('float32', new Float32Array(4).fill(value), [1, 4])

/** A session for one test. */
async function opened(
  path: string,
  options?: ort.InferenceSession.SessionOptions,
): Promise<ort.InferenceSession> {
  const session = await InferenceSession.create(path, options)
  onTestFinished(() => session.release())
  return session
}

describe('what code of onnxruntime-node imports', () => {
  it('is there by name and by default', () => {
    expect(Object.keys(ort).sort()).toEqual(['InferenceSession', 'Tensor', 'createOrt', 'default', 'env'])
    expect(defaultOrt).toMatchObject({
      InferenceSession: ort.InferenceSession,
      Tensor: ort.Tensor,
      env: ort.env,
    })
  })

  it('has no training sessions', () => {
    expect(ort).not.toHaveProperty('TrainingSession')
  })

  it('has an environment whose settings are kept', () => {
    expect(ort.env.versions.common).toMatch(/^1\./)
    expect(ort.env.logLevel).toBe('warning')
  })
})

describe('the same program with onnxruntime-node and with zerohop', () => {
  it.each(['path', 'bytes', 'buffer', 'part of a buffer'])(
    'gives the same of a model that is given as its %s',
    async (form) => {
      const program = async (
        { InferenceSession }: Pick<ort.Ort, 'InferenceSession'>,
        Tensor: typeof ort.Tensor,
      ) => {
        const bytes = new Uint8Array(readFileSync(mlp()))
        const longer = new Uint8Array(bytes.length + 24)
        longer.set(bytes, 8)
        const session = await (form === 'path' ? InferenceSession.create(mlp())
        : form === 'bytes' ? InferenceSession.create(bytes)
        : form === 'buffer' ? InferenceSession.create(bytes.buffer)
        : InferenceSession.create(longer.buffer, 8, bytes.length, { intraOpNumThreads: 1 })) // prettier-ignore
        const answers = await session.run({
          input: new Tensor(
            'float32',
            Float32Array.from({ length: 128 }, (_, index) => Math.sin(index)),
            [2, 64],
          ),
        })
        const { inputNames, outputNames, inputMetadata, outputMetadata } = session
        await session.release()
        return { answers, told: { inputNames, outputNames, inputMetadata, outputMetadata } }
      }
      const [own, expected] = [
        await program({ InferenceSession }, Tensor),
        await program(plain, plain.Tensor as typeof ort.Tensor),
      ]
      expectClose(own.answers, expected.answers as never)
      expect(own.told).toEqual(expected.told)
    },
  )

  it.each<[string, (tensor: unknown) => unknown[]]>([
    ['no feeds', () => [undefined]],
    ['feeds that are a tensor', (tensor) => [tensor]],
    ['an input left out', (tensor) => [{ a: tensor }]],
    ['no names of outputs', () => [{}, []]],
    ['an output that is not there', () => [{}, ['z']]],
    ['names that are no text', () => [{}, [1]]],
    ['fetches of null', () => [{}, null]],
    ['fetches that are a tensor', (tensor) => [{}, tensor]],
    ['options that are not an object', () => [{}, ['sum'], 1]],
  ])('refuses %s in the same words', async (_, args) => {
    const refusal = async (session: unknown, tensor: unknown) => {
      const { run } = session as { run(...args: unknown[]): Promise<unknown> }
      const error = await run.apply(session, args(tensor)).then(
        () => null,
        (error: Error) => error,
      )
      return [error?.constructor.name, error?.message]
    }
    const other = await plain.InferenceSession.create(addSub('float32'))
    const own = await refusal(await opened(addSub('float32')), row(1))
    const expected = await refusal(other, new plain.Tensor('float32', new Float32Array(4), [1, 4]))
    expect(own).toEqual(expected)
    expect(own[0]).toMatch(/Error$/)
  })

  it.each<[string, unknown[]]>([
    ['nothing', []],
    ['no path', [12]],
    ['options that are not an object', ['path', 'options']],
    ['options of null', [new Uint8Array(1), null]],
    ['an offset that is no whole number', [new ArrayBuffer(8), 1.5]],
    ['an offset behind the end', [new ArrayBuffer(8), 8]],
    ['a length that is none', [new ArrayBuffer(8), 0, 'all']],
    ['a length past the end', [new ArrayBuffer(8), 4, 5]],
    ['options behind the length that are no object', [new ArrayBuffer(8), 4, 4, 1]],
  ])('refuses to open %s in the same words', async (_, args) => {
    const refusal = async (factory: unknown) => {
      const error = await (factory as { create(...args: unknown[]): Promise<unknown> }).create(...args).then(
        () => null,
        (error: Error) => error,
      )
      return [error?.constructor.name, error?.message]
    }
    expect(await refusal(InferenceSession)).toEqual(await refusal(plain.InferenceSession))
  })
})

describe('a session', () => {
  it('answers with the outputs that are asked for, in all ways of asking', async () => {
    const session = await opened(addSub('float32'))
    const tensor = (value: number) => new Tensor('float32', new Float32Array(16).fill(value), [1, 16])
    const feeds = { a: tensor(3), b: tensor(1), c: tensor(0) } // more than it takes
    const asked = [
      session.run(feeds),
      session.run(feeds, {}),
      session.run(feeds, ['sum']),
      session.run(feeds, { difference: null }),
      session.run(feeds, ['sum'], {}),
    ]
    expect((await Promise.all(asked)).map((outputs) => Object.keys(outputs).sort())).toEqual([
      ['difference', 'sum'],
      ['difference', 'sum'],
      ['sum'],
      ['difference'],
      ['sum'],
    ])
  })

  it('writes answers into the tensors that it is given for them', async () => {
    const session = await opened(identity('float32'))
    const mine = row(0)
    const { y } = await session.run({ x: row(5) }, { y: mine })
    expect(y).toBe(mine)
    expect([...(mine.data as Float32Array)]).toEqual([5, 5, 5, 5])
    const wrong = session.run({ x: row(5) }, { y: new Tensor('float32', new Float32Array(8), [2, 4]) })
    await expect(wrong).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      expected: expect.stringContaining('float32[1, 4]'),
    })
  })

  it('fills strings into a tensor of strings', async () => {
    const session = await opened(identity('string', [2]))
    const mine = new Tensor('string', ['', ''], [1, 2])
    await session.run({ x: new Tensor('string', ['one', 'two'], [1, 2]) }, { y: mine })
    expect(mine.data).toEqual(['one', 'two'])
  })

  it('fills as many strings as there are', async () => {
    const session = await opened(identityVariable('string'))
    const count = 200_000
    const strings = (text: string) =>
      new Tensor(
        'string',
        Array.from({ length: count }, () => text),
        [1, count],
      )
    const mine = strings('')
    await session.run({ x: strings('text') }, { y: mine })
    expect(mine.data.at(-1)).toBe('text')
  })

  it("gives answers that are the caller's own", async () => {
    const session = await opened(identity('float32'))
    const answers = await Promise.all([1, 2, 3].map((value) => session.run({ x: row(value) })))
    const buffers = answers.map(({ y }) => (y!.data as Float32Array).buffer)
    expect(new Set(buffers).size).toBe(3)
    ;(answers[0]!['y']!.data as Float32Array).fill(9)
    expect(answers.map(({ y }) => y!.data[0])).toEqual([9, 2, 3])
  })

  it('shares a run among concurrent calls where rows are independent', async () => {
    const own = ownEngine({ inline: false })
    const session = await createOrt(own, { dynamicBatching: { holdUntilQueued: 8 } }).InferenceSession.create(
      identity('float32'),
    )
    const answers = await Promise.all(Array.from({ length: 8 }, (_, value) => session.run({ x: row(value) })))
    expect(answers.map(({ y }) => y!.data[0])).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    expect(own.models()[0]!.stats()).toMatchObject({ inferenceCount: 8, executionCount: 1 })
  })

  it('is an InferenceSession, and of onnxruntime-common as well', async () => {
    const session = await opened(identity('float32'))
    expect(session).toBeInstanceOf(InferenceSession)
    expect(session.constructor.name).toBe('InferenceSession')
  })

  it.runIf(runsInPlace)('takes and gives integers of 4 bits', async () => {
    const session = await opened(int4Output())
    expect(session.outputMetadata).toEqual(
      expect.arrayContaining([expect.objectContaining({ type: 'int4' })]),
    )
    const { q } = await session.run({ x: row(3) })
    expect(q).toMatchObject({ type: 'int4', dims: [1, 4] })
  })

  it.runIf(runsInPlace)('says which output is no tensor, and answers with the others', async () => {
    const session = await opened(mapOutput())
    expect(session.outputMetadata).toEqual([{ name: 'm', isTensor: false }])
    const refused = session.run({ x: new Tensor('float32', new Float32Array(3), [1, 3]) })
    await expect(refused).rejects.toMatchObject({ code: 'ERR_INVALID_ARG', argument: 'm' })
  })

  it('ends its runs before it is released, and runs no more after', async () => {
    const session = await InferenceSession.create(identity('float32'))
    const last = session.run({ x: row(1) })
    await session.release()
    expect((await last)['y']!.data[0]).toBe(1)
    await expect(session.run({ x: row(1) })).rejects.toThrow('Session already disposed.')
    expect(session.inputNames).toEqual(['x'])
  })

  it('rejects what does not fit, and what cannot be opened, with an InferenceError', async () => {
    const session = await opened(addSub('float32'))
    const feeds = {
      a: new Tensor('float32', new Float32Array(16), [1, 16]),
      b: new Tensor('float32', new Float32Array(8), [1, 8]),
    }
    await expect(session.run(feeds)).rejects.toMatchObject({
      name: 'InferenceError',
      code: 'ERR_INVALID_ARG',
      argument: "input 'b'",
    })
    await expect(InferenceSession.create('not-there.onnx')).rejects.toMatchObject({
      code: 'ERR_MODEL_NOT_FOUND',
    })
    await expect(InferenceSession.create(Uint8Array.of(1, 2, 3))).rejects.toMatchObject({
      code: 'ERR_MODEL_LOAD',
    })
  })
})

describe('sessions of one file', () => {
  let own: ReturnType<typeof ownEngine>
  let path: string
  beforeAll(() => {
    path = identity('float32')
  })
  const ortOf = () => createOrt((own = ownEngine())).InferenceSession

  it('share one model as long as one of them is open', async () => {
    const Session = ortOf()
    const [first, second] = await Promise.all([
      Session.create(path),
      Session.create(path, { graphOptimizationLevel: undefined as never }),
    ])
    expect(own.models()).toHaveLength(1)
    await first.release()
    expect((await second.run({ x: row(2) }))['y']!.data[0]).toBe(2)
    await second.release()
    expect(own.models()).toHaveLength(0)
    const third = await Session.create(path)
    expect((await third.run({ x: row(3) }))['y']!.data[0]).toBe(3)
  })

  it('have models of their own where their options differ', async () => {
    const Session = ortOf()
    await Promise.all([
      Session.create(path),
      Session.create(path, { intraOpNumThreads: 1 }),
      Session.create(path, { graphOptimizationLevel: 'disabled' }),
    ])
    expect(own.models()).toHaveLength(3)
  })

  it('tell options that are no plain data apart by what they are', async () => {
    own = ownEngine()
    const warmed = (data: BigInt64Array) =>
      createOrt(own, { warmup: [{ feeds: { x: new Tensor('int64', data, [1, 4]) } }] }).InferenceSession
    const [one, other] = [warmed(new BigInt64Array(4)), warmed(new BigInt64Array(4).fill(1n))]
    await Promise.all([one, one, other].map((Session) => Session.create(identity('int64'))))
    expect(own.models()).toHaveLength(2)
  })

  it('have what is wrong with options said by the load, whatever they are', async () => {
    own = ownEngine()
    const circle: { self?: object } = {}
    circle.self = circle
    for (const options of [{ maxBatchSize: 5n }, { padding: circle }]) {
      await expect(createOrt(own, options as never).InferenceSession.create(path)).rejects.toMatchObject({
        code: 'ERR_MODEL_CONFIG',
      })
    }
    expect(() => createOrt({} as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: 'engine' }),
    )
    expect(() => createOrt(own, null as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: 'options' }),
    )
  })

  it('share one model through two objects of the same engine', async () => {
    const Session = ortOf()
    await Promise.all([Session.create(path), createOrt(own).InferenceSession.create(path)])
    expect(own.models()).toHaveLength(1)
  })

  it('have another model once the file is another', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'model.onnx')
    const Session = ortOf()
    copyFileSync(identity('float32'), file)
    const before = await Session.create(file)
    rmSync(file)
    copyFileSync(identityVariable('float32'), file)
    const after = await Session.create(file)
    expect([before.inputMetadata, after.inputMetadata]).toMatchObject([
      [{ shape: ['N', 4] }],
      [{ shape: ['N', 'L'] }],
    ])
  })

  it('are opened anew after an opening has failed', async () => {
    const Session = ortOf()
    await expect(
      Promise.all([Session.create('not-there.onnx'), Session.create('not-there.onnx')]),
    ).rejects.toMatchObject({ code: 'ERR_MODEL_NOT_FOUND' })
    await expect(Session.create('not-there.onnx')).rejects.toMatchObject({ code: 'ERR_MODEL_NOT_FOUND' })
    expect(own.models()).toHaveLength(0)
  })

  it('are opened anew where somebody has unloaded their model', async () => {
    const Session = ortOf()
    await Session.create(path)
    await own.models()[0]!.unload()
    const session = await Session.create(path)
    expect((await session.run({ x: row(4) }))['y']!.data[0]).toBe(4)
  })

  it('give their model back when they are dropped', async () => {
    const Session = ortOf()
    await Session.create(path)
    await until(() => {
      collectGarbage()
      return own.models().length === 0
    })
  })

  it.runIf(runsInPlace)('whose outputs are no tensors are refused nothing but those', async () => {
    const session = await ortOf().create(rowsAsSequence())
    expect(session.outputMetadata.map(({ isTensor }) => isTensor)).toContain(false)
  })
})
