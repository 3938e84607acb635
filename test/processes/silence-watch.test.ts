import { createServer, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { rejectionOf } from '../abuse/refusal.ts'
import { loadBinding } from '../../src/native/addon.ts'
import { connect } from '../../src/adapters/processes/processes.ts'
import {
  frameKinds,
  FrameReader,
  messageText,
  protocolVersion,
  textFrame,
} from '../../src/adapters/processes/messages.ts'
import { SilenceWatch } from '../../src/adapters/processes/client-connection.ts'
import { ownPath } from './served.ts'

describe('a limit of a request', () => {
  function watched() {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const asked = vi.fn()
    return { watch: new SilenceWatch(asked), asked, passes: (ms: number) => vi.advanceTimersByTime(ms) }
  }

  it('is kept to the millisecond where nothing is heard of the server', () => {
    const { watch, asked, passes } = watched()
    const onSilence = vi.fn()
    watch.watch(500, onSilence)
    passes(249)
    expect(asked).not.toHaveBeenCalled()
    passes(250)
    expect([asked.mock.calls.length, onSilence.mock.calls.length]).toEqual([1, 0])
    passes(1)
    expect(onSilence).toHaveBeenCalledTimes(1)
  })

  it('gives a server some time to say something, however short it is', () => {
    const { watch, passes } = watched()
    const onSilence = vi.fn()
    watch.watch(1, onSilence)
    passes(49)
    expect(onSilence).not.toHaveBeenCalled()
    passes(2)
    expect(onSilence).toHaveBeenCalledTimes(1)
  })

  it('is left to a server that says something, which is asked again until the request is answered', () => {
    const { watch, asked, passes } = watched()
    const onSilence = vi.fn()
    const end = watch.watch(500, onSilence)
    asked.mockImplementation(() => watch.heard())
    passes(20_000)
    expect(onSilence).not.toHaveBeenCalled()
    expect(asked.mock.calls.length).toBeGreaterThan(10)
    asked.mockReset() // it is stopped
    passes(1100)
    expect(onSilence).toHaveBeenCalledTimes(1)
    end()
    passes(10_000)
    expect(asked).toHaveBeenCalledTimes(1)
  })

  it('of many is asked for once', () => {
    const { watch, asked, passes } = watched()
    for (let request = 0; request < 100; request++) watch.watch(400 + request, () => {})
    passes(1000)
    expect(asked).toHaveBeenCalledTimes(1)
  })

  it('counts no more once the request is answered', () => {
    const { watch, asked, passes } = watched()
    const end = watch.watch(500, () => expect.unreachable())
    end()
    passes(1000)
    expect(asked).not.toHaveBeenCalled()
  })
})

/** A server that greets and says nothing more, as one that is stopped. */
async function silentServer() {
  const path = ownPath()
  const kinds: number[] = []
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => {}))
    const frames = new FrameReader(2 ** 20, (kind) => kinds.push(kind))
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
  return { path, kinds, end }
}

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
      message: expect.stringContaining('another user serves there') as string,
    })
    expect(kinds).toEqual([])
  })
})
