import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { dirname } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { InferenceEngine, Tensor, type Feeds } from '../../src/index.ts'
import { connect, serve } from '../../src/adapters/processes/processes.ts'
import { frameKinds, messageText, protocolVersion, textFrame } from '../../src/adapters/processes/messages.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import { accumulator } from '../models/accumulator.ts'
import * as small from '../models/small.ts'
import { full } from '../support/full.ts'
import { until } from '../support/until.ts'
import { sample, tensorTypes } from '../support/samples.ts'
import { ownPath, served, ways } from './served.ts'

const row = (value: number, elements = 4) => ({
  x: new Tensor('float32', new Float32Array(elements).fill(value), [1, elements]),
})

/** Statistics without what goes on with time. */
const settled = (stats: unknown): unknown =>
  JSON.parse(
    JSON.stringify(stats, (key, value: unknown) =>
      key === 'servingMs' || key === 'busyShare' ? undefined : value,
    ),
  )

describe.each(ways)('a client, through $way', ({ sharedMemory }) => {
  it('says how it is served', async () => {
    const { remote, server } = await served(sharedMemory)
    expect(remote.server).toEqual({
      process: process.pid,
      version: expect.stringMatching(/^\d/),
      sharesMemory: sharedMemory,
    })
    expect(server.stats()).toEqual({
      clients: 1,
      sharingMemory: sharedMemory ? 1 : 0,
      requests: 0,
      inFlight: 0,
    })
  })

  it('is answered bit for bit as the engine answers, for every type of elements', async () => {
    const { engine, remote } = await served(sharedMemory)
    const types = full || sharedMemory ? tensorTypes : (['float32', 'int64', 'bool', 'string'] as const)
    for (const type of types) {
      const model = await remote.load(`identity-${type}`, { path: small.identity(type) })
      for (const rows of [1, 3, 0, 40]) {
        const { dims, data } = sample(type, [rows, 4])
        const x = new Tensor(type as 'float32', data as Float32Array, dims)
        const [theirs, ours] = [await engine.infer(model.name, { x }), await model.infer({ x })]
        expect(ours['y']).toBeInstanceOf(Tensor)
        expect(ours).toEqual(theirs)
      }
    }
  })

  it('gets sequences and maps as they are', async ({ skip }) => {
    const { engine, remote } = await served(sharedMemory)
    await engine.load('maps', { path: small.mapOutput() }).catch(() => skip('the binding carries none'))
    const feeds = { x: new Tensor('float32', new Float32Array([1, 2, 3]), [1, 3]) }
    expect(await remote.infer('maps', feeds)).toEqual(await engine.infer('maps', feeds))
    const joined = await remote.load('joined', { path: small.joinedSequence() })
    const sequence = {
      s: [
        new Tensor('int64', new BigInt64Array([1n, 2n]), [2]),
        new Tensor('int64', new BigInt64Array([3n]), [1]),
      ],
    } as unknown as Feeds
    expect(await joined.infer(sequence)).toEqual(await engine.infer('joined', sequence))
  })

  it('is told of errors as the engine tells them', async () => {
    const { engine, remote } = await served(sharedMemory)
    const model = await remote.load('identity', { path: small.identity('float32') })
    const wrong: [Feeds, object?][] = [
      [{}],
      [{ z: new Float32Array(4) }],
      [{ x: new Float32Array(5) }],
      [{ x: new Int32Array(4) }],
      [row(1), { timeoutMs: -1 }],
      [row(1), { outputs: ['q'] }],
      [row(1), { nonsense: 1 }],
    ]
    for (const [feeds, options] of wrong) {
      const [theirs, ours] = [
        await rejectionOf(() => engine.infer('identity', feeds, options)),
        await rejectionOf(() => model.infer(feeds, options)),
      ] as [Error, Error]
      expect({ ...ours, message: ours.message }).toEqual({ ...theirs, message: theirs.message })
      expect(ours.constructor).toBe(theirs.constructor)
    }
    expect(await rejectionOf(() => remote.infer('absent', row(1)))).toMatchObject({
      code: 'ERR_MODEL_NOT_FOUND',
    })
    expect(await rejectionOf(() => remote.load('broken', { path: '/nowhere.onnx' }))).toMatchObject({
      code: 'ERR_MODEL_NOT_FOUND',
    })
    expect(await rejectionOf(() => model.infer(row(1), { signal: 1 } as never))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'options.signal',
    })
  })

  it('has its requests joined with those of others, each getting its own rows', async () => {
    const { engine, client, remote } = await served(sharedMemory)
    const clients = [remote, await client(), await client()]
    await engine.load('identity', {
      path: small.identity('float32'),
      dynamicBatching: { maxQueueDelayMs: 20 },
    })
    const answers = await Promise.all(
      clients.flatMap((each, at) =>
        Array.from({ length: 20 }, (_, index) =>
          each.infer('identity', row(100 * at + index), { report: true }),
        ),
      ),
    )
    expect(answers.map(({ outputs }) => outputs['y']!.data[0])).toEqual(
      [0, 1, 2].flatMap((at) => Array.from({ length: 20 }, (_, index) => 100 * at + index)),
    )
    expect(Math.max(...answers.map(({ report }) => report.batchSize))).toBeGreaterThan(20)
  })

  it('withdraws as many requests as it likes, one after the other', async () => {
    const { engine, remote } = await served(sharedMemory, { maxRequests: 2 })
    await engine.load('held', {
      path: small.identity('float32'),
      dynamicBatching: { holdUntilQueued: 9 },
    })
    for (let request = 0; request < 10; request++) {
      const controller = new AbortController()
      const waiting = remote.infer('held', row(1), { signal: controller.signal })
      await until(() => engine.model('held').stats().pendingRequestCount === 1)
      controller.abort('enough')
      await expect(waiting).rejects.toBe('enough')
      await until(() => engine.model('held').stats().pendingRequestCount === 0)
    }
  })

  it('withdraws a request by its signal, waiting or not', async () => {
    const { engine, remote, server } = await served(sharedMemory)
    await engine.load('identity', {
      path: small.identity('float32'),
      dynamicBatching: { holdUntilQueued: 2 },
    })
    const controller = new AbortController()
    const waiting = remote.infer('identity', row(1), { signal: controller.signal })
    await until(() => server.stats().inFlight === 1)
    controller.abort(new Error('no longer wanted'))
    await expect(waiting).rejects.toThrow('no longer wanted')
    await until(() => server.stats().inFlight === 0)
    expect((await remote.stats()).models['identity']!.rejections.cancelled).toBe(1)
    await expect(remote.infer('identity', row(1), { signal: AbortSignal.abort('before') })).rejects.toBe(
      'before',
    )
    const together = new AbortController()
    const atOnce = remote.infer('identity', row(1), { signal: together.signal })
    together.abort('at once')
    await expect(atOnce).rejects.toBe('at once')
    await until(() => server.stats().inFlight === 0)
  })

  it('stops a load by its signal, read or not, unless another client waits for it', async () => {
    const { engine, remote, client } = await served(sharedMemory)
    const signals: AbortSignal[] = []
    const load = vi.spyOn(engine, 'load').mockImplementation((_name, _config, options) => {
      const { signal } = options as { signal: AbortSignal }
      signals.push(signal)
      return new Promise((_, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      )
    })
    const other = await client()
    const [first, second] = [new AbortController(), new AbortController()]
    const config = { path: small.identity('float32') }
    const waiting = [
      remote.load('m', config, { signal: first.signal }),
      other.load('m', config, { signal: second.signal }),
    ]
    await until(() => signals.length === 1)
    await Promise.all([remote, other].map((each) => each.models())) // both loads have been read
    first.abort(new Error('no longer wanted'))
    await expect(waiting[0]).rejects.toThrow('no longer wanted')
    await remote.models() // and so has the withdrawal
    expect(signals[0]!.aborted).toBe(false)
    second.abort('nor here')
    await expect(waiting[1]).rejects.toBe('nor here')
    await until(() => signals[0]!.aborted)

    const unread = new AbortController()
    const long = remote.load('m', { bytes: new Uint8Array(20_000_000) }, { signal: unread.signal })
    await new Promise(setImmediate) // it is sent, and takes longer to arrive
    unread.abort('too late')
    await expect(long).rejects.toBe('too late')
    await remote.models()
    expect(signals).toHaveLength(1)

    load.mockRestore()
    const real = new AbortController()
    const stopped = remote.load('m', config, { signal: real.signal })
    await until(() => engine.models().length === 1)
    real.abort('stop')
    await expect(stopped).rejects.toBe('stop')
    await remote.load('m', { ...config, maxBatchSize: 4 })
    await remote.unload('m')
    await expect(remote.load('m', config, { signal: AbortSignal.abort('before') })).rejects.toBe('before')
    expect(engine.models()).toEqual([])
  })

  it('has its time-outs, versions and sequences kept', async () => {
    const { engine, remote } = await served(sharedMemory)
    await engine.load('held', { path: small.identity('float32'), dynamicBatching: { holdUntilQueued: 9 } })
    expect(
      await rejectionOf(() => remote.infer('held', row(1), { timeoutMs: 5, requestId: 'mine' })),
    ).toMatchObject({ code: 'ERR_TIMEOUT', requestId: 'mine', model: 'held' })
    await engine.load('two', { path: small.identity('float32'), version: 1 })
    await engine.load('two', { path: small.elementSquares(), version: 2 })
    expect(await remote.infer('two', row(1), { version: 1 })).toEqual(
      await engine.infer('two', row(1), { version: 1 }),
    )
    expect(await remote.model('two', 2).infer(row(1))).toEqual(
      await engine.infer('two', row(1), { version: 2 }),
    )
    expect(await remote.model('two').metadata()).toEqual(engine.model('two').metadata)
  })

  it('classifies with the labels that the model has there', async () => {
    const { engine, remote } = await served(sharedMemory)
    const model = await remote.load('labelled', {
      path: small.identity('float32'),
      outputs: [{ name: 'y', labels: ['a', 'b', 'c', 'd'] }],
    })
    const outputs = await model.infer({
      x: new Tensor('float32', Float32Array.of(1, 3, 2, 5, 9, -1, 0, -2), [2, 4]),
    })
    expect(await model.classification(outputs, 2)).toEqual([
      [
        { index: 3, value: 5, label: 'd' },
        { index: 1, value: 3, label: 'b' },
      ],
      [
        { index: 0, value: 9, label: 'a' },
        { index: 2, value: 0, label: 'c' },
      ],
    ])
    expect(await model.classification(outputs)).toEqual(engine.model('labelled').classification(outputs))
    expect(await model.classification(outputs, 1, 'y', -1)).toEqual(
      engine.model('labelled').classification(outputs, 1, 'y', -1),
    )
    const wrong = [
      () => model.classification({}),
      () => model.classification(outputs, 0),
      () => model.classification(outputs, 1, 'z' as 'y'),
    ]
    for (const call of wrong)
      expect(await rejectionOf(call)).toMatchObject({ code: 'ERR_INVALID_ARG', model: 'labelled' })
    expect(await rejectionOf(() => remote.model('absent').classification(outputs))).toMatchObject({
      code: 'ERR_MODEL_NOT_FOUND',
    })
  })

  it('loads a model that another has loaded alike only once, and one that is other anew', async () => {
    const { engine, client, remote } = await served(sharedMemory)
    const loaded: string[] = []
    engine.on('model', ({ type, model }) => loaded.push(`${model} ${type}`))
    const others = await Promise.all([client(), client()])
    const config = { path: small.identity('float32') }
    await Promise.all([remote, ...others].map((each) => each.load('one', config)))
    await remote.load('one', config)
    await until(() => loaded.length > 0)
    expect(loaded).toEqual(['one ready'])
    await remote.load('one', { ...config, maxBatchSize: 4 })
    expect(engine.model('one').metadata.maxBatchSize).toBe(4)
    await remote.unload('one')
    expect(engine.models()).toEqual([])
    await remote.load('one', { ...config, maxBatchSize: 4 })
    expect((await remote.models()).map(({ name, state }) => `${name} ${state}`)).toEqual(['one ready'])
  })

  it('loads each of several versions only once', async () => {
    const { engine, client, remote } = await served(sharedMemory)
    const load = vi.spyOn(engine, 'load')
    for (const each of [remote, await client()]) {
      for (const version of [1, 2])
        expect((await each.load('two', { path: small.identity('float32'), version })).version).toBe(version)
    }
    await remote.load('two', { path: small.identity('float32'), version: '2' })
    expect(load.mock.calls.map(([, config]) => config!.version)).toEqual([1, 2, '2'])
  })

  it('has statistics that add up to those of the engine', async () => {
    const { engine, client, remote, server } = await served(sharedMemory)
    const other = await client()
    const model = await remote.load('identity', { path: small.identity('float32') })
    await Promise.all(
      [...Array(10)].flatMap((_, index) => [
        model.infer(row(index)),
        other.infer('identity', row(index)),
        engine.infer('identity', row(index)),
      ]),
    )
    await rejectionOf(() => other.infer('identity', {}))
    const { models } = await other.stats()
    expect(settled(models)).toEqual(settled(engine.stats().models))
    expect(settled(await model.stats())).toEqual(settled(engine.model('identity').stats()))
    expect(models['identity']!.inferenceStats.success.count).toBe(30)
    expect(models['identity']!.inferenceCount).toBe(30)
    expect(server.stats()).toMatchObject({ clients: 2, requests: 21, inFlight: 0 })
    await other.close()
    await until(() => server.stats().clients === 1)
    expect(server.stats().requests).toBe(21)
  })

  it('streams items, and slows down by itself where it may have no more in flight', async () => {
    const { remote } = await served(sharedMemory, { maxRequests: 8 })
    const model = await remote.load('identity', { path: small.identity('float32') })
    const items = Array.from({ length: 300 }, (_, index) => row(index))
    const results: number[] = []
    for await (const { outputs, error } of model.inferMany(items, { maxInFlight: 20 }))
      results.push(error === undefined ? (outputs['y']!.data[0] as number) : NaN)
    expect(results).toEqual(items.map((_, index) => index))
  })

  it('is refused what is over its limits, and others are not', async () => {
    const { engine, client, remote } = await served(sharedMemory, { maxRequests: 2, maxBytes: 100_000 })
    const other = await client()
    await engine.load('held', { path: small.identity('float32'), dynamicBatching: { holdUntilQueued: 3 } })
    const both = [remote.infer('held', row(1)), remote.infer('held', row(2))]
    expect(await rejectionOf(() => remote.infer('held', row(3)))).toMatchObject({
      code: 'ERR_QUEUE_FULL',
      model: 'held',
    })
    expect((await other.infer('held', row(4)))['y']!.data[0]).toBe(4)
    expect((await Promise.all(both)).map(({ y }) => y!.data[0])).toEqual([1, 2])
    await engine.load('wide', { path: small.identityVariable('float32') })
    expect(await rejectionOf(() => remote.infer('wide', row(1, 30_000)))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining('maxBytes'),
    })
    expect((await remote.infer('wide', row(1, 20_000)))['y']!.data.length).toBe(20_000)
  })

  it('is told of a load that cannot be sent, and goes on', async () => {
    const { engine, remote } = await served(sharedMemory, { maxBytes: 65_536 })
    await engine.load('held', { path: small.identity('float32'), dynamicBatching: { holdUntilQueued: 2 } })
    const waiting = remote.infer('held', row(1))
    expect(await rejectionOf(() => remote.load('long', { bytes: new Uint8Array(200_000) }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'arguments of load()',
      message: expect.stringContaining('maxBytes'),
    })
    const circular: Record<string, unknown> = {}
    circular['self'] = circular
    expect(await rejectionOf(() => remote.load('circular', circular as never))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      cause: { name: 'TypeError' },
    })
    const extra = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`k${at}`, '1']))
    expect(
      await rejectionOf(() => remote.load('named', { sessionOptions: { extra } } as never)),
    ).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'arguments of load()',
      expected: 'at most 4096 names in all objects',
    })
    const cost = { path: small.identity('float32'), dynamicBatching: { cost: () => 1 } }
    expect(await rejectionOf(() => remote.load('costed', cost))).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument: 'dynamicBatching.cost',
    })
    await remote.infer('held', row(2))
    expect((await waiting)['y']!.data[0]).toBe(1)
  })

  it('waits with what is over its bytes in flight, and may withdraw it meanwhile', async () => {
    const { engine, remote, server } = await served(sharedMemory, { maxBytes: 100_000 })
    await engine.load('wide', { path: small.identityVariable('float32') })
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, index) => remote.infer('wide', row(index, 20_000))),
    )
    expect(answers.map(({ y }) => [y!.data.length, y!.data[19_999]])).toEqual(
      answers.map((_, index) => [20_000, index]),
    )
    await engine.load('held', {
      path: small.identityVariable('float32'),
      dynamicBatching: { holdUntilQueued: 9 },
    })
    const controllers = [1, 2, 3].map(() => new AbortController())
    const all = controllers.map(({ signal }) => remote.infer('held', row(1, 20_000), { signal }))
    await until(() => server.stats().inFlight === 2)
    for (const controller of controllers.toReversed()) controller.abort('enough')
    expect(await Promise.allSettled(all)).toEqual(Array(3).fill({ status: 'rejected', reason: 'enough' }))
    await until(() => server.stats().requests === 43 && server.stats().inFlight === 0)
    expect(engine.model('held').stats()).toMatchObject({
      pendingRequestCount: 0,
      rejections: { cancelled: 2 },
    }) // the third was never read
  })

  it.runIf(full || sharedMemory)(
    'carries what is longer than there is room for in shared memory',
    async () => {
      const { engine, remote } = await served(sharedMemory)
      await engine.load('wide', { path: small.identityVariable('float32') })
      const big = new Float32Array(9_000_000).map((_, index) => index % 1000)
      const answers = await Promise.all(
        [1, 2].map((id) =>
          remote.infer('wide', { x: new Tensor('float32', big.with(0, id), [1, big.length]) }),
        ),
      )
      for (const [index, { y }] of answers.entries())
        expect(
          Buffer.compare(
            Buffer.from((y!.data as Float32Array).buffer),
            Buffer.from(big.with(0, index + 1).buffer),
          ),
        ).toBe(0)
    },
  )

  it('keeps the requests of a sequence in order, those of another client apart', async () => {
    const { engine, client, remote } = await served(sharedMemory)
    await engine.load('sums', {
      path: accumulator(),
      maxBatchSize: 8,
      sequence: {
        controls: [
          { input: 'START', kind: 'start' },
          { input: 'END', kind: 'end' },
          { input: 'ID', kind: 'correlationId' },
        ],
        state: [{ input: 'before', output: 'state' }],
      },
    })
    const sums = async (each: typeof remote, id: number) => {
      const parts = Array.from({ length: 10 }, (_, index) =>
        each.infer(
          'sums',
          { x: new Float32Array([index]) },
          { sequenceId: id, sequenceStart: index === 0, sequenceEnd: index === 9 },
        ),
      )
      return (await Promise.all(parts)).map(({ sum }) => sum!.data[0])
    }
    const expected = [0, 1, 3, 6, 10, 15, 21, 28, 36, 45]
    expect(await Promise.all([sums(remote, 1), sums(await client(), 2)])).toEqual([expected, expected])
  })
})

