import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { InferenceError, type FunctionOptions } from '../../src/index.ts'
import { httpFailureOf, statusOfCode } from '../../src/adapters/kserve/exchange.ts'
import { kserve } from '../../src/adapters/kserve/kserve.ts'
import { deferred } from '../support/deferred.ts'
import { ownEngine } from '../support/open.ts'
import { Serving } from './serving.ts'

/** A model whose runs wait until they are let go. */
async function waiting(options: Pick<FunctionOptions, 'dynamicBatching'> = {}) {
  const engine = ownEngine()
  const gate = deferred<void>()
  const begun = deferred<void>()
  const model = await engine.loadFunction('m', {
    inputs: [{ name: 'x', type: 'float32', dims: [1] }], outputs: [{ name: 'y', type: 'float32', dims: [1] }], maxBatchSize: 1, ...options,
    run: async ({ x }) => {
      begun.resolve()
      await gate.promise
      return { y: Float32Array.from(x.data as Float32Array) }
    },
  }) // prettier-ignore
  return { engine, model, begun: begun.promise, go: () => gate.resolve() }
}

const request = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [1] }] }
const infer = (serving: Serving, value: object = request) => serving.post('/v2/models/m/infer', value)

describe('time', () => {
  it('for a body is limited', async () => {
    const { engine } = await waiting()
    const serving = await Serving.of(engine, { bodyTimeoutMs: 50 })
    const answer = await serving.raw(
      'POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{"inputs"',
    )
    expect(answer).toMatch(/^HTTP\/1.1 408 [^]*bodyTimeoutMs/)
  })

  it('for an answer is limited, and the request is withdrawn', async () => {
    const { engine, model } = await waiting()
    const serving = await Serving.of(engine, { timeoutMs: 1000 }) // in which it has begun, on a slow machine as well
    expect(await infer(serving)).toMatchObject({
      status: 504,
      json: { error: expect.stringContaining('timeoutMs') as string },
    })
    expect(model.stats().rejections.cancelled).toBe(1)
  })

  it("that a request gives itself is in Triton's microseconds", async () => {
    const { engine, begun, go } = await waiting()
    const serving = await Serving.of(engine)
    const first = infer(serving)
    await begun
    expect((await infer(serving, { ...request, parameters: { timeout: 20_000 } })).status).toBe(504)
    go()
    expect((await first).status).toBe(200)
  })
})

describe('a client that goes', () => {
  const head = (length: number) =>
    `POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`

  it('takes its request along, whether it runs or waits', async () => {
    const { engine, model, begun, go } = await waiting()
    const serving = await Serving.of(engine)
    const json = JSON.stringify(request)
    const sockets = [1, 2].map(() => connect(serving.port, '127.0.0.1'))
    for (const socket of sockets) {
      await once(socket, 'connect')
      socket.write(head(json.length) + json)
    }
    await begun
    await vi.waitFor(() => expect(model.stats().pendingRequestCount).toBe(1))
    for (const socket of sockets) socket.destroy()
    await vi.waitFor(() => expect(model.stats().rejections.cancelled).toBe(2), 10_000)
    go()
    expect((await infer(serving)).status).toBe(200)
  })

  it('takes no request of others along, whose signals were used before', async () => {
    const before = ownEngine()
    await before.loadFunction('m', {
      inputs: [{ name: 'x', type: 'float32', dims: [1] }],
      outputs: [{ name: 'y', type: 'float32', dims: [1] }],
      run: ({ x }) => ({ y: x.data as Float32Array }),
    })
    const earlier = await Serving.of(before)
    for (let at = 0; at < 4; at++) expect((await infer(earlier)).status).toBe(200)
    const { engine, model, begun, go } = await waiting()
    const serving = await Serving.of(engine)
    const [first, second] = [infer(serving), infer(serving)]
    await begun
    const json = JSON.stringify(request)
    const socket = connect(serving.port, '127.0.0.1')
    await once(socket, 'connect')
    socket.write(head(json.length) + json)
    await vi.waitFor(() => expect(model.stats().pendingRequestCount).toBe(2))
    socket.destroy()
    await vi.waitFor(() => expect(model.stats().rejections.cancelled).toBe(1), 10_000)
    go()
    expect([(await first).status, (await second).status]).toEqual([200, 200])
    for (let at = 0; at < 4; at++) expect((await infer(serving)).status).toBe(200)
  })

  it('in the middle of its body gives back what it held', async () => {
    const { engine, go } = await waiting()
    go()
    const json = JSON.stringify(request)
    const serving = await Serving.of(engine, { maxBodyBytes: 200, maxHeldBytes: 200, maxJsonBytes: 200 })
    for (let at = 0; at < 5; at++) {
      const socket = connect(serving.port, '127.0.0.1')
      await once(socket, 'connect')
      socket.resume().end(head(200) + json) // and no more
      await once(socket, 'close')
    }
    await vi.waitFor(async () => expect((await infer(serving)).status).toBe(200), 10_000)
  })
})

