import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { readBody } from '../../src/adapters/kserve/exchange.ts'
import { nonFinite, numbersText, parseExact } from '../../src/adapters/kserve/json-fields.ts'
import { kserve } from '../../src/adapters/kserve/kserve.ts'
import type { InferenceEngine } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { deferred } from '../support/deferred.ts'
import { sharedEngine } from '../support/open.ts'
import { byteElements, Serving } from './serving.ts'

const engine: InferenceEngine = sharedEngine()
beforeAll(async () => {
  await engine.load('m', { path: small.identity('float32') })
  await engine.load('text', { path: small.identity('string') })
})

const good = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }] })

const limits = {
  maxBodyBytes: 2 ** 24,
  maxDecompressedBytes: 2 ** 22,
  bodyTimeoutMs: 60_000,
  onStop: () => {},
}

it('bodies that come at once are read in pieces of 256 KiB in a turn of the event loop, all of them together', async () => {
  const pieces = Array.from({ length: 32 }, (_, index) => Buffer.alloc(2 ** 16, index))
  const inTurns: number[] = [0]
  let isOver = false
  const turn = () => {
    inTurns.push(0)
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  const hold = (bytes: number) => void (inTurns[inTurns.length - 1]! += bytes)
  const read = () => {
    const request = Object.assign(Readable.from(pieces), { headers: {}, complete: true })
    return readBody(request as unknown as IncomingMessage, { ...limits, hold, count: () => {} })
  }
  const bodies = await Promise.all(Array.from({ length: 32 }, read))
  isOver = true
  for (const body of bodies) expect(Buffer.concat(pieces).equals(body)).toBe(true)
  expect(Math.max(...inTurns.slice(1))).toBeLessThanOrEqual(2 ** 18 + 4 * 2 ** 16) // in the first each body brings a piece
})

it('the rest of a body is read and dropped when its exchange has ended, even if the body was paused', async () => {
  let stop: (reason: Error) => void = () => {}
  const ended = deferred<void>()
  const pieces = Array.from({ length: 32 }, (_, index) => Buffer.alloc(2 ** 16, index))
  const request = Object.assign(Readable.from(pieces), { headers: {}, complete: true })
  request.on('end', () => ended.resolve())
  let held = 0
  const hold = (bytes: number) => {
    held += bytes
    if (held === 2 ** 18) queueMicrotask(() => stop(new Error('it took too long')))
  }
  const read = readBody(request as unknown as IncomingMessage, {
    ...limits,
    onStop: (callback) => void (stop = callback),
    hold,
    count: () => {},
  })
  await expect(read).rejects.toThrow('it took too long')
  await ended.promise
})

it('a body in one piece is not copied, nor paused once it is read, however many come in a turn', async () => {
  const requests = Array.from({ length: 32 }, (_, at) => {
    const piece = Buffer.alloc(2 ** 16, at)
    const request = Object.assign(Readable.from([piece]), {
      headers: { 'content-length': `${piece.length}` },
      complete: true,
    })
    return { piece, request: request as unknown as IncomingMessage }
  })
  const own = { ...limits, hold: () => {}, count: () => {} }
  const bodies = await Promise.all(requests.map(({ request }) => readBody(request, own)))
  for (const [at, { piece, request }] of requests.entries()) {
    expect(bodies[at]).toBe(piece)
    expect(request.isPaused()).toBe(false)
  }
})

describe('a compressed body', () => {
  const requestOf = (bytes: Uint8Array, encoding: string) =>
    Object.assign(Readable.from([bytes]), {
      headers: { 'content-encoding': encoding },
      complete: true,
    }) as unknown as IncomingMessage

  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
  ] as const)('of %s is counted while it comes out, not after', async (encoding, compress) => {
    const bytes = Buffer.alloc(2 ** 22, 'abcdefg')
    let held = 0
    const read = await readBody(requestOf(compress(bytes), encoding), {
      ...limits,
      hold: (count) => void (held += count),
      count: () => {},
    })
    expect(bytes.equals(read)).toBe(true)
    expect(held).toBe(bytes.length)
    let taken = 0
    const full = (count: number) => {
      if ((taken += count) > 300_000) throw new Error('there is no more room')
    }
    await expect(
      readBody(requestOf(compress(bytes), encoding), { ...limits, hold: full, count: () => {} }),
    ).rejects.toThrow('there is no more room')
    expect(taken).toBeLessThan(400_000)
  })

  it('that is cut off at any byte is refused, and the next request on its connection is answered', async () => {
    const { port } = await Serving.of(engine)
    const whole = gzipSync(good)
    for (let length = 1; length < whole.length; length++) {
      const response = await fetch(`http://127.0.0.1:${port}/v2/models/m/infer`, {
        method: 'POST',
        body: whole.subarray(0, length),
        headers: { 'content-encoding': 'gzip' },
      })
      expect([length, response.status, Object.keys((await response.json()) as object)]).toEqual([
        length,
        400,
        ['error'],
      ])
    }
    expect(
      (
        await fetch(`http://127.0.0.1:${port}/v2/models/m/infer`, {
          method: 'POST',
          body: whole,
          headers: { 'content-encoding': 'gzip' },
        })
      ).status,
    ).toBe(200)
  })

  it('may be far shorter, decompressed, than one that came as it is', async () => {
    const padded = `${good.slice(0, -1)},"padding":"${'x'.repeat(10_000)}"}`
    const serving = await Serving.of(engine, { maxDecompressedBytes: 9000 })
    const send = async (body: Uint8Array | string, encoding: string) => {
      const { status, body: answer } = await serving.call('POST', '/v2/models/m/infer', body, {
        'content-encoding': encoding,
      })
      return [status, answer.toString()]
    }
    expect(await send(padded, 'identity')).toEqual([200, expect.stringContaining('outputs')])
    expect(await send(gzipSync(padded), 'gzip')).toEqual([
      413,
      expect.stringContaining('9000 bytes at most (maxDecompressedBytes)'),
    ])
    expect(await send(deflateSync(good), 'deflate')).toEqual([200, expect.stringContaining('outputs')])
  })

  it('that is all brackets is refused before it is parsed', async () => {
    const serving = await Serving.of(engine)
    const brackets = 2 ** 21 - 100
    const { status, body } = await serving.call(
      'POST',
      '/v2/models/m/infer',
      gzipSync(`{"x":${'['.repeat(brackets)}${']'.repeat(brackets)}}`),
      { 'content-encoding': 'gzip' },
    )
    expect([status, body.toString()]).toEqual([400, expect.stringContaining('within 64 others at most')])
  })

  it('of nothing is an empty body', async () => {
    const serving = await Serving.of(engine)
    expect(
      (await serving.call('POST', '/v2/repository/index', '', { 'content-encoding': 'gzip' })).status,
    ).toBe(200)
  })
})

