import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, it } from 'vitest'
import type { InferenceEngine } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { sharedEngine } from '../support/open.ts'
import { byteElements, Serving } from './serving.ts'

const engine: InferenceEngine = sharedEngine()
beforeAll(async () => {
  await engine.load('m', { path: small.identity('float32') })
  await engine.load('text', { path: small.identity('string') })
})

const good = { name: 'x', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }
const limits = {
  maxBodyBytes: 4096,
  maxJsonBytes: 2048,
  maxJsonValues: 300,
  maxTensors: 3,
  maxNameLength: 20,
}

/** What is wrong is told, and the next request is answered. */
async function refused(
  serving: Serving,
  answer: Promise<{ status: number; json: any }>,
  status = 400,
): Promise<string> {
  const { status: received, json } = await answer
  expect([received, Object.keys(json)]).toEqual([status, ['error']])
  expect((await serving.post('/v2/models/m/infer', { inputs: [good] })).status).toBe(200)
  return json.error as string
}

const deep = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels))

describe('JSON that lies or is of another kind', () => {
  const requests: [what: string, request: unknown, told: RegExp][] = [
    ['nothing', '', /JSON/],
    ['no JSON', '{"inputs":', /JSON object/],
    ['an array', [], /JSON object/],
    ['null', 'null', /JSON object/],
    ['no UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), /UTF-8/],
    [
      'words of no number',
      '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[NaN1,1,2,3]}]}',
      /JSON/,
    ],
    [
      'a number beyond all, which is no word for it',
      '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1e999,1,2,3]}]}',
      /data\[0\]: expected a number of FP32, 'NaN', 'Infinity'/,
    ],
    ['other words for infinity', { inputs: [{ ...good, data: ['inf', 1, 2, 3] }] }, /data\[0\]/],
    [
      'a dimension that is no number',
      '{"inputs":[{"name":"x","datatype":"FP32","shape":[NaN,4],"data":[]}]}',
      /whole numbers/,
    ],
    [
      'a dimension beyond 2^53',
      '{"inputs":[{"name":"x","datatype":"FP32","shape":[9007199254740993,4],"data":[]}]}',
      /whole numbers/,
    ],
    [
      'a prototype beside a large integer',
      '{"__proto__":{"inputs":[]},"id":"a","timeout":9007199254740993}',
      /^inputs/,
    ],
    [
      'a number of many digits',
      `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,${'9'.repeat(200)}]}]}`,
      /data\[3\]/,
    ],
    ['no inputs', {}, /^inputs: expected an array/],
    ['inputs that are none', { inputs: { x: good } }, /^inputs: /],
    ['an input that is none', { inputs: [7] }, /^inputs\[0\]: /],
    ['too many inputs', { inputs: [good, good, good, good] }, /3 at most, received 'one of 4'/],
    ['an input twice', { inputs: [good, good] }, /each name once/],
    ['a missing input', { inputs: [] }, /input 'x'/],
    ['an input of another name', { inputs: [{ ...good, name: 'z' }] }, /input/],
    ['a long name', { inputs: [{ ...good, name: 'z'.repeat(21) }] }, /20 characters/],
    ['a name that is none', { inputs: [{ ...good, name: 7 }] }, /name: expected a string/],
    ['no name', { inputs: [{ ...good, name: undefined }] }, /name: expected the name/],
    [
      'a prototype for a name',
      '{"inputs":[{"name":"__proto__","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}',
      /__proto__/,
    ],
    [
      'a prototype for an input',
      '{"inputs":[{"__proto__":{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}}]}',
      /name/,
    ],
    ['a prototype for a request', '{"__proto__":{"inputs":[]}}', /^inputs/],
    [
      'what every object inherits, for an input',
      { inputs: [{ ...good, name: 'constructor' }] },
      /constructor/,
    ],
    ['an unknown datatype', { inputs: [{ ...good, datatype: 'FP33' }] }, /one of .*FP32/],
    [
      'what every object inherits, for a datatype',
      { inputs: [{ ...good, datatype: 'toString' }] },
      /one of .*FP32/,
    ],
    ['another datatype', { inputs: [{ ...good, datatype: 'INT32' }] }, /input 'x'/],
    ['no shape', { inputs: [{ ...good, shape: undefined }] }, /shape/],
    ['a negative dimension', { inputs: [{ ...good, shape: [-1, 4] }] }, /whole numbers, 0 or more/],
    ['a broken dimension', { inputs: [{ ...good, shape: [0.5, 8] }] }, /whole numbers/],
    ['a dimension in words', { inputs: [{ ...good, shape: ['1', 4] }] }, /whole numbers/],
    ['a huge shape', { inputs: [{ ...good, shape: [2 ** 52, 2 ** 52, 2 ** 52] }] }, /elements/],
    [
      'a shape without data',
      { inputs: [{ ...good, shape: [1e9, 4], data: [] }] },
      /4000000000 elements .* received 0/,
    ],
    ['too many dimensions', { inputs: [{ ...good, shape: Array(33).fill(1) }] }, /32 at most/],
    ['too few elements', { inputs: [{ ...good, data: [1, 2, 3] }] }, /4 elements .* received 3/],
    ['too many elements', { inputs: [{ ...good, data: [1, 2, 3, 4, 5] }] }, /4 elements .* received 5/],
    ['deep data', { inputs: [{ ...good, data: deep(40) }] }, /deeper/],
    [
      'an element in words',
      { inputs: [{ ...good, data: [1, 2, '3', 4] }] },
      /data\[2\]: expected a number of FP32/,
    ],
    ['an element too large for its type', { inputs: [{ ...good, data: [1, 2, 1e39, 4] }] }, /data\[2\]/],
    ['an element that is none', { inputs: [{ ...good, data: [1, 2, null, 4] }] }, /data\[2\]/],
    ['data that is none', { inputs: [{ ...good, data: 'abcd' }] }, /data: expected an array/],
    ['no data', { inputs: [{ ...good, data: undefined }] }, /neither/],
    ['data twice', { inputs: [{ ...good, parameters: { binary_data_size: 16 } }] }, /both/],
    [
      'a size of missing bytes',
      { inputs: [{ ...good, data: undefined, parameters: { binary_data_size: 16 } }] },
      /0 at most/,
    ],
    [
      'a negative size',
      { inputs: [{ ...good, data: undefined, parameters: { binary_data_size: -16 } }] },
      /whole number/,
    ],
    ['parameters that are none', { inputs: [good], parameters: 7 }, /parameters: expected a JSON object/],
    [
      'a parameter of Triton itself',
      { inputs: [good], parameters: { triton_final_response: true } },
      /triton_/,
    ],
    ['a parameter that is an object', { inputs: [good], parameters: { mine: {} } }, /parameters.mine/],
    ['a timeout in words', { inputs: [good], parameters: { timeout: 'soon' } }, /parameters.timeout/],
    ['a negative priority', { inputs: [good], parameters: { priority: -1 } }, /parameters.priority/],
    ['a sequence that no number is', { inputs: [good], parameters: { sequence_id: -5 } }, /sequence_id/],
    ['the start of no sequence', { inputs: [good], parameters: { sequence_start: true } }, /sequence/],
    ['an id that is none', { inputs: [good], id: 7 }, /^id: /],
    ['outputs that are none', { inputs: [good], outputs: 'y' }, /^outputs: /],
    ['an unknown output', { inputs: [good], outputs: [{ name: 'z' }] }, /a tensor out of 'y'/],
    ['an output twice', { inputs: [good], outputs: [{ name: 'y' }, { name: 'y' }] }, /each name once/],
    [
      'JSON without end within each other',
      `{"inputs":${'['.repeat(900)}${']'.repeat(900)}}`,
      /arrays and objects within 64 others at most/,
    ],
    [
      'more values than may be',
      { inputs: [good], padding: Array(300).fill(0) },
      /300 values at most \(maxJsonValues\)/,
    ],
    ['too long JSON', { inputs: [good], id: 'a', padding: 'x'.repeat(3000) }, /2048 bytes at most/],
  ]
  it.each(requests)('is refused: %s', async (_, request, told) => {
    const serving = await Serving.of(engine, limits)
    const body = typeof request === 'string' || Buffer.isBuffer(request) ? request : JSON.stringify(request)
    const answer = serving
      .call('POST', '/v2/models/m/infer', body)
      .then((answer) => ({ status: answer.status, json: JSON.parse(answer.body.toString()) }))
    expect(await refused(serving, answer)).toMatch(told)
    expect(({} as Record<string, unknown>).inputs).toBeUndefined()
  })

  it('is refused by name where a tensor lies in shared memory', async () => {
    const serving = await Serving.of(engine)
    const region = { shared_memory_region: 'mine', shared_memory_byte_size: 16 }
    expect(
      await refused(
        serving,
        serving.post('/v2/models/m/infer', { inputs: [{ ...good, data: undefined, parameters: region }] }),
        501,
      ),
    ).toMatch(/^inputs\[0\].parameters.shared_memory_region/)
    expect(
      await refused(
        serving,
        serving.post('/v2/models/m/infer', { inputs: [good], outputs: [{ name: 'y', parameters: region }] }),
        501,
      ),
    ).toMatch(/^outputs\[0\]/)
  })
})

describe('binary bodies that lie', () => {
  const input = (size: number, more = {}) => ({
    inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], parameters: { binary_data_size: size }, ...more }],
  })
  const cases: [what: string, value: unknown, bytes: Uint8Array, told: RegExp][] = [
    ['fewer bytes than said', input(16), Buffer.alloc(12), /12 at most/],
    ['more bytes than said', input(16), Buffer.alloc(20), /16 bytes after its JSON/],
    ['other bytes than the shape has', input(12), Buffer.alloc(12), /binary_data_size: expected 16/],
    ['a size beyond any', input(Number.MAX_SAFE_INTEGER), Buffer.alloc(16), /16 at most/],
    [
      'a shape whose size is beyond any',
      input(16, { shape: [2 ** 40, 2 ** 40] }),
      Buffer.alloc(16),
      /binary_data_size/,
    ],
    [
      'a shape of nothing, times beyond any',
      input(0, { shape: [0, ...Array<number>(31).fill(2 ** 52)] }),
      Buffer.alloc(0),
      /./,
    ],
  ]
  it.each(cases)('are refused: %s', async (_, value, bytes, told) => {
    const serving = await Serving.of(engine, limits)
    expect(await refused(serving, serving.binary('m', value, [bytes]))).toMatch(told)
  })

  it.each(['-1', 'x', '1e3', '99999', '9'.repeat(30), '0x10'])(
    'are refused: a length %s of the JSON',
    async (length) => {
      const serving = await Serving.of(engine, limits)
      expect(
        await refused(
          serving,
          serving.binary('m', input(16), [Buffer.alloc(16)], { 'inference-header-content-length': length }),
        ),
      ).toMatch(/Inference-Header-Content-Length/)
    },
  )

  const texts: [what: string, bytes: Buffer][] = [
    ['lengths that are cut off', Buffer.from([1, 0, 0])],
    ['a length beyond the bytes', Buffer.from([255, 255, 255, 255, 97])],
    ['too few elements', byteElements('a', 'b', 'c')],
    ['too many elements', byteElements('a', 'b', 'c', 'd', 'e')],
    ['thousands of elements', Buffer.alloc(3600)],
    ['no UTF-8', byteElements('a', Uint8Array.of(0xff, 0xfe), 'c', 'd')],
  ]
  it.each(texts)('are refused: %s of BYTES', async (_, bytes) => {
    const serving = await Serving.of(engine, limits)
    const value = {
      inputs: [
        { name: 'x', datatype: 'BYTES', shape: [1, 4], parameters: { binary_data_size: bytes.length } },
      ],
    }
    await refused(serving, serving.binary('text', value, [bytes]))
  })

  it('are refused: other bytes than 0 and 1 for BOOL', async () => {
    await engine.load('flags', { path: small.identity('bool') })
    const serving = await Serving.of(engine)
    const value = {
      inputs: [{ name: 'x', datatype: 'BOOL', shape: [1, 4], parameters: { binary_data_size: 4 } }],
    }
    expect(await refused(serving, serving.binary('flags', value, [Buffer.from([0, 1, 2, 0])]))).toMatch(
      /0 and 1/,
    )
  })

  it('are refused: what is no gzip, more than may be when it is decompressed, and another encoding', async () => {
    const serving = await Serving.of(engine, limits)
    const send = (body: Uint8Array, encoding: string) =>
      serving.call('POST', '/v2/models/m/infer', body, {
        'content-encoding': encoding,
        'content-length': String(body.length),
      })
    expect((await send(Buffer.from('{}'), 'gzip')).status).toBe(400)
    expect((await send(gzipSync(Buffer.alloc(1_000_000)), 'gzip')).status).toBe(413)
    expect((await send(Buffer.from('{}'), 'br')).status).toBe(415)
    expect((await send(Buffer.from('{}'), '__proto__')).status).toBe(415)
  })
})

