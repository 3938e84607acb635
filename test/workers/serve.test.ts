import { once } from 'node:events'
import { MessageChannel } from 'node:worker_threads'
import { Tensor } from 'onnxruntime-common'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Bell, ControlBlock } from '../../src/run/executors/binding/control-block.ts'
import type { FromWorker, ToWorker } from '../../src/run/executors/protocol.ts'
import type { NamedTensors, Runtime, Session } from '../../src/run/worker-thread/onnxruntime.ts'
import { Server } from '../../src/run/worker-thread/serve.ts'

/** A session whose y is its x, prepared outputs written in place. */
function identity(overrides: Partial<Session> = {}): Session {
  const value = (name: string) => [{ name, type: 'float32', shape: ['N', 4] }]
  return {
    inputs: value('x'),
    outputs: value('y'),
    run: (feeds, fetches) => {
      const y = fetches.y ?? new Tensor('float32', new Float32Array(feeds.x!.size), feeds.x!.dims)
      ;(y.data as Float32Array).set(feeds.x!.data as Float32Array)
      return { y }
    },
    release: () => {},
    ...overrides,
  }
}

let sessions: Session[]
let control: ControlBlock
let port: MessageChannel['port1']
let serving: Promise<void>
const mailbox: FromWorker[] = []

beforeEach(() => {
  const channel = new MessageChannel()
  const bell = new Bell()
  port = channel.port1
  control = new ControlBlock()
  mailbox.length = 0
  port.on('message', (message: FromWorker) => mailbox.push(message))
  const runtime = { Tensor, version: 'none', open: async () => sessions.shift()! } as unknown as Runtime
  const workersEnd = new ControlBlock(control.buffer)
  serving = new Server(channel.port2, workersEnd, bell, runtime, 0).serve()
})

// The server still serves at the end of each test, and ends when it is asked to.
afterEach(async () => {
  sessions = [identity()]
  await ask({ type: 'open', questionId: 99, sessionId: 99, model: '', options: {} }, 'opened')
  const closed = once(port, 'close')
  post({ type: 'exit' })
  await serving
  await closed
})

function post(message: ToWorker): void {
  port.postMessage(message)
  control.announceMail()
}

async function next(type: FromWorker['type']): Promise<FromWorker> {
  for (;;) {
    const index = mailbox.findIndex((message) => message.type === type)
    if (index !== -1) return mailbox.splice(index, 1)[0]!
    await once(port, 'message')
  }
}

function ask(message: ToWorker, answer: FromWorker['type']): Promise<FromWorker> {
  post(message)
  return next(answer)
}

const open = (session: Session) => {
  sessions = [session]
  return ask({ type: 'open', questionId: 1, sessionId: 1, model: '', options: {} }, 'opened')
}
const close = () => ask({ type: 'close', questionId: 2, sessionId: 1 }, 'closed')

const slot = (byteLength = 256): ToWorker => ({
  type: 'slot',
  slotId: 7,
  sessionId: 1,
  buffer: new SharedArrayBuffer(byteLength),
  copied: true,
})
const layout = (layoutIndex: number, outputOffset = 64): ToWorker => ({
  type: 'layout',
  slotId: 7,
  layoutIndex,
  layout: { inputs: [{ offset: 0, dims: [1, 4] }], outputs: [{ offset: outputOffset, dims: [1, 4] }] },
})

/** What is answered to a batch: `'completed'`, or the error. */
async function run(layoutIndex = 0): Promise<unknown> {
  control.submit(7, layoutIndex)
  const times = { startMs: 0, inferStartMs: 0, inferEndMs: 0, endMs: 0 }
  for (;;) {
    if (control.takeCompletion(times) !== -1) return 'completed'
    const done = mailbox.findIndex(({ type }) => type === 'done')
    if (done !== -1) return (mailbox.splice(done, 1)[0] as Extract<FromWorker, { type: 'done' }>).error
    await new Promise(setImmediate)
  }
}

