import { readFileSync } from 'node:fs'
import { gunzipSync, gzipSync, deflateSync, inflateSync } from 'node:zlib'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { slices } from '../../src/base/slices.ts'
import { Tensor } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { simple, simpleIdentity, simpleSequence } from '../models/triton-examples.ts'
import { ownEngine } from '../support/open.ts'
import { byteElements, bytesOf, Serving } from './serving.ts'

const firstNumbers = Int32Array.from({ length: 16 }, (_, at) => at)
const tensor = (name: string, data: readonly unknown[] = [...firstNumbers]) => ({
  name,
  datatype: 'INT32',
  shape: [1, 16],
  data,
})
const sums = firstNumbers.map((value) => 2 * value)

async function serve(path = simple(), name = 'simple'): Promise<Serving> {
  const engine = ownEngine()
  await engine.load(name, { path })
  return Serving.of(engine)
}

describe('an inference in JSON', () => {
  it('is answered with all outputs, its id, the model and its version', async () => {
    const serving = await serve()
    const { status, json, headers } = await serving.post('/v2/models/simple/infer', {
      id: 'a-1',
      inputs: [tensor('INPUT0'), tensor('INPUT1')],
    })
    expect(status).toBe(200)
    expect(headers['content-type']).toBe('application/json')
    expect(json).toEqual({
      id: 'a-1', model_name: 'simple', model_version: '1',
      outputs: [
        { name: 'OUTPUT0', datatype: 'INT32', shape: [1, 16], data: [...sums] },
        { name: 'OUTPUT1', datatype: 'INT32', shape: [1, 16], data: Array(16).fill(0) },
      ],
    }) // prettier-ignore
  })

  it('may have nested data, and ask for some outputs', async () => {
    const serving = await serve()
    const { json } = await serving.post('/v2/models/simple/versions/1/infer', {
      inputs: [tensor('INPUT0', [[...firstNumbers]]), tensor('INPUT1')],
      outputs: [{ name: 'OUTPUT0' }],
      parameters: null,
    })
    expect(json.outputs).toEqual([{ name: 'OUTPUT0', datatype: 'INT32', shape: [1, 16], data: [...sums] }])
  })

  const elements: [datatype: string, type: Parameters<typeof small.identity>[0], data: unknown[]][] = [
    ['BOOL', 'bool', [true, false, false, true]],
    ['UINT8', 'uint8', [0, 255, 1, 2]],
    ['UINT16', 'uint16', [0, 65535, 1, 2]],
    ['UINT32', 'uint32', [0, 4294967295, 1, 2]],
    ['UINT64', 'uint64', [0, 9007199254740991, 1, 2]],
    ['INT8', 'int8', [-128, 127, 0, 1]],
    ['INT16', 'int16', [-32768, 32767, 0, 1]],
    ['INT32', 'int32', [-2147483648, 2147483647, 0, 1]],
    ['INT64', 'int64', [-9007199254740991, 9007199254740991, 0, 1]],
    ['FP32', 'float32', [0.5, -3.25, 2 ** 100, 0]],
    ['FP64', 'float64', [0.1, -3.25, 1e300, 0]],
    ['BYTES', 'string', ['a', '', 'ü', 'and 😀']],
  ]
  it.each(elements)('carries %s as it is', async (datatype, type, data) => {
    const serving = await serve(small.identity(type), 'm')
    const { status, json } = await serving.post('/v2/models/m/infer', {
      inputs: [{ name: 'x', datatype, shape: [1, 4], data }],
    })
    expect([status, json.outputs]).toEqual([200, [{ name: 'y', datatype, shape: [1, 4], data }]])
  })

  it.each(['FP16', 'BF16'])('says that %s takes binary data', async (datatype) => {
    const serving = await serve(small.identity('float16'), 'm')
    const { status, json } = await serving.post('/v2/models/m/infer', {
      inputs: [{ name: 'x', datatype, shape: [1, 4], data: [1, 2, 3, 4] }],
    })
    expect([status, json.error]).toEqual([400, expect.stringContaining(`${datatype} as binary data`)])
    const inputs = [{ name: 'x', datatype: 'FP16', shape: [1, 4], parameters: { binary_data_size: 8 } }]
    const asked = await serving.binary('m', { inputs }, [Buffer.alloc(8)])
    expect([asked.status, asked.json.error]).toEqual([400, expect.stringContaining('FP16')])
  })

  const exact: [datatype: string, type: Parameters<typeof small.identity>[0], data: string][] = [
    ['INT64', 'int64', '-9223372036854775808,9223372036854775807,9007199254740993,-9007199254740993'],
    ['UINT64', 'uint64', '18446744073709551615,9007199254740993,9007199254740992,0'],
    ['FP64', 'float64', '"NaN","Infinity","-Infinity",0.5'],
    ['FP32', 'float32', '"-Infinity",1,"NaN","Infinity"'],
  ]
  it.each(exact)('carries every %s as it is, to the last digit', async (datatype, type, data) => {
    const engine = ownEngine()
    const model = await engine.load('m', { path: small.identity(type) })
    const infer = vi.spyOn(model, 'infer')
    const serving = await Serving.of(engine)
    const ask = async (text: string) => {
      const { status, body } = await serving.call(
        'POST',
        '/v2/models/m/infer',
        `{"id":"NaN 9007199254740993 \\" Infinity","inputs":[{"name":"x","datatype":"${datatype}","shape":[1,4],"data":[${text}]}]}`,
      )
      expect([
        status,
        /"data":\[(.*?)\]/.exec(body.toString())?.[1],
        (JSON.parse(body.toString()) as { id: string }).id,
      ]).toEqual([200, data, 'NaN 9007199254740993 " Infinity'])
    }
    await ask(data)
    await ask(data.replaceAll('"', '')) // as Python's clients write them
    await ask(`[${data}]`)
    const [{ x }] = infer.mock.calls[0] as unknown as [{ x: Tensor }]
    expect(Array.from(x.data as Float64Array | BigInt64Array, String)).toEqual(
      data.replaceAll('"', '').split(','),
    )
  })

  it.each([
    ['INT64', 'int64', '9223372036854775808'],
    ['INT64', 'int64', '-9223372036854775809'],
    ['UINT64', 'uint64', '18446744073709551616'],
    ['UINT64', 'uint64', '-1'],
    ['INT64', 'int64', '1e17'],
    ['INT64', 'int64', 'NaN'],
    ['INT64', 'int64', '"1"'],
    ['INT32', 'int32', '9007199254740993'],
    ['BOOL', 'bool', '9007199254740993'],
    ['FP32', 'float32', `1${'0'.repeat(39)}`],
  ] as const)('refuses %s of %s where it would become another: %s', async (datatype, type, element) => {
    const serving = await serve(small.identity(type), 'm')
    const { status, json } = await serving.post(
      '/v2/models/m/infer',
      `{"inputs":[{"name":"x","datatype":"${datatype}","shape":[1,4],"data":[0,0,0,${element}]}]}`,
    )
    expect([status, json.error]).toEqual([
      400,
      expect.stringMatching(datatype === 'BOOL' ? /data\[0\]/ : /data\[3\]: expected a/),
    ])
  })

  it.each([
    ['its datatype has escapes', String.raw`"\u0049NT64"`, ''],
    ['the JSON is long', '"INT64"', ' '.repeat(40_000)],
  ])('of 64-bit integers are exact where %s', async (_, datatype, spaces) => {
    const serving = await serve(small.identity('int64'), 'm')
    const answer = await serving.call(
      'POST',
      '/v2/models/m/infer',
      `{"inputs":[{"name":"x",${spaces}"datatype":${datatype},"shape":[1,4],"data":[9007199254740993,1,2,3]}]}`,
    )
    expect(answer.body.toString()).toContain('"data":[9007199254740993,1,2,3]')
  })

  it('of floats may be whole numbers of any length, and a field that is given twice is the last of them', async () => {
    const serving = await serve(small.identity('float64'), 'm')
    const { status, json } = await serving.post(
      '/v2/models/m/infer',
      '{"id":"a","id":"b","inputs":[{"name":"x","datatype":"FP64","shape":[1,4],"data":[12345678901234567890,9007199254740993,-1,0]}]}',
    )
    expect([status, json.id, json.outputs?.[0].data]).toEqual([
      200,
      'b',
      [12345678901234567000, 9007199254740992, -1, 0],
    ])
  })
})

