import { execFile, fork } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect as connectSocket, createServer, type Socket } from 'node:net'
import { dirname } from 'node:path'
import { Duplex } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { SilenceWatch } from '../../src/adapters/processes/client-connection.ts'
import { Connection, type ConnectionOwner } from '../../src/adapters/processes/connection.ts'
import {
  aliveCall,
  frameKinds,
  frameOf,
  FrameReader,
  messageText,
  protocolVersion,
  textFrame,
} from '../../src/adapters/processes/messages.ts'
import { requestPieces, writeAnswer, writeRequest } from '../../src/adapters/processes/inference-records.ts'
import { connect } from '../../src/adapters/processes/processes.ts'
import { RecordReader, RecordViews, RecordWriter } from '../../src/adapters/processes/records.ts'
import { CallPace } from '../../src/adapters/processes/server-connection.ts'
import { takeLock } from '../../src/adapters/processes/serving-place.ts'
import { areaBytes, RingReader, RingWriter, SharedRings } from '../../src/adapters/processes/shared-rings.ts'
import { doAll } from '../../src/base/slices.ts'
import { Tensor } from '../../src/index.ts'
import { loadBinding } from '../../src/native/addon.ts'
import type { NativeProcesses } from '../../src/native/native-binding.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import { deferred } from '../support/deferred.ts'
import { until } from '../support/until.ts'
import { repetitions } from '../support/full.ts'
import * as small from '../models/small.ts'
import { ownPath, served } from './served.ts'

const ringBytes = 2 ** 20

/** One end of a connection whose owner notes the numbers of records, and accepts as many as it is told to. */
function end() {
  const views = new RecordViews(new ArrayBuffer(areaBytes(ringBytes)))
  const bell = { ring: () => {}, ref: () => {}, unref: () => {}, close: () => {} }
  const rings = {
    reader: new RingReader(views, ringBytes, 0),
    writer: new RingWriter(views, ringBytes, 1),
    views,
    bell,
    release: () => {},
  } as unknown as SharedRings
  const socket = new Duplex({
    read: () => {},
    write: (_chunk, _encoding, done) => done(),
  }) as unknown as Socket
  const state = { left: 0, numbers: [] as number[], closed: null as string | null }
  const owner: ConnectionOwner = {
    onFrame: () => {},
    takesFrames: () => true,
    accepts: () => state.left > 0,
    onRecord: (record) => {
      state.left--
      state.numbers.push(record.number())
      return undefined
    },
    onClose: (reason) => void (state.closed = reason),
  }
  const connection = new Connection(socket, owner)
  connection.open(100_000, rings)
  return { state, socket, connection, peer: new RingWriter(views, ringBytes, 0) }
}

function numbered(number: number, bytes = 0): RecordWriter {
  const record = new RecordWriter()
  record.begin()
  record.number(number)
  if (bytes > 0) record.elements(new Uint8Array(bytes), 'Uint8Array')
  return record
}

const framed = (number: number, bytes = 0): Buffer => recordFrame(numbered(number, bytes))

function recordFrame(record: RecordWriter): Buffer {
  const frame = frameOf(frameKinds.record, record.byteLength)
  record.copyTo(new RecordViews(frame.buffer as ArrayBuffer), 8)
  return frame
}