describe('a worker over whose message something is thrown', () => {
  it('answers a batch for whose slot it has no memory, with the reason', async () => {
    const refused = 4096
    const construct = (target: ArrayBufferConstructor, [byteLength]: [number]) => {
      if (byteLength === refused) throw new RangeError('Array buffer allocation failed')
      return new target(byteLength)
    }
    vi.stubGlobal('ArrayBuffer', new Proxy(ArrayBuffer, { construct }))
    await open(identity())
    post(slot(refused))
    post(layout(0))
    expect(await run()).toBe('Array buffer allocation failed')
    expect(await run()).toBe('Array buffer allocation failed')
    vi.unstubAllGlobals()
    // The slot is given other memory.
    post(slot())
    post(layout(0))
    expect(await run()).toBe('completed')
  })

  it('answers a batch whose layout cannot be prepared, and serves others in the same slot', async () => {
    await open(identity())
    post(slot())
    post(layout(0, 1_000_000))
    post(layout(1))
    expect(await run(0)).toMatch(/Invalid|offset|length/)
    expect(await run(1)).toBe('completed')
  })

  it('answers a batch whose session is closed', async () => {
    await open(identity())
    post(slot())
    post(layout(0))
    expect(await run()).toBe('completed')
    await close()
    post(layout(0))
    expect(await run()).toBe('The session or its slot was closed.')
  })

  it('answers a warm-up of a session that is closed', async () => {
    await open(identity())
    await close()
    const answer = await ask(
      { type: 'runSample', questionId: 5, sessionId: 1, feeds: [], wantsOutputs: false },
      'refused',
    )
    expect(answer).toEqual({ type: 'refused', questionId: 5, message: 'The session was closed.' })
  })

  it('answers a warm-up whose samples make no tensors', async () => {
    await open(identity())
    const feeds = [{ type: 'float32' as const, dims: [1, 4], data: new ArrayBuffer(3) }]
    const answer = await ask(
      { type: 'runSample', questionId: 5, sessionId: 1, feeds, wantsOutputs: false },
      'refused',
    )
    expect(answer).toMatchObject({
      type: 'refused',
      questionId: 5,
      message: expect.stringMatching(/multiple of 4/),
    })
  })

  it('has closed a session that could not be released', async () => {
    const release = () => {
      throw new Error('Session already disposed.')
    }
    await open(identity({ release }))
    expect(await close()).toEqual({ type: 'closed', questionId: 2 })
  })

  it('answers a batch whose outputs cannot be sent', async () => {
    const unsendable = { y: { type: 'float32', dims: [1, 4], data: [() => {}] } } as unknown as NamedTensors
    await open(identity({ run: () => unsendable }))
    post(slot())
    post({
      type: 'layout', slotId: 7, layoutIndex: 0,
      layout: { inputs: [{ offset: 0, dims: [1, 4] }], outputs: [null] },
    }) // prettier-ignore
    expect(await run()).toMatch(/could not be cloned/)
  })
})

describe('inputs that were sent for a batch', () => {
  it('are not those of another, where that was taken back and this one has none', async () => {
    const seen: NamedTensors[] = []
    const value = (name: string, type: string) => ({ name, type, shape: ['N', 1] })
    const inputs = [value('x', 'float32'), value('note', 'string')]
    const note = (feeds: NamedTensors) => {
      seen.push(feeds)
      return { y: new Tensor('float32', Float32Array.of(1), [1, 1]) }
    }
    await open(identity({ inputs, outputs: [value('y', 'float32')], run: note }))
    post(slot())
    const placed = (note: null | undefined, layoutIndex: number): ToWorker => ({
      type: 'layout', slotId: 7, layoutIndex,
      layout: { inputs: [{ offset: 0, dims: [1, 1] }, note], outputs: [{ offset: 64, dims: [1, 1] }] },
    }) // prettier-ignore
    post(placed(null, 0))
    post(placed(undefined, 1))
    post({
      type: 'inputs',
      slotId: 7,
      mailed: [null, { type: 'string', dims: [1, 1], data: ['another caller'] }],
    })
    expect(await run(1)).toBe('completed')
    expect(Object.keys(seen[0]!)).toEqual(['x'])
    expect(await run(0)).toBe('completed')
    expect(Object.keys(seen[1]!)).toEqual(['x'])
    post({ type: 'inputs', slotId: 7, mailed: [null, { type: 'string', dims: [1, 1], data: ['its own'] }] })
    expect(await run(0)).toBe('completed')
    expect(seen[2]!.note!.data).toEqual(['its own'])
  })
})