describe.each(ways)('feeds with a getter, through $way', ({ sharedMemory }) => {
  const through = (value: number, act: () => void) => ({
    get x() {
      act()
      return new Float32Array(4).fill(value)
    },
  })

  it('that asks for something itself are another request than that', async () => {
    const { engine, remote } = await served(sharedMemory)
    await engine.load('identity', { path: small.identity('float32') })
    let inner!: Promise<Record<string, { data: unknown }>>
    const outer = remote.infer(
      'identity',
      through(
        1,
        () =>
          (inner = remote.infer(
            'identity',
            through(2, () => {}),
          ) as never),
      ),
    )
    expect((await outer)['y']!.data).toEqual(new Float32Array(4).fill(1))
    expect((await inner)['y']!.data).toEqual(new Float32Array(4).fill(2))
  })

  it('that closes the client are rejected as all of it', async () => {
    const { engine, remote } = await served(sharedMemory)
    await engine.load('identity', { path: small.identity('float32') })
    expect(
      await rejectionOf(() =>
        remote.infer(
          'identity',
          through(1, () => void remote.destroy()),
        ),
      ),
    ).toMatchObject({ code: 'ERR_CLOSED' })
  })
})

describe('a path', () => {
  it('stays the same when the working folder changes', async () => {
    const { path, server, engine } = await served(false)
    const before = process.cwd()
    onTestFinished(() => process.chdir(before))
    process.chdir(dirname(path))
    const remote = await connect('socket', { sharedMemory: false })
    process.chdir(before)
    await server.close()
    const next = await serve(engine, { path })
    onTestFinished(() => next.close())
    expect(await remote.models()).toEqual([])
    await remote.close()
  })
})