describe('records that come by both ways', () => {
  it('are read in the order in which they were written, however late they are accepted', () => {
    const { state, connection, peer } = end()
    for (const number of [1, 2, 3]) peer.write(numbered(number))
    for (const number of [4, 5]) connection.push(framed(number))
    expect(state.numbers).toEqual([])
    for (let turn = 0; turn < 5; turn++) {
      state.left = 1
      connection.read()
    }
    expect(state.numbers).toEqual([1, 2, 3, 4, 5])
  })

  it('are read in that order when there are more of them than one turn of the event loop has time for', async () => {
    const { state, connection, peer } = end()
    for (let number = 0; number < 5000; number++) expect(peer.write(numbered(number))).toBe(true)
    state.left = Infinity
    connection.push(framed(5000))
    while (state.numbers.length <= 5000) await new Promise(setImmediate)
    expect(state.numbers).toEqual(Array.from({ length: 5001 }, (_, number) => number))
  })

  it('wait in the memory of who sends them once they are many, or have many bytes', async () => {
    for (const [count, bytes] of [
      [65, 0],
      [3, 40_000],
    ] as const) {
      const { state, socket, connection } = end()
      socket.resume()
      for (let number = 1; number < count; number++) connection.push(framed(number, bytes))
      expect(socket.isPaused()).toBe(false)
      connection.push(framed(count, bytes))
      expect(socket.isPaused()).toBe(true)
      state.left = Infinity
      connection.read()
      await until(() => state.numbers.length === count) // in several turns, where the machine is busy
      expect(socket.isPaused()).toBe(false)
    }
  })
})

describe('memory that is to be shared', () => {
  /** What the addon gives, until `failing` is asked for. */
  function processes(failing: string) {
    const open = new Set<number>()
    let last = 2
    const descriptor = () => {
      open.add(++last)
      return last
    }
    const made = <T>(what: string, value: () => T): T => {
      if (what === failing) throw new Error(`no ${what}`)
      return value()
    }
    let areas = 0
    const area = (bytes: number) => (areas++, new ArrayBuffer(bytes))
    const fake = {
      createArea: (bytes: number) => ({ descriptor: descriptor(), bytes: area(bytes) }),
      openArea: (_descriptor: number, bytes: number) => made('area', () => area(bytes)),
      releaseArea: () => areas--,
      socketPair: () => made('sockets', () => [descriptor(), descriptor()]),
      close: (each: number) => void expect(open.delete(each)).toBe(true),
      Bell: class {
        constructor() {
          made('bell', () => null)
        }
      },
    }
    return { fake: fake as unknown as NativeProcesses, open, descriptor, areas: () => areas }
  }

  it.each(['sockets', 'bell'])('leaves nothing open where the system has no %s for it', (failing) => {
    const { fake, open, areas } = processes(failing)
    expect(() => SharedRings.make(fake, ringBytes, () => {})).toThrow(`no ${failing}`)
    expect([open.size, areas()]).toEqual([0, 0])
  })

  it.each(['area', 'bell'])(
    'leaves nothing of what was handed over open where there is no %s for it',
    (failing) => {
      const { fake, open, descriptor, areas } = processes(failing)
      expect(() =>
        SharedRings.take(fake, { area: descriptor(), bell: descriptor() }, ringBytes, () => {}),
      ).toThrow(`no ${failing}`)
      expect([open.size, areas()]).toEqual([0, 0])
    },
  )

  it.each([0, 100, 3 * 4096, NaN])('is refused with rings of %d bytes, and let go of', (bytes) => {
    const { fake, open, descriptor } = processes('')
    expect(() => SharedRings.take(fake, { area: descriptor(), bell: descriptor() }, bytes, () => {})).toThrow(
      'power of two',
    )
    expect(open.size).toBe(0)
  })
})

it.skipIf(process.platform !== 'linux')(
  'a client and its server that have nothing to do are woken by nothing, and hold no process by themselves',
  async () => {
    const child = fork(fileURLToPath(new URL('fixtures/idle-connection.mjs', import.meta.url)), [
      ownPath(),
      small.identity('float32'),
      String(repetitions(5, 3)),
    ])
    const told = await new Promise<{ median: number; timers: string[] }>((resolve, reject) => {
      child.once('message', (message) => resolve(message as never))
      child.once('exit', (code) => reject(new Error(`it ended with code ${code}`)))
    })
    expect(told).toMatchObject({ median: 0, timers: [] })
    expect(await new Promise((resolve) => child.once('exit', resolve))).toBe(0)
  },
)