describe('a body that is too long', () => {
  it('is refused by what it says', async () => {
    const serving = await Serving.of(engine, { ...limits, bodyTimeoutMs: 100 })
    const answer = await serving.raw(
      'POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n{',
    )
    expect(answer).toMatch(/^HTTP\/1.1 413 [^]*connection: close[^]*maxBodyBytes/i)
  })

  it('is refused by what comes, where it does not say', async () => {
    const serving = await Serving.of(engine, limits)
    const answer = await serving.raw(
      `POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n${' '.repeat(5000)}\r\n0\r\n\r\n`,
    )
    expect(answer).toMatch(/^HTTP\/1.1 413 /)
  })

  it('of headers is refused by the server itself', async () => {
    const serving = await Serving.of(engine, limits)
    expect(await serving.raw(`GET /v2 HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(100_000)}\r\n\r\n`)).toMatch(
      /^(HTTP\/1.1 431|reset)/,
    )
  })
})

describe('a path', () => {
  it.each([
    '__proto__',
    'models/__proto__',
    'models/constructor/infer',
    'models/m/versions/__proto__',
    'models/%00',
    'a very long name',
  ])('of %s is of no model', async (rest) => {
    const path = `/v2/${rest.includes(' ') ? `models/${'m'.repeat(5000)}` : rest}`
    const serving = await Serving.of(engine)
    const { status, json } = await serving.get(path)
    expect([400, 404, 405]).toContain(status)
    expect(json.error.length).toBeLessThan(700)
  })
})
