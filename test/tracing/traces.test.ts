import { readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import sharp from 'sharp'
import { describe, expect, it } from 'vitest'
import { Tensor } from '../../src/index.ts'
import { noOptions } from '../../src/options/infer-options.ts'
import { JsonArrayFile } from '../../src/observe/json-array-file.ts'
import { TraceAccount } from '../../src/observe/trace-writer.ts'
import { TracedRequest } from '../../src/observe/traced-request.ts'
import { gatherRow, identity, identityVariable } from '../models/small.ts'
import { loadGate, loadNumber, one, step } from '../pipelines/arithmetic.ts'
import { deferred } from '../support/deferred.ts'
import { load, ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { errorOf, temporaryFolder } from '../triton-repository/temporary.ts'
import { namesOf, tracedEngine } from './traced-engine.ts'

const whole = [
  'REQUEST_START',
  'QUEUE_START',
  'COMPUTE_START',
  'COMPUTE_INPUT_END',
  'COMPUTE_OUTPUT_START',
  'COMPUTE_END',
  'INFER_RESPONSE_COMPLETE',
  'REQUEST_END',
]
const row = (value = 1) => ({ x: new Tensor('float32', new Float32Array(4).fill(value), [1, 4]) })

describe('a trace', () => {
  it('has the records of Triton, in a file that is JSON, and what a replay and a timeline need', async () => {
    const { engine, file, traces } = tracedEngine()
    const model = await engine.load('m', {
      path: identity('float32'),
      version: 3,
      dynamicBatching: { priorityLevels: 2, defaultPriorityLevel: 2 },
    })
    await Promise.all([
      model.infer(row(), { requestId: 'a "b"\n', priority: 1, timeoutMs: 500, deadlineMs: 900 }),
      model.infer({ x: new Tensor('float32', new Float32Array(8), [2, 4]) }),
    ])
    const [first, second] = await traces()
    expect(first).toMatchObject({
      model: 'm',
      version: 3,
      requestId: 'a "b"\n',
      rows: 1,
      priority: 1,
      timeoutMs: 500,
      deadlineMs: 900,
    })
    expect(second).toMatchObject({ model: 'm', version: 3, rows: 2 })
    expect(second!.id).toBe(first!.id + 1)
    expect(second).not.toHaveProperty('requestId')
    for (const trace of [first!, second!]) {
      expect(namesOf(trace)).toEqual(whole)
      expect(trace.timestamps.map(({ ns }) => ns)).toEqual(
        trace.timestamps.map(({ ns }) => ns).toSorted((a, b) => a - b),
      )
      expect(trace.batches).toEqual([
        expect.objectContaining({
          id: 1,
          instance: 'm_0',
          worker: 'cpu_0',
          rows: 3,
          requests: 2,
          rerun: false,
        }),
      ])
    }
    expect(second!.batches[0]!.position).toBe(1)
    const records = JSON.parse(readFileSync(file, 'utf8')) as object[]
    expect(records.map((record) => Object.keys(record).slice(0, 3))).toEqual([
      ['id', 'model_name', 'model_version'],
      ['id', 'timestamps'],
      ['id', 'model_name', 'model_version'],
      ['id', 'timestamps'],
    ])
    expect(engine.trace.stats()).toEqual({
      begun: 2,
      written: 2,
      dropped: 0,
      failed: 0,
      bufferedBytes: 0,
      failure: null,
    })
    expect(engine.stats().traces).toEqual(engine.trace.stats())
  })

  it('has the dims that the model leaves open, and the tensors, of any type', async () => {
    const { engine, traces } = tracedEngine({ level: ['TIMESTAMPS', 'TENSORS'] })
    const model = await load(engine, identityVariable('float32'))
    await model.infer({ x: new Tensor('float32', [1, -0.5, Infinity, NaN, -0, 3], [2, 3]) })
    const kinds = [
      ['float16', Uint16Array.of(0x3c00, 0xc000, 0x7c00, 0x8000), '1,-2,Infinity,-0', 'FP16'], ['int64', BigInt64Array.of(1n, -2n, 2n ** 62n, 0n), '1,-2,4611686018427387904,0', 'INT64'],
      ['string', ['a,b', '"', 'é\n', ''], '"a,b","\\"","é\\n",""', 'BYTES'], ['bool', Uint8Array.of(1, 0, 1, 1), '1,0,1,1', 'BOOL'], ['uint8', Uint8Array.of(0, 1, 2, 255), '0,1,2,255', 'UINT8'],
    ] as const // prettier-ignore
    for (const [type, data] of kinds)
      await (await load(engine, identity(type))).infer({ x: new Tensor(type, data as never, [1, 4]) })
    const [first, ...others] = await traces()
    expect(first!.dims).toEqual({ x: [2, 3] })
    const tensor = { name: 'x', data: '1,-0.5,Infinity,NaN,-0,3', shape: '2,3', dtype: 'FP32' }
    expect(first!.tensors).toEqual([
      { activity: 'TENSOR_QUEUE_INPUT', ...tensor },
      { activity: 'TENSOR_BACKEND_OUTPUT', ...tensor, name: 'y' },
    ])
    for (const [index, [, , data, dtype]] of kinds.entries()) {
      expect(others[index]!.dims).toBeUndefined()
      expect(others[index]!.tensors).toEqual(
        [
          ['TENSOR_QUEUE_INPUT', 'x'],
          ['TENSOR_BACKEND_OUTPUT', 'y'],
        ].map(([activity, name]) => ({ activity, name, data, shape: '1,4', dtype })),
      )
    }
  })

  it('of an encoded image has the pixels', async () => {
    const { engine, traces } = tracedEngine({ level: ['TIMESTAMPS', 'TENSORS'] })
    const model = await load(engine, identity('float32', [3, 1, 2]), { inputs: [{ name: 'x', image: {} }] })
    const x = await sharp({ create: { width: 2, height: 1, channels: 3, background: { r: 9, g: 8, b: 7 } } })
      .png()
      .toBuffer()
    await model.infer({ x })
    const [trace] = await traces()
    expect(namesOf(trace!)).toEqual(whole)
    expect(trace!.tensors.map(({ activity, data }) => [activity, data])).toEqual(
      ['TENSOR_QUEUE_INPUT', 'TENSOR_BACKEND_OUTPUT'].map((activity) => [activity, '9,9,8,8,7,7']),
    )
  })

  it('of what was changed after the call has the tensors as they were, with a report or without', async () => {
    const { engine, traces } = tracedEngine({ level: 'TENSORS' })
    const model = await load(engine, identity('float32'))
    const data = new Float32Array(4).fill(7)
    const answer = model.infer({ x: new Tensor('float32', data, [1, 4]) }, { report: true }).then(
      () => null,
      () => null,
    )
    data.fill(8)
    await answer
    const [trace] = await traces()
    expect(trace!.timestamps).toEqual([])
    expect(trace!.tensors[0]!.data).toBe('7,7,7,7')
  })

  it('of a request that is not answered says why', async () => {
    const { engine, traces } = tracedEngine()
    const gate = await loadGate(engine, 'gate', {
      concurrency: 1,
      maxBatchSize: 1,
      dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 1 } },
    })
    const model = engine.model('gate')
    const withdrawal = new AbortController()
    const running = model.infer({ x: one(1) })
    await until(() => gate.calls === 1)
    const waiting = model.infer({ x: one(2) }, { signal: withdrawal.signal })
    const refused = model.infer({ x: one(3) }, { requestId: 'third' })
    await expect(refused).rejects.toMatchObject({ code: 'ERR_QUEUE_FULL' })
    withdrawal.abort()
    await expect(waiting).rejects.toThrow()
    gate.open()
    await running
    const all = await traces()
    expect(all.map(({ error }) => error)).toEqual([undefined, 'cancelled', 'ERR_QUEUE_FULL'])
    expect(all.map(namesOf)).toEqual([
      whole,
      ['REQUEST_START', 'QUEUE_START', 'REQUEST_END'],
      ['REQUEST_START', 'QUEUE_START', 'REQUEST_END'],
    ])
  })

  it('of a batch with a request that fails shows the runs that found it out', async () => {
    const { engine, traces } = tracedEngine()
    const model = await engine.load('m', { path: gatherRow(), maxBatchSize: 8, checkRows: false })
    const ask = (index: bigint) =>
      model.infer({ index: new Tensor('int64', [index], [1, 1]) }).then(
        () => null,
        (error: { code: string }) => error.code,
      )
    const codes = await Promise.all([ask(0n), ask(100n)])
    expect(codes).toEqual([null, 'ERR_EXECUTION'])
    const [good, bad] = await traces()
    expect([good!.error, bad!.error]).toEqual([undefined, 'ERR_EXECUTION'])
    expect(good!.batches.map(({ rerun, moments }) => [rerun, moments !== null])).toEqual([
      [false, false],
      [true, true],
    ])
    expect(bad!.batches.map(({ error }) => typeof error)).toEqual(['string', 'string'])
  })

  it('of a request that is split has its parts, and is one', async () => {
    const { engine, traces } = tracedEngine()
    const model = await engine.load('m', { path: identity('float32'), maxBatchSize: 2, splitOversized: true })
    await model.infer({ x: new Tensor('float32', new Float32Array(20), [5, 4]) })
    const all = await traces()
    expect(all).toHaveLength(1)
    expect(all[0]!.batches.map(({ part, rows }) => [part, rows])).toEqual([
      [0, 2],
      [1, 2],
      [2, 1],
    ])
    expect(namesOf(all[0]!)).toEqual(whole.filter((name) => !/INPUT_END|OUTPUT_START/.test(name)))
  })

  it('of an answer that was shared says so', async () => {
    const { engine, traces } = tracedEngine()
    const model = await engine.load('m', { path: identity('float32'), responseCache: true })
    await Promise.all([model.infer(row()), model.infer(row())])
    await model.infer(row())
    const all = await traces()
    expect(all.map(({ shared, batches }) => [shared, batches.length])).toEqual([
      [undefined, 1],
      ['coalesced', 0],
      ['cached', 0],
    ])
    expect(all.map(({ error }) => error)).toEqual([undefined, undefined, undefined])
  })

  it('of a pipeline has those of its steps inside, whatever their own settings are', async () => {
    const { engine, traces } = tracedEngine({
      level: ['TIMESTAMPS', 'TENSORS'],
      models: { plus: { level: 'OFF' } },
    })
    await loadNumber(engine, 'twice', (x) => 2 * x)
    await loadNumber(engine, 'plus', (x) => x + 1)
    await engine.loadPipeline('inner', { inputs: ['x'], steps: [step('plus', 'x', 'y')], outputs: ['y'] })
    const model = await engine.loadPipeline('outer', {
      inputs: ['x'],
      steps: [step('twice', 'x', 'a'), { model: 'inner', inputs: { x: 'a' }, outputs: { y: 'y' } }],
      outputs: ['y'],
    })
    await model.infer({ x: one(3) }, { requestId: 'r' })
    await engine.model('plus').infer({ x: one(1) })
    const all = await traces()
    const outer = all[0]!.id
    expect(all.map(({ model: name, id, parentId, requestId }) => [name, id - outer, parentId === undefined ? null : parentId - outer, requestId])).toEqual([
      ['outer', 0, null, 'r'], ['twice', 1, 0, 'r'], ['inner', 2, 0, 'r'], ['plus', 3, 2, 'r'],
    ]) // prettier-ignore
    expect(all.map(({ tensors }) => tensors.map(({ name, data }) => `${name}=${data}`))).toEqual([
      ['x=3', 'y=7'],
      ['x=3', 'y=6'],
      ['x=6', 'y=7'],
      ['x=6', 'y=7'],
    ])
  })

  it('of a function has those of the models that it asks inside, of whatever batch, and of nobody else', async () => {
    const { engine, traces } = tracedEngine({ rate: 2 })
    const [late, ended] = [deferred<void>(), deferred<void>()]
    await loadNumber(engine, 'inner', (x) => x + 1)
    await engine.loadPipeline('pipe', { inputs: ['x'], steps: [step('inner', 'x', 'y')], outputs: ['y'] })
    const run = async ({ x }: { x: { data: Float32Array } }) => {
      const answers = await Promise.all(
        Array.from(x.data, (value) => engine.infer(value < 10 ? 'inner' : 'pipe', { x: one(value) })),
      )
      if (x.data[0] === 3)
        void late.promise.then(() => engine.infer('inner', { x: one(100) })).then(() => ended.resolve())
      return { y: Float32Array.from(answers, ({ y }) => y!.data[0] as number) }
    }
    const declared = {
      inputs: [{ name: 'x', type: 'float32', dims: [1] }],
      outputs: [{ name: 'y', type: 'float32', dims: [1] }],
    } as const
    await engine.loadFunction('outer', { ...declared, concurrency: 4, run })
    const ask = (x: number) => engine.infer('outer', { x: one(x) })
    const [first, second] = await Promise.all([ask(1), ask(20)]) // one batch: the second is traced, and both ask for it
    expect([first.y!.data[0], second.y!.data[0]]).toEqual([2, 21])
    await ask(2) // not traced, nor what it asks for
    await ask(3)
    late.resolve() // after its end: from nobody, and the fifth
    await ended.promise
    await ask(4)
    const all = await traces()
    const outer = all[0]!.id
    expect(all.map(({ model, id, parentId }) => [model, id - outer, parentId === undefined ? null : parentId - outer])).toEqual([
      ['outer', 0, null], ['inner', 1, 0], ['pipe', 2, 0], ['inner', 3, 2],
      ['outer', 4, null], ['inner', 5, 4], ['outer', 6, null], ['inner', 7, 6],
    ]) // prettier-ignore
  })

  it('of a sequence has its id', async () => {
    const { engine, traces } = tracedEngine()
    const model = await engine.load('m', { path: identity('float32'), sequence: {} })
    await model.infer(row(), { sequenceId: 7, sequenceStart: true })
    await model.infer(row(), { sequenceId: 7, sequenceEnd: true })
    const all = await traces()
    expect(all.map(({ sequenceId, timestamps }) => [sequenceId, timestamps.length])).toEqual([
      [7, whole.length],
      [7, whole.length],
    ])
  })
})