describe('a client that is refused while it sends', () => {
  it('hears why, also when it reads only after it has sent all', async () => {
    const { port } = await Serving.of(engine, { maxBodyBytes: 1000, maxJsonBytes: 1000 })
    const body = Buffer.alloc(4_000_000, ' ')
    for (let round = 0; round < 10; round++) {
      const response = await fetch(`http://127.0.0.1:${port}/v2/models/m/infer`, { method: 'POST', body })
      expect([response.status, ((await response.json()) as { error: string }).error]).toEqual([
        413,
        expect.stringContaining('maxBodyBytes'),
      ])
    }
  })

  it('and sends no more is let go when a body would have had to be there', async () => {
    const serving = await Serving.of(engine, { maxBodyBytes: 1000, bodyTimeoutMs: 200 })
    expect(
      await serving.raw('POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n{'),
    ).toMatch(/^HTTP\/1.1 413 /)
  })
})

describe('a client that has gone before its request was handed over', () => {
  it('is not waited for, and nothing is run for it', async () => {
    const handle = kserve(engine)
    const handled = deferred<Promise<boolean>>()
    const server = createServer(
      (request, response) =>
        void once(response, 'close').then(() => handled.resolve(handle(request, response))),
    )
    const { port } = await Serving.by(server)
    const before = engine.model('m').stats().inferenceCount
    const socket = connect(port, '127.0.0.1', () =>
      socket.write(
        `POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: ${good.length}\r\n\r\n${good}`,
      ),
    )
    await once(server, 'request')
    socket.destroy()
    expect(await handled.promise).toBe(true)
    expect(engine.model('m').stats().inferenceCount).toBe(before)
  })
})