/** Watches with a clock that goes on by hand. */
function watched(ask: () => void = () => {}) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  vi.stubGlobal('setImmediate', () => {}) // as an application's fake that is discarded
  onTestFinished(() => void vi.useRealTimers().unstubAllGlobals())
  const asked = vi.fn(ask)
  const passes = async (ms: number) => {
    for (let passed = 0; passed < ms; passed++) {
      vi.advanceTimersByTime(1)
      await nextTurn()
    }
  }
  return { watch: new SilenceWatch(asked), asked, passes }
}

describe('a limit of a request', () => {
  it('is kept to the millisecond where nothing is heard of the server', async () => {
    const { watch, asked, passes } = watched()
    const onSilence = vi.fn()
    watch.watch(500, onSilence)
    await passes(249)
    expect(asked).not.toHaveBeenCalled()
    await passes(250)
    expect([asked.mock.calls.length, onSilence.mock.calls.length]).toEqual([1, 0])
    await passes(1)
    expect(onSilence).toHaveBeenCalledTimes(1)
  })

  it('gives a server some time to say something, however short it is', async () => {
    const { watch, passes } = watched()
    const onSilence = vi.fn()
    watch.watch(1, onSilence)
    await passes(49)
    expect(onSilence).not.toHaveBeenCalled()
    await passes(2)
    expect(onSilence).toHaveBeenCalledTimes(1)
  })

  it('does not reject while the server responds: the client asks it again until the answer comes', async () => {
    const { watch, asked, passes } = watched()
    const onSilence = vi.fn()
    const end = watch.watch(500, onSilence)
    asked.mockImplementation(() => watch.heard())
    await passes(20_000)
    expect(onSilence).not.toHaveBeenCalled()
    expect(asked.mock.calls.length).toBeGreaterThan(10)
    asked.mockReset() // it is stopped
    await passes(1100)
    expect(onSilence).toHaveBeenCalledTimes(1)
    end()
    await passes(10_000)
    expect(asked).toHaveBeenCalledTimes(1)
  })

  it.each([100, 500])(
    'is kept soon after it has passed where the server stops shortly before or after it (%d ms)',
    async (limitMs) => {
      for (const [answers, lateMs] of [
        [1, 100],
        [2, 300],
        [3, 700],
      ] as const) {
        let left: number = answers
        const { watch, passes } = watched(() => left-- > 0 && watch.heard())
        const onSilence = vi.fn()
        watch.watch(limitMs, onSilence)
        await passes(limitMs + lateMs - 1)
        expect(onSilence).not.toHaveBeenCalled()
        await passes(1)
        expect(onSilence).toHaveBeenCalledTimes(1)
      }
    },
  )

  it('takes one question for many waiting requests', async () => {
    const { watch, asked, passes } = watched()
    for (let request = 0; request < 100; request++) watch.watch(400 + request, () => {})
    await passes(1000)
    expect(asked).toHaveBeenCalledTimes(1)
  })

  it('counts no more once the request is answered', async () => {
    const { watch, asked, passes } = watched()
    const end = watch.watch(500, () => expect.unreachable())
    end()
    await passes(1000)
    expect(asked).not.toHaveBeenCalled()
  })

  it('counts no more once the request is withdrawn in the turn in which it passes', async () => {
    const { watch, passes } = watched()
    const end = watch.watch(100, () => expect.unreachable())
    await passes(99)
    vi.advanceTimersByTime(1)
    end()
    await passes(1)
  })

  it('is not taken for passed in silence by a client that was blocked itself when it was answered', async () => {
    const record = new RecordWriter()
    const { path } = await silentServer((kind, socket) => {
      if (kind !== frameKinds.call) return // the client asks for a sign of life at half of the limit
      writeAnswer(record, 1, { y: new Tensor('float32', Float32Array.of(7), [1]) }, false)
      socket.write(recordFrame(record))
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300) // the client's thread is this one, too
    })
    const remote = await connect(path, { sharedMemory: false })
    onTestFinished(() => remote.destroy())
    const { y } = await remote.infer('m', { x: Float32Array.of(1) }, { deadlineMs: 400 })
    expect(y!.data).toEqual(Float32Array.of(7))
  })
})