describe('without traces', () => {
  it('nobody looks on, and no file is made', async () => {
    const engine = ownEngine()
    const model = await load(engine, identity('float32'))
    await model.infer(row())
    await engine.trace.flush()
    expect(engine.trace.stats()).toEqual({
      begun: 0,
      written: 0,
      dropped: 0,
      failed: 0,
      bufferedBytes: 0,
      failure: null,
    })
    expect(engine.trace.settings()).toEqual({ level: [], rate: 1000, count: -1, file: null, logFrequency: 0 })
  })
})

it('a trace of a request ends with it, and not with what it takes to write its tensors down', () => {
  let nowMs = 10
  const texts: string[] = []
  const account = new TraceAccount(1e6, () => {})
  const clock = { nowMs: () => nowMs }
  const model = { name: 'm', version: 1, metadata: { inputs: [], outputs: [] }, batching: null }
  const facts = { atMs: 0, rows: 1, options: noOptions, data: [], dims: null }
  const settings = {
    level: ['TIMESTAMPS', 'TENSORS'],
    rate: 1,
    count: -1,
    file: 'f',
    logFrequency: 0,
  } as const
  const writer = { add: (text: string) => texts.push(text) } as never
  const trace = TracedRequest.begin({ account, clock, settings, writer }, model, facts)!
  const answer = {
    get y() {
      nowMs += 100
      return { type: 'float32', dims: [1], data: Float32Array.of(1) }
    },
  }
  trace.ended(true, null, answer)
  const [, { timestamps }, tensor] = JSON.parse(`[${texts.join(',')}]`) as [
    object,
    { timestamps: { ns: number }[] },
    object,
  ]
  expect(timestamps.at(-1)!.ns - timestamps[0]!.ns).toBe(10e6)
  expect(tensor).toMatchObject({ activity: 'TENSOR_BACKEND_OUTPUT', tensor: { name: 'y', data: '1' } })
})

