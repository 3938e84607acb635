import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { describe, expect, it } from 'vitest'
import { isByForeignName, isOfAnotherSite } from '../src/adapters/http/http-requests.ts'
import { inspector } from '../src/adapters/inspector/inspector.ts'
import { listening } from './inspector/inspected-server.ts'
import { Serving } from './kserve/serving.ts'
import { identity } from './models/small.ts'
import { ownEngine } from './support/open.ts'

const from = (headers: Record<string, string>, localAddress = '127.0.0.1') => ({
  headers,
  socket: { localAddress } as IncomingMessage['socket'],
})

describe('a request', () => {
  it.each([
    ['says so', { 'sec-fetch-site': 'cross-site' }, true],
    ['is of another host of its site', { 'sec-fetch-site': 'same-site' }, true],
    [
      'is of the page itself',
      { 'sec-fetch-site': 'same-origin', origin: 'https://a.example', host: '127.0.0.1:9' },
      false,
    ],
    ['was typed', { 'sec-fetch-site': 'none' }, false],
    ['is of no browser', { host: 'a:1' }, false],
    ['has another origin', { origin: 'http://evil.example', host: '192.168.1.5:9090' }, true],
    ['has the origin of another port', { origin: 'http://192.168.1.5:80', host: '192.168.1.5:9090' }, true],
    ['has no origin that it may tell', { origin: 'null', host: '192.168.1.5:9090' }, true],
    ['has its own origin', { origin: 'http://192.168.1.5:9090', host: '192.168.1.5:9090' }, false],
  ])('that %s is of another site: %j %s', (_, headers, expected) => {
    expect(isOfAnotherSite(from(headers as Record<string, string>))).toBe(expected)
  })

  it.each([
    ['evil.example:9090', '127.0.0.1', true],
    ['localhost.evil.example', '127.0.0.1', true],
    ['127.0.0.1.evil.example', '::ffff:127.0.0.1', true],
    ['evillocalhost', '::1', true],
    ['a b', '127.0.0.1', true],
    ['localhost:9090', '127.0.0.1', false],
    ['vision.LOCALHOST', '127.0.0.1', false],
    ['127.0.0.1:9090', '127.0.0.1', false],
    ['[::1]:9090', '::1', false],
    ['proxy.example', '127.0.0.1', false],
    ['vision.example', '10.0.0.7', false],
  ])('by the name %s to %s is by a foreign one: %s', (host, address, expected) => {
    expect(isByForeignName(from({ host }, address), ['proxy.example'])).toBe(expected)
  })
})

describe('a page whose name was made to stand for this machine', () => {
  it('is not told of an engine, unless its name is allowed', async () => {
    const url = await listening(inspector(ownEngine(), { allowedHosts: ['Proxy.example'] }))
    const status = async (host: string, accept = 'text/html') => {
      const [response] = (await once(
        httpRequest(url, { headers: { host, accept }, agent: false }).end(),
        'response',
      )) as [IncomingMessage]
      response.destroy()
      return response.statusCode
    }
    expect([await status('evil.example'), await status('evil.example', 'text/event-stream')]).toEqual([
      403, 403,
    ])
    expect([
      await status('proxy.example:80'),
      await status('localhost'),
      await status(new URL(url).host),
    ]).toEqual([200, 200, 200])
  })

  it('cannot unload models, nor can any page of another site; who is no browser can', async () => {
    const engine = ownEngine()
    await engine.load('m', { path: identity('float32') })
    const serving = await Serving.of(engine, { modelControl: true })
    const unload = async (headers: Record<string, string>) =>
      (await serving.call('POST', '/v2/repository/models/m/unload', '{}', headers)).status
    expect(await unload({ origin: 'http://evil.example' })).toBe(403)
    expect(
      await unload({ origin: 'http://evil.example', host: 'evil.example', 'sec-fetch-site': 'same-origin' }),
    ).toBe(403)
    expect(engine.model('m').state).toBe('ready')
    expect(await unload({ host: 'triton.example' })).toBe(200)
  })
})
