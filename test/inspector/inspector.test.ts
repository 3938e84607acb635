import { once } from 'node:events'
import { connect } from 'node:net'
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import fastify from 'fastify'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { InferenceEngine } from '../../src/index.ts'
import { inspector } from '../../src/adapters/inspector/inspector.ts'
import { resourcesOf } from '../../src/engine/engine-resources.ts'
import { identity } from '../models/small.ts'
import { loadNumber, one } from '../pipelines/arithmetic.ts'
import { deferred } from '../support/deferred.ts'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { ask, listening, openEvents, textOf } from './inspected-server.ts'

const events = { accept: 'text/event-stream' }
const row = { x: new Float32Array(4) }
const hostile = `</script><script>alert(1)</script>'"&`

async function served(name = 'pairs'): Promise<InferenceEngine> {
  const engine = ownEngine({ cpuWorkers: 1 })
  await engine.load(name, {
    path: identity('float32'),
    maxBatchSize: 4,
    dynamicBatching: { holdUntilQueued: 4 },
  })
  return engine
}

const askFour = (engine: InferenceEngine, name = 'pairs') =>
  Promise.all(Array.from({ length: 4 }, () => engine.infer(name, row)))

describe('an inspector', () => {
  it('encodes its page once, so that many who ask for it do not hold the event loop', async () => {
    const inspect = inspector(await served())
    const sent: unknown[] = []
    const url = await listening((request, response) => {
      const end = response.end.bind(response)
      response.end = ((page: unknown) => (sent.push(page), end(page))) as typeof response.end
      inspect(request, response)
    })
    for (let time = 0; time < 2; time++) expect(await textOf(await ask(url))).toContain('<html')
    expect(sent[0]).toBeInstanceOf(Uint8Array)
    expect(sent[1]).toBe(sent[0])
  })

  it('serves its page on its path, with headers against framing, caching and reading by other sites', async () => {
    const inspect = inspector(await served(), { title: hostile, path: '/a/deeper/path' })
    const url = await listening((request, response) => {
      response.setHeader('access-control-allow-origin', '*') // as a service may say of all that it answers
      inspect(request, response)
    })
    for (const path of ['/a/deeper/path', '/a/deeper/path/?token=1']) {
      const response = await ask(url + path)
      const text = await textOf(response)
      expect(response.statusCode).toBe(200)
      expect(text).toContain('&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&#39;&quot;&amp;')
      expect(response.headers).toMatchObject({
        'content-type': 'text/html; charset=utf-8',
        'cache-control': expect.stringContaining('no-store'),
        'x-frame-options': 'DENY',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-resource-policy': 'same-origin',
      })
      expect(response.headers).not.toHaveProperty('access-control-allow-origin')
      const policy = String(response.headers['content-security-policy'])
      expect(policy).toMatch(
        /^default-src 'none'; script-src 'sha256-\S+' 'sha256-\S+'; style-src 'sha256-\S+' 'sha256-\S+'; connect-src 'self'; .*frame-ancestors 'none'$/,
      )
      expect(policy).not.toContain('unsafe')
    }
  })

  it('tells at once what there is, and then what came since', async () => {
    const engine = await served()
    const url = await listening(inspector(engine, { intervalMs: 100 }))
    await askFour(engine)
    const { next, response } = await openEvents(url)
    expect(response.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': expect.stringContaining('no-transform'),
      connection: 'close',
    })
    const first = await next()
    expect(first).toMatchObject({
      windowMs: null,
      all: { waiting: 0, window: null },
      modelsLeftOut: 0,
      ended: [],
    })
    expect(first.models).toMatchObject([
      {
        name: 'pairs',
        version: 1,
        state: 'ready',
        serves: true,
        isPipeline: false,
        answeredCount: 4,
        failures: {},
        maxBatchSize: 4,
        instanceCount: 1,
      },
    ])
    await askFour(engine)
    await engine.infer('pairs', { x: new Float32Array(3) }).catch(() => {})
    let frame = await next()
    while (frame.all.window!.answered === 0) frame = await next()
    expect(frame.all.window).toMatchObject({
      answered: 4,
      failed: 1,
      rows: 4,
      runs: 1,
      batchSizes: [{ batchSize: 4, count: 1 }],
      batchReasons: { full: 1 },
      failures: { invalid: 1 },
    })
    expect(frame.models[0]!.window).toEqual(frame.all.window)
    const { latency } = frame.all.window!
    expect(latency!.p50Us).toBeGreaterThan(0)
    expect(latency!.p99Us).toBeGreaterThanOrEqual(latency!.p50Us)
    expect(frame.ended).toMatchObject([
      { model: 'pairs', rows: 4, requests: 4, reason: 'full', isRerun: false },
    ])
    expect(frame.ended[0]!.inferUs).toBeGreaterThan(0)
    expect((await next()).all.window).toMatchObject({ answered: 0, latency: null, queueUs: null })
  })

  it('shows what waits, and a batch that runs', async () => {
    const engine = await served()
    const url = await listening(inspector(engine, { intervalMs: 100 }))
    const waiting = [engine.infer('pairs', row), engine.infer('pairs', row)]
    const { next, end } = await openEvents(url)
    expect(await next()).toMatchObject({ all: { waiting: 2 }, models: [{ waiting: 2 }] })
    await Promise.all([...waiting, engine.infer('pairs', row), engine.infer('pairs', row)])
    end()
  })

  it('does nothing while nobody looks', async () => {
    const engine = await served()
    let looks = 0
    const stats = engine.stats.bind(engine)
    engine.stats = () => {
      looks++
      return stats()
    }
    const url = await listening(inspector(engine, { intervalMs: 100 }))
    await textOf(await ask(url))
    expect({ looks, observer: resourcesOf(engine).observers.observer }).toEqual({ looks: 0, observer: null })
    const first = await openEvents(url)
    await first.next()
    const second = await openEvents(url)
    await second.next()
    expect(looks).toBeGreaterThan(0)
    expect(resourcesOf(engine).observers.observer).not.toBeNull()
    first.end()
    second.end()
    await until(() => resourcesOf(engine).observers.observer === null)
    const before = looks
    await askFour(engine)
    expect(looks).toBe(before)
  })

  it('tells two who look on the same', async () => {
    const engine = await served()
    const url = await listening(inspector(engine, { intervalMs: 100 }))
    const one = await openEvents(url)
    const first = await one.next()
    const other = await openEvents(url)
    expect(await other.next()).toEqual(first)
    expect(await other.next()).toEqual(await one.next())
  })

  it('has places for so many, and a place again when one leaves', async () => {
    const url = await listening(inspector(await served(), { maxClients: 1 }))
    const one = await openEvents(url)
    const refused = await ask(url, { headers: events })
    expect({
      status: refused.statusCode,
      after: refused.headers['retry-after'],
      text: await textOf(refused),
    }).toEqual({ status: 503, after: '5', text: '1 pages are open, the most allowed. Close one.\n' })
    one.end()
    let again = await ask(url, { headers: events })
    while (again.statusCode === 503) {
      again.resume()
      again = await ask(url, { headers: events })
    }
    expect(again.statusCode).toBe(200)
  })

  it('keeps no place for those who have gone before they were handed over', async () => {
    const engine = await served()
    const inspect = inspector(engine, { maxClients: 1 })
    const gone = deferred<void>()
    const url = await listening((request, response) => {
      if (request.url !== '/slow') return inspect(request, response)
      response.once('close', () => {
        inspect(request, response) // as after a look at who it is
        gone.resolve()
      })
      asked.destroy()
    })
    const asked = httpRequest(`${url}/slow`, { headers: events, agent: false })
      .on('error', () => {})
      .end()
    await gone.promise
    expect(resourcesOf(engine).observers.observer).toBeNull()
    const { next } = await openEvents(url)
    expect((await next()).models).toHaveLength(1)
  })

  it('keeps no place for streams that waited behind another answer of a connection that was reset', async () => {
    const inspect = inspector(await served(), { maxClients: 2 })
    const asked = deferred<void>()
    let streams = 0
    const url = await listening((request, response) => {
      if (request.url === '/first') return // is never answered
      inspect(request, response)
      if (++streams === 2) asked.resolve()
    })
    const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {})
    const head = (path: string) =>
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n`
    socket.write(head('/first') + head('/').repeat(2))
    await asked.promise
    expect((await ask(url, { headers: events })).statusCode).toBe(503)
    socket.resetAndDestroy()
    await vi.waitFor(
      async () => expect((await ask(url, { headers: events })).resume().statusCode).toBe(200),
      10_000,
    )
  })

  it('ends open pages when it is closed, so that a server can close, and takes no others', async () => {
    const inspect = inspector(await served())
    const url = await listening(inspect)
    const { response } = await openEvents(url)
    response.resume()
    inspect.close()
    inspect.close()
    await once(response, 'end')
    expect((await ask(url)).statusCode).toBe(503)
  })

  it.each([
    ['another site', { ...events, 'sec-fetch-site': 'cross-site' }, 'GET', 403],
    ['another host of its site', { ...events, 'sec-fetch-site': 'same-site' }, 'GET', 403],
    ['its own page', { ...events, 'sec-fetch-site': 'same-origin' }, 'GET', 200],
    ['somebody who wants to change something', {}, 'POST', 405],
    ['somebody who wants to delete something', events, 'DELETE', 405],
    ['somebody who asks which methods there are', {}, 'OPTIONS', 405],
    ['a page of another site that has a link', { 'sec-fetch-site': 'cross-site' }, 'GET', 200],
    ['somebody who wants the head alone', events, 'HEAD', 200],
  ] as [string, OutgoingHttpHeaders, string, number][])(
    'answers %s as it should',
    async (_, headers, method, status) => {
      const url = await listening(inspector(await served()))
      const [response] = (await once(
        httpRequest(url, { method, headers, agent: false }).end(),
        'response',
      )) as [IncomingMessage]
      expect(response.statusCode).toBe(status)
      expect(response.headers).toMatchObject({
        'x-frame-options': 'DENY',
        'cache-control': expect.stringContaining('no-store'),
      })
      if (status === 405) expect(response.headers.allow).toBe('GET, HEAD')
      response.destroy()
    },
  )

  it('tells nothing of what is in requests, nor what errors say of it', async () => {
    const engine = ownEngine({ cpuWorkers: 1 })
    await engine.load('pairs', { path: identity('float32') })
    await loadNumber(engine, 'failing', (x) => {
      throw new Error(`no answer to ${x}`)
    })
    const url = await listening(inspector(engine, { intervalMs: 100 }))
    const { next } = await openEvents(url)
    await next()
    await engine.infer('pairs', { x: Float32Array.of(424242, 0, 0, 0) }, { requestId: '424242' })
    await expect(engine.infer('failing', { x: one(424242) })).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      message: expect.stringContaining('424242'),
    })
    const frames = [await next()]
    while (frames.flatMap(({ ended }) => ended).length < 2) frames.push(await next())
    const frame = frames.at(-1)!
    expect(frame.models.map(({ failures }) => failures)).toEqual([{}, { execution: 1 }])
    expect(JSON.stringify(frames)).not.toContain('424242')
    expect(JSON.stringify(frames)).not.toContain('.onnx')
  })

  it('given next, passes on what is not for the path on which it is mounted or is not to be looked at, and answers the rest', async () => {
    const inspect = inspector(await served())
    const passed: string[] = []
    const url = await listening((request, response) => {
      if (request.url === '/route') Object.assign(request, { route: { path: '/route' } }) // as app.get('/route', ...) of Express does
      inspect(request, response, () => {
        passed.push(`${request.method} ${request.url}`)
        response.writeHead(201).end('next')
      })
    })
    for (const path of ['/', '/?token=1', '/route'])
      expect(await textOf(await ask(url + path))).toContain('zerohop inspector')
    expect(passed).toEqual([])
    expect((await openEvents(url)).response.statusCode).toBe(200)
    for (const [method, path] of [
      ['GET', '/metrics'],
      ['GET', '/a?b'],
      ['POST', '/'],
      ['DELETE', '/route'],
    ] as const)
      expect([(await fetch(url + path, { method })).status, passed.pop()]).toEqual([201, `${method} ${path}`])
  })

  it('without next refuses what is not to be looked at', async () => {
    const url = await listening(inspector(await served()))
    const response = await fetch(url, { method: 'POST' })
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
  })

  it.each([
    ['/', {}],
    ['/admin/inspector', { path: '/admin/inspector' }],
    ['/admin/inspector', { path: '/admin/inspector/' }],
  ])('without next answers only %s', async (path, options) => {
    const url = await listening(inspector(await served(), options))
    const statusOf = async (at: string) => (await fetch(url + at)).status
    expect([await statusOf(path), await statusOf(`${path}?token=1`)]).toEqual([200, 200])
    if (path !== '/') expect([await statusOf(`${path}/`), await statusOf('/')]).toEqual([200, 404])
    else expect([await statusOf('/inspector'), await statusOf('/inspector/')]).toEqual([200, 200])
    for (const other of ['/nope', '/favicon.ico', '/inspectorfoo', `${path}/favicon.ico`])
      expect(await statusOf(other)).toBe(404)
    expect((await fetch(`${url}/nope`, { method: 'POST' })).status).toBe(404)
  })

  it('can be a hook of Fastify, whose own routes go on', async () => {
    const app = fastify()
    onTestFinished(() => app.close())
    const inspect = inspector(await served())
    app.addHook('onRequest', (request, reply, done) => inspect(request.raw, reply.raw, done))
    app.get('/own', () => 'own')
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    expect(await textOf(await ask(`${url}/own`))).toBe('own')
    expect(await textOf(await ask(url))).toContain('zerohop inspector')
  })

  it('can be mounted in Fastify', async () => {
    const app = fastify()
    onTestFinished(() => app.close())
    const inspect = inspector(await served(), { path: '/admin/inspector' })
    app.addHook('onRequest', (request, reply, done) => inspect(request.raw, reply.raw, done))
    app.addHook('preClose', (done) => {
      inspect.close()
      done()
    })
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    for (const end of ['', '/', '?token=1'])
      expect(await textOf(await ask(`${url}/admin/inspector${end}`))).toContain('zerohop inspector')
    const { next } = await openEvents(`${url}/admin/inspector`)
    expect((await next()).models).toHaveLength(1)
  })

  it.each([
    ['engine', null, {}],
    ['options.title', undefined, { title: '' }],
    ['options.path', undefined, { path: 'inspector' }],
    ['options.intervalMs', undefined, { intervalMs: 99 }],
    ['options.maxClients', undefined, { maxClients: 1.5 }],
    ['options.allowedHosts', undefined, { allowedHosts: [7] }],
    ['options.control', undefined, { control: true }],
    ['options', undefined, []],
  ])('refuses a wrong %s', (argument, engine, options) => {
    expect(() => inspector((engine === undefined ? ownEngine() : engine) as never, options as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument }),
    )
  })
})
