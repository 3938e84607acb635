import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect as connectSocket, createServer, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { loadBinding } from '../../src/memory/addon.ts'
import { InferenceEngine, Tensor } from '../../src/index.ts'
import { connect } from '../../src/processes/connect.ts'
import { serve } from '../../src/processes/engine-server.ts'
import { frameKinds, frameOf, textFrame } from '../../src/processes/frames.ts'
import { messageText, protocolVersion } from '../../src/processes/messages.ts'
import { greetNatively } from '../../src/processes/native-greeting.ts'
import { writeRequest } from '../../src/processes/inference-records.ts'
import { RecordWriter } from '../../src/processes/record-writer.ts'
import { SharedRings } from '../../src/processes/shared-rings.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import { until } from '../support/until.ts'
import { ownPath, served } from './served.ts'

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
    ['a call before it has greeted', [textFrame(frameKinds.call, messageText({ id: 1, method: 'stats', args: [] }))]],
    ['a greeting that is no JSON', [textFrame(frameKinds.hello, '{')]],
    ['a greeting of other types', [textFrame(frameKinds.hello, '{"protocol":"1"}')]],
    ['a record of noise', [greeting, (() => { const frame = frameOf(frameKinds.record, 4096); frame.set(bytes(4096, 2), 8); return frame })()]],
    ['an empty record', [greeting, frameOf(frameKinds.record, 0)]],
    ['a frame of no kind', [greeting, textFrame(99, '')]],
    ['a frame longer than all', [greeting, frameOf(frameKinds.call, 16).fill(0xff, 0, 4)]],
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
      socket.on('data', (chunk) => (text += chunk.toString('latin1')).includes('knows no method') && resolve(text))
    })
    for (const method of ['constructor', 'destroy', '__proto__']) socket.write(Buffer.concat([greeting, textFrame(frameKinds.call, messageText({ id: 1, method, args: [] }))].slice(method === 'constructor' ? 0 : 1)))
    expect(await answered).toContain('ERR_INVALID_ARG')
    expect(server.stats().clients).toBe(2)
  })

  it('by another protocol is refused in words', async () => {
    const path = ownPath()
    const other = createServer((socket) => void socket.once('data', () => socket.end(textFrame(frameKinds.welcome, messageText({ ...hello, protocol: 'x' } as never)))))
    await new Promise<void>((resolve) => other.listen(path, resolve))
    onTestFinished(() => void other.close())
    expect(await rejectionOf(() => connect(path, { timeoutMs: 200, sharedMemory: false }))).toMatchObject({ code: 'ERR_DISCONNECTED' })
    const { path: served_ } = await served(false)
    const socket = raw(served_).removeAllListeners('data')
    let text = ''
    socket.on('data', (chunk) => (text += chunk.toString('latin1')))
    socket.write(textFrame(frameKinds.hello, messageText({ ...hello, protocol: 99 })))
    await ended(socket)
    expect(text).toContain('speaks protocol 1; this one has 0 and speaks 99')
  })

  const processes = loadBinding().binding?.processes ?? null

  const record = new RecordWriter()

  it.skipIf(processes === null)('by noise in the shared memory is disconnected, or refused, and others are not', async () => {
    const { engine, path, remote, server } = await served(true)
    await engine.load('identity', { path: small.identity('float32') })
    for (let seed = 1; seed <= 60; seed++) {
      const random = mulberry32(seed)
      const { descriptor, welcome, handedOver } = await greetNatively(processes!, path, { ...hello, sharesMemory: true }, 1000)
      const rings = SharedRings.take(processes!, handedOver!, welcome.ringBytes, () => {})
      const { words } = rings.views
      writeRequest(record, 1, 'identity', row, undefined, false)
      rings.writer.write(record)
      if (seed % 3 === 0) words[(256 + 64) / 4] = 8 // how far answers were read
      // The words of both rings, and what records begin with.
      for (let change = 0; change < 20; change++) words[Math.floor(random() * 128)] = Math.floor(random() * 2 ** 32) | 0
      for (let change = 0; change < 200; change++) words[1024 + Math.floor(random() * 4096)] = random() < 0.5 ? Math.floor(random() * 2 ** 32) | 0 : Math.floor(random() * 64)
      if (seed % 2 === 0) Atomics.store(words, 0, 8 * Math.floor(1 + random() * 1000))
      for (let ring = 0; ring < 10; ring++) rings.bell.ring()
      expect((await remote.infer('identity', row))['y']!.data).toEqual(row.x.data)
      rings.release()
      processes!.close(descriptor)
      expect((await remote.infer('identity', row))['y']!.data).toEqual(row.x.data)
    }
    await until(() => server.stats().clients === 1)
    expect(server.stats().inFlight).toBe(0)
  })
})

describe('where a server listens', () => {
  it('is a folder that nobody else may enter, for client and server', async () => {
    const engine = new InferenceEngine()
    const open = join(dirname(ownPath()), 'open')
    mkdirSync(open)
    chmodSync(open, 0o755)
    const path = join(open, 'socket')
    expect(await rejectionOf(() => serve(engine, { path }))).toMatchObject({ code: 'ERR_INVALID_ARG', message: expect.stringMatching(/mode 700.*mode 755/) })
    expect(await rejectionOf(() => connect(path))).toMatchObject({ code: 'ERR_INVALID_ARG' })
    chmodSync(open, 0o700)
    await (await serve(engine, { path })).close()
    expect(existsSync(path)).toBe(false)
  })

  it('is of one server at a time; what a dead one has left is in nobody\'s way', async () => {
    const { engine, path, remote } = await served(false)
    expect(await rejectionOf(() => serve(engine, { path }))).toMatchObject({ code: 'ERR_INVALID_ARG', message: expect.stringContaining('another does') })
    expect(await remote.models()).toEqual([])
    const left = ownPath()
    writeFileSync(left, '')
    await (await serve(engine, { path: left })).close()
  })

  it('has a path that the system takes, and options that there are', async () => {
    const engine = new InferenceEngine()
    for (const options of [{}, { path: '' }, { path: `/tmp/${'x'.repeat(200)}` }, { path: ownPath(), idleMs: -1 }, { path: ownPath(), maxBytes: 1 }, { path: ownPath(), nonsense: 1 }]) {
      expect(await rejectionOf(() => serve(engine, options as never))).toMatchObject({ code: 'ERR_INVALID_ARG' })
    }
    for (const options of [{ nonsense: 1 }, { timeoutMs: -1 }, { sharedMemory: 1 }, { spawn: {} }, { spawn: { module: 1 } }, { spawn: { module: 'x', execArgv: [1] } }]) {
      expect(await rejectionOf(() => connect(ownPath(), options as never))).toMatchObject({ code: 'ERR_INVALID_ARG' })
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