/** A server that greets and says nothing more by itself, as one that is stopped. */
async function silentServer(
  onFrame: (kind: number, socket: Socket, body: Buffer) => void = () => {},
  path = ownPath(),
) {
  const kinds: number[] = []
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => {}))
    const frames = new FrameReader(2 ** 20, (kind, body) => {
      kinds.push(kind)
      onFrame(kind, socket, body)
    })
    socket.on('data', (chunk: Buffer) => frames.push(chunk))
    socket.write(
      textFrame(
        frameKinds.welcome,
        messageText({
          protocol: protocolVersion,
          version: '0',
          process: 1,
          ringBytes: 0,
          maxRequests: 10,
          maxBytes: 2 ** 20,
        }),
      ),
    )
  })
  await new Promise<void>((resolve) => server.listen(path, resolve))
  const end = () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  onTestFinished(end)
  const result = (id: number) =>
    sockets[0]!.write(textFrame(frameKinds.result, messageText({ id, value: [] })))
  return { path, kinds, end, result }
}

describe('a call without a limit of its own', () => {
  it('goes on as long as the server answers, however late, and ends when that stops', async () => {
    let answers = true
    const { watch, passes } = watched(() => setTimeout(() => answers && watch.heard(), 2000))
    const onSilence = vi.fn()
    watch.watchOn(5000, onSilence)
    await passes(60_000)
    expect(onSilence).not.toHaveBeenCalled()
    answers = false
    await passes(7500)
    expect(onSilence).toHaveBeenCalledTimes(1)
  })
})

describe('a client of a server that is stopped', () => {
  it('has the limits of its requests kept, and withdraws them', async () => {
    const { path, kinds } = await silentServer()
    const remote = await connect(path, { sharedMemory: false })
    onTestFinished(() => remote.destroy())
    const feeds = { x: Float32Array.of(1) }
    const errors = await Promise.all([
      rejectionOf(() => remote.infer('m', feeds, { timeoutMs: 60 })),
      rejectionOf(() => remote.infer('m', feeds, { deadlineMs: 70 })),
      rejectionOf(() => remote.infer('m', feeds, { timeoutMs: 1e6, deadlineMs: 1 })),
    ])
    expect(errors).toMatchObject([
      { code: 'ERR_TIMEOUT', message: expect.stringContaining('60 ms (timeoutMs)') as string },
      { code: 'ERR_DEADLINE', message: expect.stringContaining('70 ms (deadlineMs)') as string },
      { code: 'ERR_DEADLINE', message: expect.stringContaining('1 ms (deadlineMs)') as string },
    ])
    await vi.waitFor(() => expect(kinds.filter((kind) => kind === frameKinds.withdrawal)).toHaveLength(3))
    await remote.close() // nothing is in flight any more
  })

  it.each([
    { timeoutMs: 100, silenceMs: 5000 },
    { timeoutMs: 8000, silenceMs: 8000 },
  ])(
    'has its other calls rejected, and takes no notice of late results ($silenceMs ms)',
    async ({ timeoutMs, silenceMs }) => {
      const { path, result } = await silentServer()
      const remote = await connect(path, { sharedMemory: false, timeoutMs })
      onTestFinished(() => remote.destroy())
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
      onTestFinished(() => void vi.useRealTimers())
      const model = remote.model('m')
      const settled = vi.fn()
      const calls = {
        stats: () => remote.stats(),
        models: () => remote.models(),
        capabilities: () => remote.capabilities(),
        load: () => remote.load('m', { path: 'm.onnx' }),
        unload: () => remote.unload('m'),
        metadata: () => model.metadata(),
        modelStats: () => model.stats(),
        classes: () => model.classification({}),
      }
      const rejections = Object.values(calls).map((call) => rejectionOf(call).finally(settled))
      await vi.advanceTimersByTimeAsync(silenceMs - 1)
      expect(settled).not.toHaveBeenCalled()
      await vi.advanceTimersByTimeAsync(1)
      expect(await Promise.all(rejections)).toMatchObject(
        Object.keys(calls).map((method) => ({
          code: 'ERR_TIMEOUT',
          message: expect.stringMatching(
            `^${method}\\(\\): .*sent nothing for ${silenceMs} ms\\. It may be stopped or blocked`,
          ) as string,
        })),
      )
      vi.useRealTimers()
      const next = remote.models()
      for (let id = 1; id <= rejections.length + 1; id++) result(id)
      expect(await next).toEqual([])
      await remote.close() // nothing is in flight any more
    },
  )

  it('has them kept while it looks for the next server, too', async () => {
    const { path, end } = await silentServer()
    const remote = await connect(path, { sharedMemory: false, timeoutMs: 60_000 })
    onTestFinished(() => remote.destroy())
    const first = rejectionOf(() => remote.infer('m', { x: Float32Array.of(1) }))
    end()
    expect(await first).toMatchObject({ code: 'ERR_DISCONNECTED' })
    expect(
      await rejectionOf(() => remote.infer('m', { x: Float32Array.of(1) }, { timeoutMs: 20 })),
    ).toMatchObject({ code: 'ERR_TIMEOUT' })
  })

  it('has them kept from the call on, however long it has looked for the next server', async () => {
    const { path, end } = await silentServer()
    const remote = await connect(path, { sharedMemory: false, timeoutMs: 60_000 })
    onTestFinished(() => remote.destroy())
    const feeds = { x: Float32Array.of(1) }
    const first = rejectionOf(() => remote.infer('m', feeds))
    end()
    await first
    const calledMs = performance.now()
    remote
      .infer('m', feeds, { timeoutMs: 40_000, deadlineMs: 50_000, priority: 2, maxRunMs: 30_000 })
      .catch(() => {})
    await until(() => performance.now() - calledMs > 50)
    const options = await new Promise<Record<string, number>>((resolve) => {
      void silentServer((kind, _socket, body) => {
        if (kind !== frameKinds.record) return
        const record = new RecordReader(new RecordViews(body.buffer as ArrayBuffer), 0, body.length)
        resolve(doAll(requestPieces(record)).options as Record<string, number>)
      }, path)
    })
    const { timeoutMs, deadlineMs, ...others } = options
    expect(timeoutMs).toBeLessThanOrEqual(40_000 - 50)
    expect(timeoutMs).toBeGreaterThan(0)
    expect(deadlineMs).toBe(timeoutMs! + 10_000)
    expect(others).toEqual({ priority: 2, maxRunMs: 30_000 })
  })
})