describe('binary tensors', () => {
  it('come and go beside JSON, in the order of the names', async () => {
    const serving = await serve()
    const { status, json, tensors, headers } = await serving.binary('simple', {
      inputs: [tensor('INPUT0'), { name: 'INPUT1', datatype: 'INT32', shape: [1, 16], parameters: { binary_data_size: 64 } }],
      outputs: [{ name: 'OUTPUT1', parameters: { binary_data: true } }, { name: 'OUTPUT0', parameters: { binary_data: false } }],
    }, [bytesOf(firstNumbers)]) // prettier-ignore
    expect([status, headers['content-type']]).toEqual([200, 'application/octet-stream'])
    expect(json.outputs).toEqual([
      { name: 'OUTPUT1', datatype: 'INT32', shape: [1, 16], parameters: { binary_data_size: 64 } },
      { name: 'OUTPUT0', datatype: 'INT32', shape: [1, 16], data: [...sums] },
    ])
    expect(tensors).toEqual(Buffer.alloc(64))
  })

  const binaryTypes = [
    'bool',
    'uint8',
    'uint16',
    'uint32',
    'uint64',
    'int8',
    'int16',
    'int32',
    'int64',
    'float16',
    'float32',
    'float64',
  ] as const
  it.each(binaryTypes)('of %s are right wherever they lie in the body', async (type) => {
    const serving = await serve(small.identity(type), 'm')
    const datatype = type.replace('float', 'fp').toUpperCase()
    const size = {
      bool: 1,
      uint8: 1,
      int8: 1,
      uint16: 2,
      int16: 2,
      float16: 2,
      uint32: 4,
      int32: 4,
      float32: 4,
      uint64: 8,
      int64: 8,
      float64: 8,
    }[type]
    const bytes = Buffer.alloc(4 * size).map((_, at) => (type === 'bool' ? at % 2 : (at * 7) % 60))
    for (let shift = 0; shift < 8; shift++) {
      const request = {
        id: 'x'.repeat(shift),
        inputs: [{ name: 'x', datatype, shape: [1, 4], parameters: { binary_data_size: bytes.length } }],
        parameters: { binary_data_output: true },
      }
      const { json, tensors } = await serving.binary('m', request, [bytes])
      expect(json.outputs).toEqual([
        { name: 'y', datatype, shape: [1, 4], parameters: { binary_data_size: bytes.length } },
      ])
      expect(tensors).toEqual(bytes)
    }
  })

  it('are looked at where they arrived, but for one whose place does not suit its elements', async () => {
    const engine = ownEngine()
    await engine.load('m', { path: small.twoInputsDifferentTypes() })
    const infer = vi.spyOn(engine.model('m'), 'infer')
    const serving = await Serving.of(engine)
    const floats = { name: 'a', datatype: 'FP32', shape: [1, 4], parameters: { binary_data_size: 16 } }
    const integers = { name: 'b', datatype: 'INT64', shape: [1, 1], parameters: { binary_data_size: 8 } }
    for (const inputs of [
      [floats, integers],
      [integers, floats],
    ]) {
      const tensors = inputs.map((input) =>
        input === floats ? bytesOf(Float32Array.of(1, 2, 3, 4)) : bytesOf(BigInt64Array.of(5n)),
      )
      expect(
        (await serving.binary('m', { id: 'of odd length', inputs }, tensors)).json.outputs[0].data,
      ).toEqual([6, 7, 8, 9])
    }
    const moved = { name: 'a', datatype: 'FP32', shape: [1, 3], parameters: { binary_data_size: 12 } }
    await serving.binary('m', { inputs: [moved, integers] }, [Buffer.alloc(12), Buffer.alloc(8)]) // refused for its shape, after it was read
    const buffers = infer.mock.calls.map(([feeds]) =>
      Object.values(feeds as Record<string, { data: Float32Array }>).map(({ data }) => data.buffer),
    )
    expect(buffers.map(([first, second]) => first === second)).toEqual([true, true, false])
  })

  it('behind the same header are answered with their own values, shape and version', async () => {
    const engine = ownEngine()
    const serving = await Serving.of(engine)
    const ask = async (value: number, rows = 1) => {
      const bytes = bytesOf(new Float32Array(4 * rows).fill(value))
      const parameters = { binary_data_size: bytes.length }
      const { json, tensors } = await serving.binary(
        'm',
        {
          inputs: [{ name: 'x', datatype: 'FP32', shape: [rows, 4], parameters }],
          parameters: { binary_data_output: true },
        },
        [bytes],
      )
      return [json.model_version, json.outputs[0].shape, tensors.equals(bytes)]
    }
    await engine.load('m', { path: small.identity('float32') })
    expect(await Promise.all([ask(1), ask(2), ask(3, 2), ask(4)])).toEqual([
      ['1', [1, 4], true],
      ['1', [1, 4], true],
      ['1', [2, 4], true],
      ['1', [1, 4], true],
    ])
    expect(await ask(5)).toEqual(['1', [1, 4], true])
    await engine.load('m', { path: small.identity('float32'), version: 2 })
    expect(await ask(6)).toEqual(['2', [1, 4], true])
  })

  it('have the datatype of the model that ran, if it was loaded again while the request was read', async () => {
    const engine = ownEngine()
    const serving = await Serving.of(engine)
    const ask = async () =>
      (
        await serving.binary(
          'm',
          {
            inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], parameters: { binary_data_size: 16 } }],
            parameters: { binary_data_output: true },
          },
          [bytesOf(Float32Array.of(1, 2, 3, 4))],
        )
      ).json.outputs[0].datatype
    const load = (type: 'float64' | 'int64') => engine.load('m', { path: small.castTo(type), version: 1 })
    await load('float64')
    expect([await ask(), await ask()]).toEqual(['FP64', 'FP64'])
    const { run } = slices
    const runs = vi.spyOn(slices, 'run')
    onTestFinished(() => runs.mockRestore())
    runs.mockImplementationOnce(async (...work) => {
      const read = await run.apply(slices, work)
      await load('int64')
      return read
    })
    expect([await ask(), await ask(), await ask()]).toEqual(['INT64', 'INT64', 'INT64'])
  })

  it('whose header one handler took are refused by another of smaller limits', async () => {
    const engine = ownEngine()
    await engine.load('m', { path: small.identity('float32') })
    const request = {
      inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], parameters: { binary_data_size: 16 } }],
      parameters: { sequence_id: 0, note: 'long' },
    }
    const statuses = []
    for (const options of [{}, { maxJsonBytes: 64 }, {}]) {
      const serving = await Serving.of(engine, options)
      for (let time = 0; time < 2; time++)
        statuses.push((await serving.binary('m', request, [Buffer.alloc(16)])).status)
    }
    expect(statuses).toEqual([200, 200, 400, 400, 200, 200])
  })

  it('of strings are elements after their lengths', async () => {
    const serving = await serve(simpleIdentity(), 'm')
    const bytes = byteElements('', 'ü', '😀', ...Array.from({ length: 13 }, (_, at) => `element ${at}`))
    const inputs = [
      { name: 'INPUT0', datatype: 'BYTES', shape: [1, 16], parameters: { binary_data_size: bytes.length } },
    ]
    const { json, tensors } = await serving.binary(
      'm',
      { inputs, outputs: [{ name: 'OUTPUT0', parameters: { binary_data: true } }] },
      [bytes],
    )
    expect(json.outputs).toEqual([
      { name: 'OUTPUT0', datatype: 'BYTES', shape: [1, 16], parameters: { binary_data_size: bytes.length } },
    ])
    expect(tensors).toEqual(bytes)
  })

  it('may be all that a body has, for a model with one input', async () => {
    const serving = await serve(small.identityVariable('float32'), 'm')
    const bytes = bytesOf(Float32Array.of(1, 2, 3))
    const raw = (body: Uint8Array) =>
      serving.call('POST', '/v2/models/m/infer', body, { 'inference-header-content-length': '0' })
    const { status, headers, body } = await raw(bytes)
    const length = Number(headers['inference-header-content-length'])
    expect(status).toBe(200)
    expect(JSON.parse(body.subarray(0, length).toString()).outputs).toEqual([
      { name: 'y', datatype: 'FP32', shape: [1, 3], parameters: { binary_data_size: 12 } },
    ])
    expect(body.subarray(length)).toEqual(bytes)
    expect((await raw(bytes.subarray(1))).status).toBe(400)
  })

  it('of an encoded image are decoded where the model says how', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', {
      path: small.identity('float32', [1, 8, 8]),
      maxBatchSize: 4,
      inputs: [{ name: 'x', image: {} }],
    })
    const serving = await Serving.of(engine)
    const image = readFileSync('examples/digits/images/3-0003.png')
    const bytes = byteElements(image)
    const request = (shape: number[], size = bytes.length) => ({
      inputs: [{ name: 'x', datatype: 'BYTES', shape, parameters: { binary_data_size: size } }],
      parameters: { binary_data_output: true },
    })
    const { json, tensors } = await serving.binary('m', request([1, 1]), [bytes])
    expect(json.outputs).toEqual([
      { name: 'y', datatype: 'FP32', shape: [1, 1, 8, 8], parameters: { binary_data_size: 256 } },
    ])
    expect(tensors).toEqual(bytesOf((await model.infer({ x: image })).y!.data as Float32Array))
    expect((await serving.binary('m', request([2]), [bytes])).status).toBe(400)
    expect((await serving.binary('m', request([1], 0), [])).status).toBe(400)
    expect((await serving.binary('m', request([1], 7), [byteElements('abc')])).status).toBe(400) // no image
  })
})