describe('a connection', () => {
  it('has the headers of the application as that wrote them', async () => {
    const engine = ownEngine()
    const handle = kserve(engine)
    const serving = await Serving.by(
      createServer((incoming, response) => {
        response.setHeader('x-city', 'Zürich')
        void handle(incoming, response)
      }),
    )
    for (const path of ['/v2', '/v2/models/é/ready']) {
      const response = await fetch(`http://127.0.0.1:${serving.port}${path}`)
      expect(response.headers.get('x-city')).toBe('Zürich')
      expect((await response.text()).length).toBeGreaterThan(10)
    }
  })

  it('is cut off where an answer is not read in time', async () => {
    const engine = ownEngine()
    const length = 8_000_000 // more than the system keeps for a connection
    await engine.loadFunction('m', {
      inputs: [{ name: 'x', type: 'float32', dims: [1] }],
      outputs: [{ name: 'y', type: 'float32', dims: [length] }],
      maxBatchSize: 1,
      run: () => ({ y: new Float32Array(length) }),
    })
    const handle = kserve(engine, { timeoutMs: 1000 })
    const handled = deferred<Promise<boolean>>()
    const { port } = await Serving.by(
      createServer((incoming, response) => handled.resolve(handle(incoming, response))),
    )
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    onTestFinished(() => void socket.destroy())
    const json = JSON.stringify({ ...request, parameters: { binary_data_output: true } })
    socket.write(
      `POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: ${json.length}\r\n\r\n${json}`,
    )
    expect(await handled.promise).toBe(true)
  })

  it('may have several requests one behind the other', async () => {
    const { engine, go } = await waiting()
    go()
    const serving = await Serving.of(engine)
    const json = JSON.stringify({ ...request, id: 'first' })
    const post = `POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: ${json.length}\r\n\r\n${json}`
    const text = await serving.raw(
      `${post}GET /v2/nothing HTTP/1.1\r\nHost: a\r\n\r\nGET /v2/health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
    )
    expect(text.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200'])
    expect(text).toContain('"id":"first"')
  })
})

describe('a connection that is reset', () => {
  const post = (json: string) =>
    `POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: ${json.length}\r\n\r\n${json}`
  const json = JSON.stringify(request)
  const live = 'GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n'

  // Node.js tells the responses behind the first one nothing of the end of their connection.
  it.each([
    ['inferences', post(json).repeat(20), 21],
    ['answers that wait to be sent', live.repeat(20), 21],
    ['answers that are compressed', `${live.slice(0, -2)}Accept-Encoding: gzip\r\n\r\n`.repeat(5), 6],
    ['refusals that end the connection', post(json).replace('Host: a', 'Host: a\r\nContent-Encoding: br'), 2],
    ['half a body', post(json).slice(0, -5), 2],
  ])('ends all that came on it: behind an inference %s', async (_, behind, count) => {
    const { engine, model, begun, go } = await waiting()
    const handle = kserve(engine, {
      maxBodyBytes: 2 * json.length,
      maxHeldBytes: 22 * json.length,
      compressFromBytes: 0,
    })
    const handled: Promise<boolean>[] = []
    const all = deferred<void>()
    const { port } = await Serving.by(
      createServer((incoming, response) => {
        handled.push(handle(incoming, response))
        if (handled.length === count) all.resolve()
      }),
    )
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    socket.write(post(json) + behind)
    await Promise.all([begun, all.promise])
    socket.resetAndDestroy()
    expect(await Promise.all(handled)).toEqual(Array(count).fill(true))
    go()
    await vi.waitFor(() => expect(model.stats().pendingRequestCount).toBe(0))
    const serving = await Serving.by(createServer((incoming, response) => void handle(incoming, response)))
    const padded = `${json}${' '.repeat(json.length)}`
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => serving.post('/v2/models/m/infer', padded)),
    ) // 20 of 22 are held again
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200))
  })
})

describe('a body in very short chunks', () => {
  const head = (more = '') =>
    `POST /v2/models/m/infer HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n${more}\r\n`

  it.each([
    ['as it is', ''],
    ['compressed', 'content-encoding: deflate\r\n'],
  ])('is refused before all of it has come, %s', async (_, more) => {
    const { engine } = await waiting()
    const serving = await Serving.of(engine)
    const chunks = '1\r\nx\r\n1\r\n\x01\r\n' + '1\r\n\0\r\n'.repeat(1023)
    const text = await serving.raw(head(more) + chunks)
    expect(text).toMatch(
      /^HTTP\/1.1 400 .*chunks of 16 bytes or more on average, received 1025 chunks with 1025 bytes/s,
    )
  })

  it('is read if it has few of them, or long ones as well', async () => {
    const { engine, go } = await waiting()
    go()
    const serving = await Serving.of(engine)
    const long = `${(16 * 3000).toString(16)}\r\n${' '.repeat(16 * 3000)}\r\n`
    const text = JSON.stringify(request)
    const body = `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`
    for (const spaces of ['1\r\n \r\n'.repeat(1000), long + '1\r\n \r\n'.repeat(2900)])
      expect(await serving.raw(head('connection: close\r\n') + spaces + body)).toMatch(/^HTTP\/1.1 200/)
  })
})

describe('requests that are pipelined', () => {
  const inference = (value: object = request, more = '') =>
    `POST /v2/models/m/infer HTTP/1.1\r\nhost: localhost\r\n${more}content-length: ${JSON.stringify(value).length}\r\n\r\n${JSON.stringify(value)}`
  const ready = (more = '') => `GET /v2/health/ready HTTP/1.1\r\nhost: localhost\r\n${more}\r\n`

  it('begin two per turn of the event loop, however many come in one packet, and are all answered', async () => {
    const engine = ownEngine()
    let turn = 0
    let isOver = false
    const count = () => (turn++, isOver || setImmediate(count))
    const begunIn = new Map<number, number>()
    const models = engine.models.bind(engine)
    vi.spyOn(engine, 'models').mockImplementation(() => {
      begunIn.set(turn, (begunIn.get(turn) ?? 0) + 1)
      return models()
    })
    const serving = await Serving.of(engine)
    count()
    const text = await serving.raw(ready().repeat(39) + ready('connection: close\r\n'))
    isOver = true
    expect(text.match(/HTTP\/1.1 200/g)).toHaveLength(40)
    expect([...begunIn.values()].reduce((sum, each) => sum + each)).toBe(40)
    expect(Math.max(...begunIn.values())).toBeLessThanOrEqual(3) // the first is not behind another one
  })

  it('are dropped when the connection is reset before they begin', async () => {
    const engine = ownEngine()
    const handle = kserve(engine)
    const ended: Promise<boolean>[] = []
    const serving = await Serving.by(
      createServer((incoming, response) => void ended.push(handle(incoming, response))),
    )
    const socket = connect(serving.port, '127.0.0.1').on('error', () => {})
    socket.write('GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(100), () => socket.resetAndDestroy())
    await vi.waitFor(() => expect(ended.length).toBeGreaterThan(0))
    await vi.waitFor(async () => {
      const count = ended.length
      await Promise.all(ended)
      expect(ended).toHaveLength(count)
    })
    expect((await serving.get('/v2')).status).toBe(200)
  })

  it.each([
    ['that are answered at once', 'GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n'],
    ['that wait for a model', inference()],
  ])(
    'are held in bounded number and do not delay other connections, however many come %s',
    async (_, endless) => {
      const { engine, go } = await waiting()
      const handle = kserve(engine)
      let [held, most, ended] = [0, 0, 0]
      const serving = await Serving.by(
        createServer((incoming, response) => {
          most = Math.max(most, ++held)
          void handle(incoming, response).then(() => (held--, ended++))
        }),
      )
      const flood = connect(serving.port, '127.0.0.1').on('error', () => {}) // it reads nothing
      let packets = 50 // more than one turn could begin in the time of the test
      const write = () => {
        while (packets-- > 0 && flood.write(endless.repeat(1000)));
      }
      flood.on('drain', write)
      write()
      await vi.waitFor(() => expect(held).toBeGreaterThan(200), 10_000)
      for (let round = 0; round < 5; round++) {
        const before = ended
        const text = await serving.raw(ready().repeat(9) + ready('connection: close\r\n'))
        expect(text.match(/HTTP\/1.1 200/g)).toHaveLength(10)
        expect(ended - before).toBeLessThan(200)
      }
      // Of the flood, those of one read, and 64 each that wait and are in flight.
      expect(most).toBeLessThan(65_536 / endless.length + 150)
      flood.resetAndDestroy()
      go() // a socket that is not read is known to be reset when an answer is written
      await vi.waitFor(() => expect(held).toBe(0), 10_000)
    },
  )

  it('are all answered in their order, when they are more than are read at once', async () => {
    const { engine, go } = await waiting()
    go()
    const serving = await Serving.of(engine)
    const ids = Array.from({ length: 180 }, (_, at) => String(at))
    const parameters = { note: 'x'.repeat(400) }
    const all = ids.map((id) =>
      inference({ id, parameters, ...request }, id === '179' ? 'connection: close\r\n' : ''),
    )
    const text = await serving.raw(all.join(''))
    expect([...text.matchAll(/"id":"(\d+)"/g)].map(([, id]) => id)).toEqual(ids)
  })

  it('are all answered when middleware changed their order', async () => {
    const { engine, begun, go } = await waiting()
    const handle = kserve(engine)
    const authenticated = deferred<void>()
    const models = vi.spyOn(engine, 'models')
    const serving = await Serving.by(
      createServer(async (incoming, response) => {
        if (incoming.url === '/v2') await authenticated.promise
        void handle(incoming, response)
      }),
    )
    const second = 'GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n'
    const text = serving.raw(inference() + second + ready().repeat(99) + ready('connection: close\r\n'))
    await begun
    await vi.waitFor(() => expect(models).toHaveBeenCalledTimes(64), 10_000) // as many as may be in flight
    authenticated.resolve()
    await new Promise(setImmediate)
    go()
    expect((await text).match(/HTTP\/1.1 200/g)).toHaveLength(102)
  })
})

describe('what is held of all requests', () => {
  it('is limited: one over it is told to come again', async () => {
    const { engine, begun, go } = await waiting()
    const length = JSON.stringify(request).length
    const serving = await Serving.of(engine, { maxBodyBytes: length + 10, maxHeldBytes: length + 10 })
    const first = infer(serving)
    await begun
    const second = await infer(serving)
    expect([second.status, second.headers['retry-after']]).toEqual([503, '1'])
    go()
    expect((await first).status).toBe(200)
    expect((await infer(serving)).status).toBe(200)
  })
})

describe('an error', () => {
  it('of a full queue says when to come again', async () => {
    const { engine, begun, go, model } = await waiting({
      dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 1 } },
    })
    const serving = await Serving.of(engine)
    const first = infer(serving)
    await begun
    const second = infer(serving)
    await vi.waitFor(() => expect(model.stats().pendingRequestCount).toBe(1))
    const third = await infer(serving)
    expect([third.status, third.json.error]).toEqual([503, expect.stringContaining('queue')])
    expect(Number(third.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    go()
    expect([(await first).status, (await second).status]).toEqual([200, 200])
  })

  it('of each code has a status, and its message', () => {
    for (const code of Object.keys(statusOfCode) as (keyof typeof statusOfCode)[]) {
      expect(httpFailureOf(new InferenceError(code, 'told'))).toMatchObject({
        status: statusOfCode[code],
        message: 'told',
        headers: {},
      })
    }
    expect(
      httpFailureOf(new InferenceError('ERR_QUEUE_FULL', 'told', { retryAfterMs: 1200 })).headers,
    ).toEqual({
      'retry-after': '2',
    })
  })

  it('of the application itself is told without its message', async () => {
    const { engine } = await waiting()
    vi.spyOn(engine.model('m'), 'infer').mockRejectedValue(new Error('a secret'))
    const serving = await Serving.of(engine)
    expect(await infer(serving)).toMatchObject({
      status: 500,
      json: { error: 'The server failed in an unexpected way.' },
    })
  })
})
