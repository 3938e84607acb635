import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import fastify from 'fastify'
import { describe, expect, it, onTestFinished } from 'vitest'
import { kserve, checkKserveOptions } from '../../src/adapters/kserve/kserve.ts'
import * as small from '../models/small.ts'
import { ownEngine } from '../support/open.ts'
import { Serving } from './serving.ts'

const request = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }] }

async function loaded() {
  const engine = ownEngine()
  await engine.load('m', { path: small.identity('float32') })
  return engine
}

describe('the handler', () => {
  it('is a hook of Fastify, whose own routes go on', async () => {
    const handle = kserve(await loaded())
    const app = fastify()
    app.addHook('onRequest', (incoming, reply, done) => void handle(incoming.raw, reply.raw, done))
    app.post('/own', async (incoming) => ({ got: incoming.body }))
    onTestFinished(() => app.close())
    await app.listen({ port: 0, host: '127.0.0.1' })
    const { port } = app.server.address() as { port: number }
    const post = (path: string, value: unknown) =>
      fetch(`http://127.0.0.1:${port}${path}`, {
        method: 'POST',
        body: JSON.stringify(value),
        headers: { 'content-type': 'application/json' },
      })
    expect(await (await post('/v2/models/m/infer', request)).json()).toMatchObject({
      model_name: 'm',
      outputs: [{ data: [1, 2, 3, 4] }],
    })
    expect((await post('/v2/models/absent/infer', request)).status).toBe(404)
    expect(await (await post('/own', [7])).json()).toEqual({ got: [7] })
  })

  it('is middleware of Connect and Express, below a path of its own as well', async () => {
    const handle = kserve(await loaded())
    const serving = await Serving.by(
      createServer((incoming, response) => {
        incoming.url = incoming.url!.replace(/^\/triton/, '') // as app.use('/triton', ...) does
        void handle(incoming, response, () => response.end('next'))
      }),
    )
    expect((await serving.post('/triton/v2/models/m/infer', request)).status).toBe(200)
    expect((await serving.call('GET', '/triton/own')).body.toString()).toBe('next')
  })

  it('leaves room for middleware that counts the bytes of bodies, and that reads the headers of answers as an object', async () => {
    const handle = kserve(await loaded())
    let counted = 0
    const serving = await Serving.by(
      createServer((incoming, response) => {
        incoming.on('data', (chunk: Buffer) => (counted += chunk.length))
        const { writeHead } = response
        response.writeHead = (status: number, headers: any) => {
          for (const name of Object.keys(headers as object)) response.setHeader(name, headers[name] as string)
          return writeHead.call(response, status)
        }
        void handle(incoming, response)
      }),
    )
    const { status, headers } = await serving.post('/v2/models/m/infer', request)
    expect([status, headers['content-type'], counted]).toEqual([
      200,
      'application/json',
      JSON.stringify(request).length,
    ])
  })

  it('is a whole server, which answers what is not of the protocol with 404', async () => {
    const handle = kserve(await loaded())
    const handled: boolean[] = []
    const serving = await Serving.by(
      createServer(
        (incoming, response) => void handle(incoming, response).then((each) => handled.push(each)),
      ),
    )
    const own = await Serving.by(createServer(handle))
    for (const each of [serving, own]) {
      expect((await each.post('/v2/models/m/infer', request)).status).toBe(200)
      expect(await each.get('/metrics')).toEqual({
        status: 404,
        json: { error: expect.stringContaining('/v2 and below') as string },
      })
      expect(await each.post('/v3/models/m/infer', request)).toMatchObject({ status: 404 })
      expect((await each.call('HEAD', '/')).status).toBe(404)
    }
    expect(handled).toEqual([true, true, true, true])
  })

  it('calls next once for what is not of the protocol, and leaves the request as it is', async () => {
    const handle = kserve(await loaded())
    const passed: unknown[][] = []
    const handled: boolean[] = []
    const serving = await Serving.by(
      createServer((incoming, response) => {
        const next = (...given: unknown[]) => {
          passed.push([incoming.url, ...given])
          void json(incoming).then((body) => response.end(JSON.stringify(body)))
        }
        void handle(incoming, response, next).then((each) => handled.push(each))
      }),
    )
    expect(await serving.post('/own', [7])).toMatchObject({ status: 200, json: [7] })
    expect((await serving.get('/v2/nothing')).status).toBe(404)
    expect([passed, handled]).toEqual([[['/own']], [false, true]])
  })

  it('says where to be mounted when the body has been read before', async () => {
    const handle = kserve(await loaded())
    const serving = await Serving.by(
      createServer((incoming, response) => void json(incoming).then(() => handle(incoming, response))),
    )
    expect(await serving.post('/v2/models/m/infer', request)).toMatchObject({
      status: 500,
      json: { error: expect.stringContaining('before any middleware') as string },
    })
  })

  it('answers many at once through one connection each, and batches them', async () => {
    const engine = await loaded()
    const serving = await Serving.of(engine)
    const answers = await Promise.all(
      Array.from({ length: 64 }, (_, at) =>
        serving.post('/v2/models/m/infer', {
          id: String(at),
          inputs: [{ ...request.inputs[0], data: [at, 0, 0, 0] }],
        }),
      ),
    )
    expect(answers.map(({ json: { id, outputs } }) => [id, outputs[0].data[0]])).toEqual(
      answers.map((_, at) => [String(at), at]),
    )
    expect(engine.model('m').stats().inferenceCount).toBe(64)
  })
})