describe('JSON of a large tensor', () => {
  it('goes in and comes out in pieces, nested or flat, unchanged', async () => {
    const serving = await Serving.of(engine)
    const rows = Array.from({ length: 10_000 }, (_, at) => [at, -1 - at / 4, 1 / (at + 1), 1e-30])
    const expected = Float32Array.from(rows.flat())
    for (const data of [rows, rows.flat()]) {
      const { status, json } = await serving.post('/v2/models/m/infer', {
        inputs: [{ name: 'x', datatype: 'FP32', shape: [10_000, 4], data }],
      })
      expect([status, json.outputs[0].shape]).toEqual([200, [10_000, 4]])
      const found = Float32Array.from(json.outputs[0].data)
      expect(Buffer.compare(Buffer.from(found.buffer), Buffer.from(expected.buffer))).toBe(0)
    }
  })

  it('has words for numbers without quotes, which are no texts', async () => {
    const serving = await Serving.of(engine)
    const send = (model: string, datatype: string, element: string, id = '"a"') =>
      serving.post(
        `/v2/models/${model}/infer`,
        `{"id":${id},"inputs":[{"name":"x","datatype":"${datatype}","shape":[1,4],"data":[${element},${element},${element},${element}]}]}`,
      )
    for (const word of ['NaN', 'Infinity', '-Infinity']) {
      for (const element of [word, `"${word}"`])
        expect((await send('m', 'FP32', element)).json.outputs[0].data).toEqual(Array(4).fill(word))
      expect((await send('text', 'BYTES', `"${word}"`)).json.outputs[0].data).toEqual(Array(4).fill(word))
      expect((await send('text', 'BYTES', word)).json.error).toContain(
        `data[0]: expected a string of whole characters, received ${word}`,
      )
      expect((await send('m', 'FP32', '1', word)).json.error).toContain(
        `id: expected a string of 256 characters at most, received ${word}`,
      )
    }
    expect((await send('m', 'FP32', '1', '"\\ud800"')).status).toBe(400)
  })

  it('of text is as it was, and a wrong element is named', async () => {
    const serving = await Serving.of(engine)
    const data = Array.from({ length: 12_000 }, (_, at) => (at === 5 ? 'é'.repeat(40_000) : `"${at}\n`))
    const send = (text: unknown[]) =>
      serving.post('/v2/models/text/infer', {
        inputs: [{ name: 'x', datatype: 'BYTES', shape: [3000, 4], data: text }],
      })
    expect((await send(data)).json.outputs[0].data).toEqual(data)
    expect(await send(data.with(11_999, 7 as never))).toMatchObject({
      status: 400,
      json: { error: expect.stringContaining('data[11999]: expected a string') as string },
    })
    expect(await send(data.with(7, 'a\ud800'))).toMatchObject({
      status: 400,
      json: { error: expect.stringContaining('data[7]: expected a string of whole characters') as string },
    })
  })
})

describe('text in BYTES', () => {
  const send = async (elements: Buffer, options = {}) => {
    const serving = await Serving.of(engine, options)
    const value = {
      inputs: [
        { name: 'x', datatype: 'BYTES', shape: [1, 4], parameters: { binary_data_size: elements.length } },
      ],
      parameters: { binary_data_output: true },
    }
    return serving.binary('text', value, [elements])
  }

  it('may have the character that stands for what is none, and nothing that is none', async () => {
    const elements = byteElements('a\ufffdb', '', 'ü', '\u{1f41f}')
    expect((await send(elements)).tensors).toEqual(elements)
    expect(
      (await send(byteElements('a', Uint8Array.of(0x61, 0xc3), Uint8Array.of(0xa4), 'd'))).json.error,
    ).toMatch(/element 1: expected text in UTF-8/)
  })

  it('is read in pieces where it is long, and may have so many elements', async () => {
    const elements = byteElements(
      'é\u{1f41f}'.repeat(100_000),
      `a${'\u{1f41f}'.repeat(100_000)}`,
      'b',
      `${'x'.repeat(2 ** 18 - 1)}é`,
    )
    expect((await send(elements)).tensors.equals(elements)).toBe(true)
    expect((await send(byteElements('a', 'b', 'c', 'd'), { maxJsonValues: 3 })).json.error).toMatch(
      /maxJsonValues/,
    )
  })

  it('is limited as JSON is, as it holds up the thread as long', async () => {
    const { status, json } = await send(byteElements('a'.repeat(600), '', '', ''), { maxJsonBytes: 500 })
    expect([status, json.error]).toEqual([
      400,
      expect.stringContaining('500 at most for text (maxJsonBytes)'),
    ])
  })
})