describe('a sign of life', () => {
  /** A client by hand of an engine whose inference ends by hand. */
  async function client() {
    const { path, engine, server } = await served(false)
    const inference = deferred<never>()
    vi.spyOn(engine, 'infer').mockReturnValue(inference.promise)
    const results: number[] = []
    const frames = new FrameReader(2 ** 20, (kind, body) => {
      if (kind === frameKinds.result) results.push((JSON.parse(body.toString()) as { id: number }).id)
    })
    const socket = connectSocket(path).on('data', (chunk: Buffer) => frames.push(chunk))
    onTestFinished(() => void socket.destroy())
    const hello = { protocol: protocolVersion, version: '0', sharesMemory: false }
    socket.write(textFrame(frameKinds.hello, messageText(hello)))
    return { server, results, socket, inference }
  }
  const asks = textFrame(frameKinds.call, aliveCall)

  it('waits for no other calls of a client; more of them at once do', async () => {
    const turn = vi.spyOn(CallPace.prototype, 'turn').mockReturnValue(new Promise(() => {}))
    onTestFinished(() => turn.mockRestore())
    const { socket, results } = await client()
    const call = textFrame(frameKinds.call, messageText({ id: 1, method: 'stats', args: [] }))
    for (const signs of [1, 2]) {
      socket.write(Buffer.concat([call, asks, asks, asks]))
      await until(() => results.length === signs)
      for (let turns = 0; turns < 20; turns++) await nextTurn()
      expect(results).toEqual(Array.from({ length: signs }, () => 0))
    }
  })

  it('is given while a server that ends has requests to answer', async () => {
    const { server, socket, results, inference } = await client()
    const record = new RecordWriter()
    writeRequest(record, 1, 'm', { x: Float32Array.of(1) }, undefined, false)
    socket.write(recordFrame(record))
    await until(() => server.stats().inFlight === 1)
    const closed = server.close()
    socket.write(asks)
    await until(() => results.length === 1)
    inference.resolve({} as never)
    await closed
    expect(results).toEqual([0])
  })
})

