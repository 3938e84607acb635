import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { connect as connectSocket, createServer, Server, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { loadBinding } from '../../src/native/addon.ts'
import { InferenceEngine, Tensor } from '../../src/index.ts'
import { connect, serve } from '../../src/adapters/processes/processes.ts'
import { greetNatively } from '../../src/adapters/processes/client-connection.ts'
import {
  callFrameOf,
  frameKinds,
  frameOf,
  messageText,
  protocolVersion,
  textFrame,
} from '../../src/adapters/processes/messages.ts'
import { writeRequest } from '../../src/adapters/processes/inference-records.ts'
import { RecordViews, RecordWriter } from '../../src/adapters/processes/records.ts'
import { SharedRings } from '../../src/adapters/processes/shared-rings.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import { until } from '../support/until.ts'
import { ownPath, served } from './served.ts'
import { repetitions } from '../support/full.ts'

const hello = { protocol: protocolVersion, version: '0', sharesMemory: false }
const greeting = textFrame(frameKinds.hello, messageText(hello))
const row = { x: new Tensor('float32', new Float32Array([1, 2, 3, 4]), [1, 4]) }

function raw(path: string): Socket {
  const socket = connectSocket(path).on('error', () => {})
  onTestFinished(() => void socket.destroy())
  return socket.resume()
}

const ended = (socket: Socket) => new Promise((resolve) => socket.once('close', resolve))

const bytes = (length: number, seed: number) => {
  const random = mulberry32(seed)
  return Buffer.from(Array.from({ length }, () => Math.floor(random() * 256)))
}

describe('a client that means harm', () => {
  it.each<[string, Buffer[]]>([
    ['noise', [bytes(10_000, 1)]],
    ['a frame without end before it has greeted', [frameOf(frameKinds.hello, 2 ** 20)]],
    ['a record before it has greeted', [frameOf(frameKinds.record, 64).fill(0, 8)]],
    [
      'a call before it has greeted',
      [textFrame(frameKinds.call, messageText({ id: 1, method: 'stats', args: [] }))],
    ],
    ['a greeting that is no JSON', [textFrame(frameKinds.hello, '{')]],
    ['a greeting of other types', [textFrame(frameKinds.hello, '{"protocol":"1"}')]],
    [
      'a record of noise',
      [
        greeting,
        (() => {
          const frame = frameOf(frameKinds.record, 4096)
          frame.set(bytes(4096, 2), 8)
          return frame
        })(),
      ],
    ],
    ['an empty record', [greeting, frameOf(frameKinds.record, 0)]],
    ['a frame of no kind', [greeting, textFrame(99, '')]],
    ['a frame longer than all', [greeting, frameOf(frameKinds.call, 16).fill(0xff, 0, 4)]],
    [
      'more withdrawals than it may have requests',
      [
        greeting,
        Buffer.concat(Array.from({ length: 1025 }, () => frameOf(frameKinds.withdrawal, 4).fill(0, 8))),
      ],
    ],
    [
      'two loads of one id',
      [
        greeting,
        Buffer.concat(
          ['a', 'b'].map((name) =>
            textFrame(
              frameKinds.call,
              messageText({ id: 1, method: 'load', args: [name, { path: small.identity('float32') }] }),
            ),
          ),
        ),
      ],
    ],
    ['a withdrawal of a call without an id', [greeting, frameOf(frameKinds.callWithdrawal, 4).fill(0, 8)]],
    ['a call that is no object', [greeting, textFrame(frameKinds.call, '[]')]],
  ])('by %s is disconnected, and others are not', async (_, frames) => {
    const { engine, path, remote, server } = await served(false)
    await engine.load('identity', { path: small.identity('float32') })
    const socket = raw(path)
    const closed = ended(socket)
    for (const frame of frames) socket.write(frame)
    await closed
    await until(() => server.stats().clients === 1)
    expect((await remote.infer('identity', row))['y']!.data).toEqual(row.x.data)
  })

  it('by a call of what there is not is told so', async () => {
    const { path, server } = await served(false)
    const socket = raw(path).removeAllListeners('data')
    const answered = new Promise<string>((resolve) => {
      let text = ''
      socket.on(
        'data',
        (chunk) => (text += chunk.toString('latin1')).includes('knows no method') && resolve(text),
      )
    })
    for (const method of ['constructor', 'destroy', '__proto__'])
      socket.write(
        Buffer.concat(
          [greeting, textFrame(frameKinds.call, messageText({ id: 1, method, args: [] }))].slice(
            method === 'constructor' ? 0 : 1,
          ),
        ),
      )
    expect(await answered).toContain('ERR_INVALID_ARG')
    expect(server.stats().clients).toBe(2)
  })

  it('by another protocol is refused in words', async () => {
    const path = ownPath()
    const other = createServer(
      (socket) =>
        void socket.once('data', () =>
          socket.end(textFrame(frameKinds.welcome, messageText({ ...hello, protocol: 'x' } as never))),
        ),
    )
    await new Promise<void>((resolve) => other.listen(path, resolve))
    onTestFinished(() => void other.close())
    expect(await rejectionOf(() => connect(path, { timeoutMs: 200, sharedMemory: false }))).toMatchObject({
      code: 'ERR_DISCONNECTED',
    })
    const { path: served_ } = await served(false)
    const socket = raw(served_).removeAllListeners('data')
    let text = ''
    socket.on('data', (chunk) => (text += chunk.toString('latin1')))
    socket.write(textFrame(frameKinds.hello, messageText({ ...hello, protocol: 99 })))
    await ended(socket)
    expect(text).toContain('with protocol 1; this client has 0 with 99')
  })

  it('by not taking what it asks for is disconnected before that piles up, and others are not', async () => {
    const { path, remote, server } = await served(false)
    const socket = connectSocket(path).on('error', () => {})
    onTestFinished(() => void socket.destroy())
    const calls = Array.from({ length: 20_000 }, (_, id) =>
      textFrame(frameKinds.call, messageText({ id, method: 'stats', args: [] })),
    )
    socket.write(Buffer.concat([greeting, ...calls]))
    await ended(socket)
    await until(() => server.stats().clients === 1)
    expect(await remote.models()).toEqual([])
  })

  it('by not going when it has been told all is not waited for', async () => {
    const { path, server } = await served(false)
    const socket = connectSocket({ path, allowHalfOpen: true })
      .on('error', () => {})
      .resume()
    onTestFinished(() => void socket.destroy())
    socket.write(greeting)
    await until(() => server.stats().clients === 2)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const told = new Promise((resolve) => socket.once('end', resolve))
    const closed = server.close()
    await told
    expect(server.stats().clients).toBeGreaterThan(0)
    vi.advanceTimersByTime(10_000)
    vi.useRealTimers()
    await closed
  })

  it('by not taking the results of its calls is not waited for', async () => {
    const { path, server } = await served(false)
    const socket = connectSocket(path)
      .on('error', () => {})
      .pause()
    onTestFinished(() => void socket.destroy())
    const calls = Array.from({ length: 1000 }, (_, id) =>
      textFrame(frameKinds.call, messageText({ id, method: 'stats', args: [] })),
    )
    socket.write(Buffer.concat([greeting, ...calls]))
    await until(() => server.stats().clients === 2)
    for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate) // it has all been answered, and not taken
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    let isClosed = false
    const closed = server.close().then(() => (isClosed = true))
    await until(() => isClosed || (vi.advanceTimersByTime(1000), false)) // its patience begins with its last answer
    await closed
  })

  it('by calls with more bytes than it may have has no more read from it until some are done, and holds none once it has gone', async () => {
    const { engine, path, server } = await served(false, { maxBytes: 100_000 })
    const signals: AbortSignal[] = []
    vi.spyOn(engine, 'load').mockImplementation((_name, _config, options) => {
      const signal = options!.signal!
      signals.push(signal)
      return new Promise((_, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      )
    })
    const socket = raw(path)
    socket.write(greeting)
    for (let id = 1; id <= 20; id++)
      socket.write(callFrameOf({ id, method: 'load', args: [`m${id}`, { bytes: new Uint8Array(40_000) }] }))
    await until(() => signals.length === 3)
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
    expect(signals.filter(({ aborted }) => aborted)).toEqual([])
    expect(signals.length).toBeLessThan(6) // what one chunk of a socket has may be more
    socket.destroy()
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    await until(() => server.stats().clients === 1 || (vi.advanceTimersByTime(1000), false))
    expect(signals.every(({ aborted }) => aborted)).toBe(true)
  })

  it('by not taking very long answers is let go after a while', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const { engine, path, server } = await served(false, { maxBytes: 100_000 })
    await engine.loadFunction('long', {
      inputs: [{ name: 'x', type: 'int32' }],
      outputs: [{ name: 'y', type: 'float32', dims: [20_000] }],
      run: ({ x }) => ({ y: new Float32Array(20_000 * x.rows) }),
    })
    const socket = raw(path).pause()
    const ask = (number: number) => {
      writeRequest(record, number, 'long', { x: Int32Array.of(1) }, undefined, false)
      const frame = frameOf(frameKinds.record, record.byteLength)
      record.copyTo(new RecordViews(frame.buffer as ArrayBuffer), 8)
      return frame
    }
    socket.write(Buffer.concat([greeting, ...Array.from({ length: 20 }, (_, number) => ask(1 + number))]))
    await until(() => server.stats().requests >= 3) // no more are taken while so much is not read
    vi.advanceTimersByTime(9000)
    expect(server.stats().clients).toBe(2)
    vi.advanceTimersByTime(3000)
    await until(() => server.stats().clients === 1)
  })

  it('by asking for more than it may have and going is seen to have gone, though nothing is read from it', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const { engine, path, server } = await served(false, { maxBytes: 100_000 })
    await engine.load('held', {
      path: small.identityVariable('float32'),
      dynamicBatching: { holdUntilQueued: 9 },
    })
    const socket = raw(path)
    socket.write(greeting)
    for (let number = 1; number <= 40; number++) {
      writeRequest(
        record,
        number,
        'held',
        { x: new Tensor('float32', new Float32Array(20_000), [1, 20_000]) },
        undefined,
        false,
      )
      const frame = frameOf(frameKinds.record, record.byteLength)
      record.copyTo(new RecordViews(frame.buffer as ArrayBuffer), 8)
      socket.write(frame)
    }
    await until(() => server.stats().inFlight === 2)
    socket.destroy()
    for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate)
    vi.advanceTimersByTime(1000)
    await until(() => server.stats().clients === 1 && server.stats().inFlight === 0)
    expect(engine.model('held').stats().pendingRequestCount).toBe(0)
  })

  it('by a request over its limit in the shared memory is disconnected', async ({ skip }) => {
    if (processes === null) skip()
    const { engine, path, server } = await served(true, { maxBytes: 65_536 })
    await engine.load('wide', { path: small.identityVariable('float32') })
    const { descriptor, welcome, handedOver } = await greetNatively(
      processes!,
      path,
      { ...hello, sharesMemory: true },
      1000,
    )
    const rings = SharedRings.take(processes!, handedOver!, welcome.ringBytes, () => {})
    writeRequest(
      record,
      1,
      'wide',
      { x: new Tensor('float32', new Float32Array(20_000), [1, 20_000]) },
      undefined,
      false,
    )
    rings.writer.write(record)
    rings.bell.ring()
    await until(() => server.stats().clients === 1)
    expect(server.stats().requests).toBe(0)
    rings.release()
    processes!.close(descriptor)
  })

  const processes = loadBinding().binding?.processes ?? null

  const record = new RecordWriter()

  it.skipIf(processes === null)(
    'by noise in the shared memory is disconnected, or refused, and others are not',
    async () => {
      const { engine, path, remote, server } = await served(true)
      await engine.load('identity', { path: small.identity('float32') })
      const now = performance.now.bind(performance)
      let laterMs = 0
      vi.spyOn(performance, 'now').mockImplementation(() => now() + laterMs)
      onTestFinished(() => void vi.restoreAllMocks())
      for (let seed = 1; seed <= repetitions(60, 12); seed++) {
        laterMs += 5000 // rings are made again
        const random = mulberry32(seed)
        const { descriptor, welcome, handedOver } = await greetNatively(
          processes!,
          path,
          { ...hello, sharesMemory: true },
          1000,
        )
        const rings = SharedRings.take(processes!, handedOver!, welcome.ringBytes, () => {})
        const { words } = rings.views
        writeRequest(record, 1, 'identity', row, undefined, false)
        rings.writer.write(record)
        if (seed % 3 === 0) words[(256 + 64) / 4] = 8 // how far answers were read
        // The words of both rings, and what records begin with.
        for (let change = 0; change < 20; change++)
          words[Math.floor(random() * 128)] = Math.floor(random() * 2 ** 32) | 0
        for (let change = 0; change < 200; change++)
          words[1024 + Math.floor(random() * 4096)] =
            random() < 0.5 ? Math.floor(random() * 2 ** 32) | 0 : Math.floor(random() * 64)
        if (seed % 2 === 0) Atomics.store(words, 0, 8 * Math.floor(1 + random() * 1000))
        for (let ring = 0; ring < 10; ring++) rings.bell.ring()
        expect((await remote.infer('identity', row))['y']!.data).toEqual(row.x.data)
        rings.release()
        processes!.close(descriptor)
        expect((await remote.infer('identity', row))['y']!.data).toEqual(row.x.data)
      }
      await until(() => server.stats().clients === 1)
      expect(server.stats().inFlight).toBe(0)
    },
  )

  it.skipIf(processes === null)(
    'by noise in the shared memory gets none when it comes again, and others are answered over the socket until then',
    async () => {
      const { engine, path, client, server } = await served(true)
      await engine.load('identity', { path: small.identity('float32') })
      await Promise.all(Array.from({ length: 31 }, () => client()))
      expect(server.stats().sharingMemory).toBe(32)
      const greet = () => greetNatively(processes!, path, { ...hello, sharesMemory: true }, 1000)
      const first = await greet()
      const rings = SharedRings.take(processes!, first.handedOver!, first.welcome.ringBytes, () => {})
      Atomics.store(rings.views.words, 0, 1)
      rings.bell.ring()
      await until(() => server.stats().clients === 32)
      rings.release()
      processes!.close(first.descriptor)
      const again = await greet()
      expect(again.handedOver).toBeNull()
      processes!.close(again.descriptor)
      const other = await client()
      expect(other.server.sharesMemory).toBe(false)
      expect((await other.infer('identity', row))['y']!.data).toEqual(row.x.data)
    },
  )
})