describe.each(ways)('a client that comes as a server is ending, through $way', ({ sharedMemory }) => {
  it('asks again, and reaches the next one', async () => {
    const path = ownPath()
    const ending = createServer({ pauseOnConnect: true }, (socket) => void socket.destroy()) // with its greeting unread
    await new Promise<void>((resolve) => ending.listen(path, resolve))
    const connecting = connect(path, { sharedMemory })
    await once(ending, 'connection')
    await new Promise((resolve) => ending.close(resolve))
    const engine = new InferenceEngine()
    const server = await serve(engine, { path })
    onTestFinished(() => server.close())
    const remote = await connecting
    expect(await remote.models()).toEqual([])
    await remote.close()
  })
})

describe.each(ways)('the end of a connection, through $way', ({ sharedMemory }) => {
  it('by the client comes after its answers', async () => {
    const { engine, remote, server } = await served(sharedMemory)
    await engine.load('identity', { path: small.identity('float32') })
    const answers = [1, 2, 3].map((value) => remote.infer('identity', row(value)))
    await remote.close()
    expect((await Promise.all(answers)).map(({ y }) => y!.data[0])).toEqual([1, 2, 3])
    expect(await rejectionOf(() => remote.infer('identity', row(1)))).toMatchObject({ code: 'ERR_CLOSED' })
    await until(() => server.stats().clients === 0)
  })

  it('at once rejects what is in flight, and takes it out of the queue there', async () => {
    const { engine, remote, server } = await served(sharedMemory)
    await engine.load('held', { path: small.identity('float32'), dynamicBatching: { holdUntilQueued: 9 } })
    const waiting = remote.infer('held', row(1))
    await until(() => server.stats().inFlight === 1)
    await remote.destroy()
    await expect(waiting).rejects.toMatchObject({ code: 'ERR_CLOSED' })
    await until(() => server.stats().clients === 0)
    expect(engine.model('held').stats()).toMatchObject({
      pendingRequestCount: 0,
      rejections: { cancelled: 1 },
    })
  })

  it('by the client while it is about to connect again leaves no connection', async () => {
    const { path, remote, server } = await served(false)
    await server.close()
    const slow = createServer()
    await new Promise<void>((resolve) => slow.listen(path, resolve))
    onTestFinished(() => void slow.close())
    const asked = rejectionOf(() => remote.models())
    const [socket] = (await once(slow, 'connection')) as [Socket]
    await once(socket, 'data')
    await remote.destroy()
    socket.write(
      textFrame(
        frameKinds.welcome,
        messageText({
          protocol: protocolVersion,
          version: '0',
          process: 1,
          ringBytes: 0,
          maxRequests: 1,
          maxBytes: 65_536,
        }),
      ),
    )
    expect(await asked).toMatchObject({ code: 'ERR_CLOSED' })
    await once(socket, 'close')
  })

  it('by the client while it looks for the next server rejects who waits for that, at once', async () => {
    const { remote, server } = await served(sharedMemory)
    await server.close()
    const asked = rejectionOf(() => remote.infer('identity', row(1)))
    await new Promise(setImmediate)
    await remote.destroy()
    expect(await asked).toMatchObject({ code: 'ERR_CLOSED' })
  })

  it('by the server does not wait for what is withdrawn behind more than it had read', async () => {
    const { engine, remote, server } = await served(sharedMemory, { maxBytes: 100_000 })
    await engine.load('held', {
      path: small.identityVariable('float32'),
      dynamicBatching: { holdUntilQueued: 9 },
    })
    const controller = new AbortController()
    const all = Array.from({ length: 90 }, () =>
      remote.infer('held', row(1, 20_000), { signal: controller.signal }),
    )
    await until(() => server.stats().inFlight === 2)
    const closed = server.close()
    controller.abort('enough')
    expect(await Promise.allSettled(all)).toEqual(all.map(() => ({ status: 'rejected', reason: 'enough' })))
    await closed
  })

  it('by the server comes after the answers that it owes', async () => {
    const { engine, remote, server } = await served(sharedMemory)
    await engine.load('held', { path: small.identity('float32'), dynamicBatching: { holdUntilQueued: 2 } })
    const waiting = remote.infer('held', row(1))
    await until(() => server.stats().inFlight === 1)
    const closed = server.close()
    await engine.infer('held', row(2))
    expect((await waiting)['y']!.data[0]).toBe(1)
    await closed
    expect(
      await rejectionOf(() => remote.infer('held', row(1), { signal: AbortSignal.timeout(50) })),
    ).toMatchObject({ name: 'TimeoutError' })
  })
})