const fileIn = (name = 'array.json') => {
  const path = join(temporaryFolder({}), name)
  return {
    path,
    file: new JsonArrayFile(path),
    content: () => JSON.parse(readFileSync(path, 'utf8')) as unknown[],
  }
}

describe('an array that is written to a file', () => {
  it('takes the place of what the file held, however long that was, and is gone on with once closed', async () => {
    const { path, file, content } = fileIn()
    writeFileSync(path, 'x'.repeat(1000))
    await file.append('1')
    expect(content()).toEqual([1])
    await file.close()
    await file.append('2,3')
    expect(content()).toEqual([1, 2, 3])
    await file.close()
  })

  it('is begun anew when somebody has taken it away, put an empty file in its place, or emptied it', async () => {
    const { path, file, content } = fileIn()
    const changes = [
      () => rmSync(path),
      () => renameSync(path, `${path}.1`),
      () => (renameSync(path, `${path}.1`), writeFileSync(path, '')),
      () => truncateSync(path),
    ]
    await file.append('0')
    for (const [index, change] of changes.entries()) {
      change()
      await file.append(`${index + 1}`)
      expect(content()).toEqual([index + 1])
    }
    await file.close()
  })

  it('is left alone once somebody else writes to it', async () => {
    const { path, file, content } = fileIn()
    await file.append('"the first"')
    const other = new JsonArrayFile(path)
    await other.append('"the second, which has begun it anew"')
    expect((await errorOf(file.append('"more"'))).message).toMatch(
      /^another program has written to it: expected its 16 bytes, found 4[0-9]$/,
    )
    file.appendSync('"at the end"')
    expect(content()).toEqual(['the second, which has begun it anew'])
    await other.append('2')
    expect(content()).toHaveLength(2)
    await Promise.all([file.close(), other.close()])
  })

  it.each([1, 4_000_000])(
    'is whole where the process ends while %i bytes are on their way',
    async (length) => {
      for (let round = 0; round < 8; round++) {
        const { path, file, content } = fileIn()
        writeFileSync(path, 'of before'.repeat(10))
        if (round % 2 === 0) await file.append('0')
        const appended = file.append(JSON.stringify('x'.repeat(length)))
        for (let turn = 0; turn < round; turn++) await nextTurn()
        file.appendSync('"last"')
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5) // threads go on as the process ends, and nothing else
        expect(content()).toEqual([...(round % 2 === 0 ? [0] : []), 'x'.repeat(length), 'last'])
        await appended.catch(() => {})
        await file.close()
      }
    },
  )
})