describe('options', () => {
  const wrong: [string, unknown][] = [
    ['maxBodyBytes', 0], ['maxBodyBytes', 1.5], ['maxJsonBytes', '1'], ['maxDecompressedBytes', 0], ['maxJsonValues', 2 ** 27], ['maxHeldBytes', 1], ['maxTensors', -1], ['maxNameLength', NaN],
    ['bodyTimeoutMs', 2 ** 31], ['timeoutMs', 0], ['modelControl', 'yes'], ['serverName', ''], ['compressFromBytes', -1], ['unknown', 1],
  ] // prettier-ignore
  it.each(wrong)('refuse %s %s', (name, value) => {
    const engine = ownEngine()
    expect(() => kserve(engine, { [name]: value })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: `options.${name}` }),
    )
  })

  it('are refused with what is no engine', () => {
    expect(() => kserve({} as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: 'engine' }),
    )
    expect(() => kserve(ownEngine(), null as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG' }),
    )
  })

  it('are by default what the documentation says', () => {
    const rows = readFileSync('docs/reference/adapter-options.md', 'utf8').matchAll(
      /^### `kserve\.(\w+)`\n\n.* default: ([^:,\n]+)/gm,
    )
    const bytes: Readonly<Record<string, number>> = { MiB: 2 ** 20, GiB: 2 ** 30 }
    const valueOf = (text: string) => {
      const [, digits, unit] = /^([\d ]+?)(?: (MiB|GiB))?$/.exec(text) ?? []
      return digits === undefined
        ? text.replaceAll(/[`']/g, '')
        : String(Number(digits.replaceAll(' ', '')) * (unit === undefined ? 1 : bytes[unit]!))
    }
    const defaults = Object.entries(checkKserveOptions({})).map(([name, value]) => [name, String(value)])
    expect(Object.fromEntries([...rows].map(([, name, text]) => [name!, valueOf(text!)]))).toEqual(
      Object.fromEntries(defaults),
    )
  })

  it('are all in the documentation', () => {
    const source = readFileSync('src/adapters/kserve/kserve.ts', 'utf8')
    const [, members] = /export interface KserveOptions \{\n([^]*?)^\}/m.exec(source)!
    const names = [...members!.matchAll(/^ {2}(\w+)\?:/gm)].map(([, name]) => name!)
    expect(names.length).toBe(12)
    const reference = readFileSync('docs/reference/adapter-options.md', 'utf8')
    expect(names.filter((name) => !reference.includes(`### \`kserve.${name}\`\n`))).toEqual([])
  })
})