describe('JSON whose numbers stay as they are', () => {
  it('is what JSON.parse makes of it, but for whole numbers beyond 2^53', () => {
    const asNumbers = (text: string) =>
      JSON.parse(
        JSON.stringify(parseExact(text), (_, value: unknown) =>
          typeof value === 'bigint' ? Number(value) : value,
        ),
      ) as unknown
    fc.assert(
      fc.property(fc.json(), (json) => {
        expect(asNumbers(json)).toEqual(JSON.parse(JSON.stringify(JSON.parse(json))))
      }),
    )
    const value = fc.oneof(
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
      fc.double({ noDefaultInfinity: true, noNaN: true, min: -1e15, max: 1e15 }).map((each) => each + 0),
      fc.string(),
    )
    fc.assert(
      fc.property(fc.array(value), fc.constantFrom('', ' ', '\n'), (values, space) => {
        const text = `{"a":[${values.map((each) => (typeof each === 'bigint' ? String(each) : JSON.stringify(each))).join(`${space},${space}`)}]}`
        const read = (parseExact(text) as { a: unknown[] }).a
        expect(
          read.map((each, index) => (typeof values[index] === 'bigint' ? BigInt(each as number) : each)),
        ).toEqual(values)
      }),
    )
  })

  it('takes NaN and infinities without quotes, outside of strings', () => {
    const read = parseExact(
      '[NaN, -Infinity,Infinity,"NaN \\" NaN","\\\\",NaN,{"Infinity":-Infinity}]',
    ) as unknown[]
    expect(read.map((each) => nonFinite.get(each) ?? each)).toEqual([
      NaN,
      -Infinity,
      Infinity,
      'NaN " NaN',
      '\\',
      NaN,
      { Infinity: expect.not.stringMatching(/^-Infinity$/) as string },
    ])
    expect(['NaN', 'Infinity', '-Infinity'].map((word) => nonFinite.get(word))).toEqual([
      NaN,
      Infinity,
      -Infinity,
    ])
    for (const wrong of ['[NaNNaN]', '[-NaN]', '[NaN1]', '[+Infinity]', '["NaN]', '[Inf]', 'x NaN', '"NaN\\'])
      expect(() => parseExact(wrong)).toThrow(SyntaxError)
  })

  it('has no prototype of another, and no more depth than there is room for', () => {
    const read = parseExact('{"__proto__":{"a":9007199254740993},"b":1,"b":2}') as Record<string, unknown>
    expect([Object.keys(read), read['b'], ({} as Record<string, unknown>)['a']]).toEqual([
      ['__proto__', 'b'],
      2,
      undefined,
    ])
    expect(() => parseExact(`[9007199254740993,${'['.repeat(1_000_000)}`)).toThrow()
    expect(parseExact(`[${'9'.repeat(100_000)}]`)).toEqual([Infinity])
  })

  it('is written with all digits, and with words in quotes', () => {
    expect(numbersText(BigInt64Array.of(-(2n ** 63n), 9007199254740993n))).toBe(
      '-9223372036854775808,9007199254740993',
    )
    expect(numbersText(Float32Array.of(1, NaN, -Infinity, Infinity))).toBe('1,"NaN","-Infinity","Infinity"')
    expect(numbersText(Float64Array.of(0.1, 1e300))).toBe('0.1,1e+300')
    expect(numbersText(Float32Array.of(0, -0, 2))).toBe('0,-0.0,2')
  })
})