describe.skipIf(process.platform === 'win32')('a client', () => {
  it('refuses a server of another user, without shared memory as well', async ({ skip }) => {
    const processes = loadBinding().binding?.processes
    if (processes === undefined) skip()
    const { path, kinds } = await silentServer()
    vi.spyOn(processes!, 'peer').mockReturnValue({ process: 1, user: process.getuid!() + 1 })
    onTestFinished(() => void vi.restoreAllMocks())
    expect(await rejectionOf(() => connect(path, { sharedMemory: false, timeoutMs: 100 }))).toMatchObject({
      code: 'ERR_DISCONNECTED',
      message: expect.stringContaining('a process of another user serves there') as string,
    })
    expect(kinds).toEqual([])
  })
})

const processes = loadBinding().binding?.processes ?? null

describe.each([
  ...(processes === null ? [] : [{ how: 'with the addon', by: processes }]),
  { how: 'without it', by: null },
])('a lock, $how', ({ by }) => {
  it('is of one holder until that gives it up', () => {
    const path = ownPath()
    const held = takeLock(path, by)
    expect(held).not.toBeNull()
    expect(takeLock(path, by)).toBeNull()
    held!.release()
    const again = takeLock(path, by)
    expect(again).not.toBeNull()
    again!.release()
  })
})

describe('a lock without the addon', () => {
  it("that a process has left which is gone is in nobody's way", () => {
    const path = ownPath()
    writeFileSync(`${path}.pid`, String(2 ** 22 + 1)) // above what the system gives
    const held = takeLock(path, null)
    expect(held).not.toBeNull()
    expect(takeLock(path, null)).toBeNull()
    held!.release()
  })

  it.skipIf(process.platform !== 'linux')(
    "that a process has left whose number another one has by now is in nobody's way",
    () => {
      const path = ownPath()
      writeFileSync(`${path}.pid`, `${process.ppid} 1`) // of a process that was started as the system was
      const held = takeLock(path, null)
      expect(held).not.toBeNull()
      held!.release()
    },
  )

  it('that another process has stays with it', () => {
    const path = ownPath()
    writeFileSync(`${path}.pid`, String(process.ppid))
    expect(takeLock(path, null)).toBeNull()
  })
})

it('a client takes nothing but its own modules and the tensors: no engine, no schemas, no threads, nothing to start processes with', async () => {
  const { path, engine } = await served(true)
  await engine.load('identity', { path: small.identity('float32') })
  const client = fileURLToPath(new URL('fixtures/client-modules.mjs', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [client, path, 'identity'])
  const { files, sources, ofNode } = JSON.parse(stdout) as Record<'files' | 'sources' | 'ofNode', string[]>

  const packages = files.flatMap((url) => /\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? [])
  expect([...new Set(packages)]).toEqual(['onnxruntime-common'])
  const folders = sources.map((file) => dirname(file)).filter((folder) => folder !== '.')
  expect([...new Set(folders)].sort()).toEqual([
    'adapters/processes',
    'base',
    'engine', // how classes are read from outputs
    'native',
    'options',
    'request',
    'tensor',
  ])
  expect(sources.filter((file) => file.startsWith('engine/'))).toEqual(['engine/classification.ts'])
  expect(
    sources.filter((file) =>
      /engine-server|server-connection|spawn-server|infer-many|wire-reader|-schema/.test(file),
    ),
  ).toEqual([])
  expect(
    ofNode.filter((name) => /NativeModule (crypto|child_process|worker_threads|http)$/.test(name)),
  ).toEqual([])
})