describe('what a server hands over', () => {
  const processes = loadBinding().binding?.processes ?? null

  it.skipIf(processes === null)(
    'comes as a whole, or the client is told that it has too many files open',
    async () => {
      const { path, server } = await served(true)
      const short = { // as the system does where a process may open no more
      ...processes!,
      receive: (descriptor: number, into: Uint8Array) => {
        const { length, descriptors: [first, ...rest] } = processes!.receive(descriptor, into)
        if (first !== undefined) processes!.close(first)
        return { length, descriptors: rest }
      },
    } // prettier-ignore
      await expect(greetNatively(short, path, { ...hello, sharesMemory: true }, 1000)).rejects.toMatchObject({
        code: 'EMFILE',
        message: expect.stringContaining('1 of 2 descriptors'),
      })
      await until(() => server.stats().clients === 1)
    },
  )
})

describe('where a server listens', () => {
  it('is a folder that nobody else may enter, for client and server', async () => {
    const engine = new InferenceEngine()
    const open = join(dirname(ownPath()), 'open')
    mkdirSync(open)
    chmodSync(open, 0o755)
    const path = join(open, 'socket')
    expect(await rejectionOf(() => serve(engine, { path }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringMatching(/mode 700.*mode 755/),
    })
    expect(await rejectionOf(() => connect(path))).toMatchObject({ code: 'ERR_INVALID_ARG' })
    chmodSync(open, 0o700)
    await (await serve(engine, { path })).close()
    expect(existsSync(path)).toBe(false)
  })

  it("is of one server at a time; what a dead one has left is in nobody's way", async () => {
    const { engine, path, remote } = await served(false)
    expect(await rejectionOf(() => serve(engine, { path }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining('another process serves'),
    })
    expect(await remote.models()).toEqual([])
    const left = ownPath()
    const dead = createServer()
    await new Promise<void>((resolve) => dead.listen(`${left}-`, resolve))
    renameSync(`${left}-`, left)
    await new Promise((resolve) => dead.close(resolve))
    expect(lstatSync(left).isSocket()).toBe(true)
    await (await serve(engine, { path: left })).close()
  })

  it("is no file of somebody's, which stays as it is", async () => {
    const path = ownPath()
    writeFileSync(path, 'precious')
    const engine = new InferenceEngine()
    expect(await rejectionOf(() => serve(engine, { path }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      expected: 'a path where a socket can be created',
      received: path,
      message: expect.stringContaining('not a socket'),
    })
    expect(readFileSync(path, 'utf8')).toBe('precious')
    rmSync(path)
    await (await serve(engine, { path })).close() // it has let go of the lock
  })

  it.skipIf(process.platform === 'win32' || process.getuid!() === 0)(
    'is not one whose lock cannot be had, which is told of as wrong',
    async () => {
      const path = ownPath()
      writeFileSync(`${path}.lock`, '', { mode: 0o000 })
      chmodSync(dirname(path), 0o500)
      onTestFinished(() => chmodSync(dirname(path), 0o700))
      expect(await rejectionOf(() => serve(new InferenceEngine(), { path }))).toMatchObject({
        code: 'ERR_INVALID_ARG',
        message: expect.stringContaining('cannot listen'),
      })
    },
  )

  it('is still served after the system had no room for a client', async () => {
    const { path, remote, client } = await served(false)
    const handles = (process as unknown as { _getActiveHandles(): object[] })._getActiveHandles()
    const listener = handles.find(
      (handle): handle is Server => handle instanceof Server && handle.address() === path,
    )!
    listener.emit('error', Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' }))
    expect(await remote.models()).toEqual([])
    expect(await (await client()).models()).toEqual([])
  })

  it('has a path that the system takes, and options that there are', async () => {
    const engine = new InferenceEngine()
    for (const options of [
      {},
      { path: '' },
      { path: `/tmp/${'x'.repeat(200)}` },
      { path: ownPath(), idleMs: -1 },
      { path: ownPath(), maxBytes: 1 },
      { path: ownPath(), nonsense: 1 },
    ]) {
      expect(await rejectionOf(() => serve(engine, options as never))).toMatchObject({
        code: 'ERR_INVALID_ARG',
      })
    }
    for (const options of [
      { nonsense: 1 },
      { timeoutMs: -1 },
      { sharedMemory: 1 },
      { spawn: {} },
      { spawn: { module: 1 } },
      { spawn: { module: 'x', execArgv: [1] } },
    ]) {
      expect(await rejectionOf(() => connect(ownPath(), options as never))).toMatchObject({
        code: 'ERR_INVALID_ARG',
      })
    }
  })

  it('is left by a server that nobody has needed for a while', async () => {
    const engine = new InferenceEngine()
    const server = await serve(engine, { path: ownPath(), idleMs: 20 })
    const remote = await connect(server.path)
    await remote.models()
    await remote.close()
    await server.closed
    expect(existsSync(server.path)).toBe(false)
  })
})