describe('a request', () => {
  it('may ask for the classes with the highest scores, with their labels', async () => {
    const engine = ownEngine()
    await engine.load('m', {
      path: small.identity('float32'),
      outputs: [{ name: 'y', labels: ['a', 'b', 'c', 'd'] }],
    })
    const serving = await Serving.of(engine)
    const request = (count: number, binary: boolean) => ({
      inputs: [{ name: 'x', datatype: 'FP32', shape: [2, 4], data: [0.5, 4, 2, 3, 8, 0, 0, 9] }],
      outputs: [{ name: 'y', parameters: { classification: count, binary_data: binary } }],
    })
    const { json } = await serving.post('/v2/models/m/infer', request(2, false))
    expect(json.outputs).toEqual([
      { name: 'y', datatype: 'BYTES', shape: [2, 2], data: ['4:1:b', '3:3:d', '9:3:d', '8:0:a'] },
    ])
    expect((await serving.binary('m', request(1, true), [])).tensors).toEqual(byteElements('4:1:b', '9:3:d'))
    expect((await serving.post('/v2/models/m/infer', request(-1, false))).status).toBe(400)
  })

  it('may ask for all of many classes, which are sorted and written in pieces', async () => {
    const engine = ownEngine()
    await engine.load('m', { path: small.identity('float32', ['N']) })
    const pieces = vi.spyOn(slices, 'run').mockImplementation(async (task) => {
      let result = task.next()
      for (; !result.done; result = task.next()) counted++
      return result.value as never
    })
    onTestFinished(() => pieces.mockRestore())
    let counted = 0
    const count = 2 ** 15
    const scores = Float32Array.from({ length: count }, (_, at) => at)
    const texts = Array.from({ length: count }, (_, at) => `${count - 1 - at}:${count - 1 - at}`)
    const request = (binary: boolean) => ({
      inputs: [
        { name: 'x', datatype: 'FP32', shape: [1, count], parameters: { binary_data_size: 4 * count } },
      ],
      outputs: [{ name: 'y', parameters: { classification: count, binary_data: binary } }],
    })
    const serving = await Serving.of(engine)
    for (const binary of [false, true]) {
      counted = 0
      const { json, tensors } = await serving.binary('m', request(binary), [bytesOf(scores)])
      if (binary) expect(tensors.equals(byteElements(...texts))).toBe(true)
      else expect(json.outputs[0].data).toEqual(texts)
      expect(counted).toBeGreaterThan(count / 2 ** 13 + (2 * count) / 2 ** 12)
    }
    const limited = await Serving.of(engine, { maxJsonValues: count - 1 })
    const { status, json } = await limited.binary('m', request(true), [bytesOf(scores)])
    expect([status, json.error]).toEqual([
      400,
      expect.stringContaining('32767 classes at most for all rows together (maxJsonValues)'),
    ])
  })

  it("has Triton's parameters, as options of the call", async () => {
    const engine = ownEngine()
    await engine.load('m', { path: small.identity('float32') })
    const infer = vi
      .spyOn(engine.model('m'), 'infer')
      .mockResolvedValue({ y: new Tensor('float32', new Float32Array(4), [1, 4]) } as never)
    const serving = await Serving.of(engine)
    const parameters = {
      priority: 2,
      timeout: 1500,
      sequence_id: 'lane',
      sequence_start: true,
      sequence_end: false,
      mine: 'a',
      number: 1.5,
    }
    expect(
      (
        await serving.post('/v2/models/m/infer', {
          id: 'one',
          inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }],
          parameters,
        })
      ).status,
    ).toBe(200)
    const options = {
      requestId: 'one',
      priority: 2,
      timeoutMs: 1.5,
      sequenceId: 'lane',
      sequenceStart: true,
      signal: expect.any(AbortSignal) as AbortSignal,
    }
    expect(infer.mock.calls.map(([, given]) => given)).toEqual([options])
  })

  it('goes on from others of its sequence', async () => {
    const engine = ownEngine()
    await engine.load('m', {
      path: simpleSequence(),
      maxBatchSize: 4,
      sequence: { controls: [{ input: 'START', kind: 'start' }] },
    })
    const serving = await Serving.of(engine)
    const step = async (value: number, parameters: object) =>
      serving.post('/v2/models/m/infer', {
        inputs: [{ name: 'INPUT', datatype: 'INT32', shape: [1, 1], data: [value] }],
        parameters,
      })
    expect(
      (await step(10, { sequence_id: 7, sequence_start: true, sequence_end: false })).json.outputs[0].data,
    ).toEqual([11])
    expect(
      (await step(10, { sequence_id: 7, sequence_start: false, sequence_end: true })).json.outputs[0].data,
    ).toEqual([10])
    expect(await step(10, { sequence_id: 7 })).toMatchObject({
      status: 400,
      json: { error: expect.stringContaining('7') as string },
    })
    expect((await step(10, { sequence_id: 2 ** 60 })).status).toBe(400)
  })

  it.each([
    ['gzip', gzipSync, gunzipSync],
    ['deflate', deflateSync, inflateSync],
  ] as const)('may be compressed with %s, and its answer as well', async (encoding, compress, decompress) => {
    const serving = await serve(small.identityVariable('float32'), 'm')
    const numbers = bytesOf(new Float32Array(4096).fill(0.5))
    const json = Buffer.from(
      JSON.stringify({
        inputs: [
          { name: 'x', datatype: 'FP32', shape: [1, 4096], parameters: { binary_data_size: numbers.length } },
        ],
        parameters: { binary_data_output: true },
      }),
    )
    const headers = {
      'inference-header-content-length': String(json.length),
      'content-encoding': encoding,
      'accept-encoding': `br, ${encoding};q=0.5`,
    }
    const compressed = compress(Buffer.concat([json, numbers]))
    const answer = await serving.call('POST', '/v2/models/m/infer', compressed, {
      ...headers,
      'content-length': String(compressed.length),
    })
    expect([answer.status, answer.headers['content-encoding']]).toEqual([200, encoding])
    expect(answer.body.length).toBeLessThan(1000)
    expect(
      decompress(answer.body).subarray(Number(answer.headers['inference-header-content-length'])),
    ).toEqual(numbers)
  })
})
