// Alone: it measures the memory of its process.
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Tensor } from '../../src/index.ts'
import { doAll, type Pieces } from '../../src/base/slices.ts'
import {
  callFrameOf,
  callPieces,
  frameKinds,
  frameOf,
  FrameReader,
  textFrame,
} from '../../src/adapters/processes/messages.ts'
import {
  answeredNumber,
  readAnswer,
  requestPieces,
  writeAnswer,
  writeRejection,
  writeRequest,
} from '../../src/adapters/processes/inference-records.ts'
import {
  aligned,
  BadRecord,
  RecordReader,
  RecordViews,
  RecordWriter,
} from '../../src/adapters/processes/records.ts'
import { fromText, toText, writtenPieces } from '../../src/adapters/processes/tagged-json.ts'
import { collectGarbage } from '../support/garbage.ts'
import { repetitions } from '../support/full.ts'

const record = new RecordWriter()
const readRequest = (from: RecordReader) => doAll(requestPieces(from))

/** The bytes of what was just written, with as many of 0xff before and behind it. */
function written(margin = 0): { views: RecordViews; at: number; byteLength: number } {
  const { byteLength } = record
  const views = new RecordViews(new Uint8Array(byteLength + 2 * margin).fill(255).buffer)
  record.copyTo(views, margin)
  return { views, at: margin, byteLength }
}

const reader = ({ views, at, byteLength }: ReturnType<typeof written>) =>
  new RecordReader(views, at, byteLength)

const feeds = {
  floats: new Tensor('float32', new Float32Array([1, -0, NaN, Infinity]), [2, 2]),
  bare: new Uint8Array([1, 2, 3]),
  longs: new Tensor('int64', new BigInt64Array([-1n, 2n ** 62n]), [2]),
  words: new Tensor('string', ['', 'ä\u0000日', 'x'.repeat(5000)], [3]),
  texts: ['a', 'b'],
  text: 'by itself',
  none: null,
  raw: { type: 'int4', dims: [3], data: new Uint8Array([0x21, 0x03]) },
  sequence: [new Tensor('bool', [true, false], [2]), new Float64Array([0.1])],
  names: { a: 1, b: 'text' },
  numbers: new Map<bigint, number>([
    [1n, 0.5],
    [-(2n ** 63n), 2],
  ]),
  __proto__: null,
}

/** An array that says of itself something else each time. */
const changing = <T>(items: T[], length: () => number) =>
  new Proxy(items, { get: (of, key) => (key === 'length' ? length() : Reflect.get(of, key)) })

describe('the record of a request', () => {
  it('is one that can be read, or none, whatever the feeds say of themselves', () => {
    let asked = 0
    const growing = () => 1 + asked++
    class Wrong extends Map<number, number> {
      override get size() {
        return 7
      }
    }
    const yields = Object.assign(['a', 'b'], { [Symbol.iterator]: function* () { yield 'c' } }) // prettier-ignore
    const strange: unknown[] = [
      { type: 'float32', data: new Float32Array(2), dims: changing([1, 2, 3, 4, 5], growing) },
      { type: 'string', data: yields, dims: [2] },
      { type: 'string', data: changing(['a', 'b', 'c', 'd', 'e', 'f', 'g'], growing), dims: [2] },
      changing([new Float32Array(1), new Float32Array(1)], () => NaN),
      changing([null, null, null, null, null, null], growing),
      new Wrong([[1, 2]]),
      new Map([[1, 10n ** 50n]]),
      Object.assign([], { length: 2 ** 24 + 1 }),
    ]
    for (const [index, x] of strange.entries()) {
      try {
        writeRequest(record, 1, 'm', { x }, undefined, false)
      } catch (error) {
        expect(error, `feeds ${index}`).toMatchObject({ code: 'ERR_INVALID_ARG' })
        continue
      }
      expect(readRequest(reader(written())).number, `feeds ${index}`).toBe(1)
    }
    const many = Object.fromEntries(Array.from({ length: 65_537 }, (_, index) => [`x${index}`, null]))
    expect(() => writeRequest(record, 1, 'm', many, undefined, false)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', received: 65_537 }),
    )
  })

  it('carries everything that feeds may be, from wherever in memory it lies', () => {
    writeRequest(record, 7, 'modèle', feeds, { priority: 2, sequence: { id: 3n } }, true)
    const request = readRequest(reader(written(64)))
    expect(request).toMatchObject({
      number: 7,
      model: 'modèle',
      hasSignal: true,
      options: { priority: 2, sequence: { id: 3n } },
    })
    const { floats, bare, longs, words, sequence, numbers } = request.feeds as typeof feeds
    expect(floats).toEqual({ type: 'float32', dims: [2, 2], data: new Float32Array([1, -0, NaN, Infinity]) })
    expect(bare).toEqual(new Uint8Array([1, 2, 3]))
    expect(longs).toEqual({ type: 'int64', dims: [2], data: new BigInt64Array([-1n, 2n ** 62n]) })
    expect(words).toEqual({ type: 'string', dims: [3], data: feeds.words.data })
    expect(request.feeds).toMatchObject({
      texts: ['a', 'b'],
      text: ['by itself'],
      none: null,
      raw: feeds.raw,
      names: { a: 1, b: 'text' },
    })
    expect(sequence).toEqual([
      { type: 'bool', dims: [2], data: new Uint8Array([1, 0]) },
      new Float64Array([0.1]),
    ])
    expect(numbers).toEqual(feeds.numbers)
  })

  it('leaves inputs of the value undefined out, and keeps one that is named __proto__', () => {
    const named = JSON.parse('{"__proto__": null, "x": null}') as Record<string, unknown>
    writeRequest(
      record,
      1,
      'm',
      { ...named, y: undefined, ['__proto__']: new Float32Array(1) },
      undefined,
      false,
    )
    const read = readRequest(reader(written())).feeds
    expect(Object.keys(read).sort()).toEqual(['__proto__', 'x'])
  })

  it.each([
    ['a number', { x: 1 }],
    ['a function', { x: () => 1 }],
    ['a tensor on a GPU', { x: { type: 'float32', dims: [1], data: 0, location: 'gpu-buffer' } }],
    ['an unknown type', { x: { type: 'complex64', dims: [1], data: new Float32Array(1) } }],
    ['dims of strings', { x: { type: 'float32', dims: ['1'], data: new Float32Array(1) } }],
    ['numbers as strings', { x: { type: 'string', dims: [1], data: [1] } }],
    ['no object', [1]],
    [
      'a getter that throws',
      {
        get x() {
          throw new Error('no')
        },
      },
    ],
  ])('is not made of %s', (_, given) => {
    expect(() => writeRequest(record, 1, 'm', given, undefined, false)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', model: 'm' }),
    )
  })

  it('that is changed anywhere is refused as a bad record, or read as another, and never shows what lies beside it', () => {
    writeRequest(
      record,
      7,
      'model',
      { x: feeds.floats, w: feeds.texts, m: feeds.numbers, s: feeds.sequence },
      { priority: 1 },
      false,
    )
    const good = written(128)
    const changes = fc.array(
      fc.tuple(
        fc.nat(good.byteLength / 8 - 1),
        fc.oneof(fc.double(), fc.integer(), fc.constantFrom(-1, 2 ** 32, 2 ** 53, good.byteLength)),
      ),
      { minLength: 1, maxLength: 4 },
    )
    fc.assert(
      fc.property(changes, (all) => {
        const bytes = new RecordViews(good.views.bytes.buffer.slice(0) as ArrayBuffer)
        for (const [cell, value] of all) bytes.cells[good.at / 8 + cell] = value
        try {
          const { feeds: read } = readRequest(new RecordReader(bytes, good.at, good.byteLength))
          // 0xff lies beside it, and in no byte of it but those that were changed: two NaN of four bytes.
          for (const value of Object.values(read))
            if (value instanceof Uint8Array) expect(value.length).toBeLessThan(good.byteLength)
        } catch (error) {
          expect(error).toBeInstanceOf(BadRecord)
        }
      }),
      { numRuns: repetitions(3000, 100) },
    )
  })
})

describe('a record', () => {
  it('shows nothing of what lay before in the memory in which it is made up, and to which it goes', () => {
    writeRequest(record, 1, 'x'.repeat(3000), { y: new Uint8Array(300).fill(0x78) }, undefined, false)
    written()
    writeRequest(record, 1, 'abc', { y: new Uint8Array([1, 2, 3]) }, undefined, false)
    const { views, byteLength } = written()
    const bytes = views.bytes.subarray(0, byteLength)
    expect(bytes.includes('abc\0\0\0\0\0')).toBe(true)
    expect([...bytes.subarray(-8)]).toEqual([1, 2, 3, 0, 0, 0, 0, 0])
    expect(bytes.includes(0x78)).toBe(false)
    expect(bytes.includes(0xff)).toBe(false)
  })

  it('keeps no memory of a long one for short ones', () => {
    const held = () => (collectGarbage(), process.memoryUsage().arrayBuffers)
    const own = new RecordWriter()
    const before = held()
    writeRequest(own, 1, 'm', { x: ['x'.repeat(1e7)] }, undefined, false)
    expect(held() - before).toBeGreaterThan(1e7)
    for (let number = 2; number < 4; number++) writeRequest(own, number, 'm', { x: ['x'] }, undefined, false)
    expect(held() - before).toBeLessThan(1e6)
  })

  it('has a length that is right beyond 2^31 bytes', () => {
    expect([0, 1, 8, 2 ** 31 - 1, 2 ** 31, 2 ** 32 + 3].map(aligned)).toEqual([
      0,
      8,
      8,
      2 ** 31,
      2 ** 31,
      2 ** 32 + 8,
    ])
  })
})

describe('the record of an answer', () => {
  it('carries outputs as the tensors that they are', () => {
    writeAnswer(record, 9, { y: feeds.floats, l: [new Map([[1n, 2]])], o: null, raw: feeds.raw }, false)
    const read = reader(written(8))
    expect(answeredNumber(read)).toBe(9)
    const { y, l, o, raw } = readAnswer(read) as Record<string, unknown>
    expect(y).toBeInstanceOf(Tensor)
    expect(y).toMatchObject({ type: 'float32', dims: [2, 2], data: feeds.floats.data })
    expect([l, o, raw]).toEqual([[new Map([[1n, 2]])], null, feeds.raw])
  })

  it('carries an error with all that it says', () => {
    const cause = Object.assign(new Error('inner'), { code: 'EOTHER' })
    writeRejection(record, 9, Object.assign(new Error('outer', { cause }), { name: 'AbortError' }))
    const read = reader(written())
    answeredNumber(read)
    expect(readAnswer(read)).toMatchObject({
      name: 'AbortError',
      message: 'outer',
      cause: { message: 'inner', code: 'EOTHER' },
    })
  })
})

describe('tagged JSON', () => {
  it('carries what JSON does not', () => {
    const value = {
      big: 2n ** 70n,
      endless: [Infinity, -Infinity],
      url: new URL('file:///x'),
      bytes: new Uint8Array([1, 2]),
      own: { $: 1 },
      halves: new Float64Array([0.5]),
    }
    expect(fromText(toText(value))).toEqual(value)
    expect(fromText(toText(NaN))).toBeNaN()
    expect(fromText(toText(new SharedArrayBuffer(2)))).toEqual(new ArrayBuffer(2))
    expect(fromText(toText({ t: new Tensor('int64', new BigInt64Array([1n]), [1]) }))).toMatchObject({
      t: { type: 'int64', data: new BigInt64Array([1n]) },
    })
  })

  it('is the same when it is written in pieces', () => {
    for (const value of [
      [null, 'a"b', 1, NaN, 7n, true, [], {}, new Uint8Array(3), new URL('file:///x'), new Date(0)],
      [Object.assign(['a'], { 2: 'hole before it' }), Object.assign([], { 600: 'holes before it' })],
      { none: undefined, some: [undefined, () => 1, null], '"': { own: { $: 1 }, toJSON: 3 } },
      { toJSON: () => 'own' },
      Array.from({ length: 2000 }, (_, at) => (at % 3 === 0 ? `${at}` : { at, list: [at, 'x'] })),
      Array.from({ length: 1025 }, () => '"'),
    ])
      expect(doAll(writtenPieces(value))).toBe(toText(value))
  })
})

describe('a call', () => {
  const read = (frame: Buffer) =>
    doAll(callPieces(frame.readUInt32LE(4), Buffer.from(Uint8Array.from(frame.subarray(8)))))

  it('has large bytes in its frame as they are, where they stay', () => {
    const [bytes, floats, none] = [
      Uint8Array.from({ length: 5001 }, (_, at) => at % 256),
      Float64Array.from({ length: 700 }, (_, at) => at / 3),
      new Uint8Array(3),
    ]
    const call = {
      id: 7,
      method: 'load',
      args: [
        'm',
        {
          bytes,
          floats,
          none,
          buffer: bytes.buffer.slice(0),
          options: { url: new URL('file:///x'), big: 7n },
        },
      ],
    }
    const frame = callFrameOf(call)
    expect(frame.length).toBeLessThan(2 * 5008 + 5600 + 600)
    const got = read(frame)
    expect(got).toEqual(call)
    const config = (got.args as [string, { bytes: Uint8Array; floats: Float64Array }])[1]
    expect(config.bytes.buffer).toBe(config.floats.buffer)
  })

  it('that is short is text', () => {
    const call = { id: 1, method: 'stats', args: [new Uint8Array(9)] }
    expect(callFrameOf(call).readUInt32LE(4)).toBe(frameKinds.call)
    expect(read(callFrameOf(call))).toEqual(call)
  })

  it.each<[string, number, Buffer]>([
    ['text without end', frameKinds.call, Buffer.alloc(2 ** 20 + 1, 32)],
    ['a length beyond its frame', frameKinds.callWithBytes, Buffer.from([99, 0, 0, 0, 123, 125])],
    ['no length', frameKinds.callWithBytes, Buffer.alloc(3)],
    ['missing bytes', frameKinds.callWithBytes, lying(['bytes', 'Uint8Array', 8, 9])],
    ['bytes before the beginning', frameKinds.callWithBytes, lying(['bytes', 'Uint8Array', -8, 8])],
    ['bytes of no kind', frameKinds.callWithBytes, lying(['bytes', 'constructor', 0, 8])],
    ['half an element', frameKinds.callWithBytes, lying(['bytes', 'Float64Array', 0, 4])],
    [
      'bytes without any',
      frameKinds.call,
      Buffer.from(JSON.stringify({ id: 1, method: 'load', args: [{ $: ['bytes', 'Uint8Array', 0, 0] }] })),
    ],
    ['arrays without end', frameKinds.call, Buffer.from('['.repeat(5000))],
    [
      'more values than there may be',
      frameKinds.call,
      Buffer.from(`{"id":1,"method":"load","args":[${'0,'.repeat(140_000)}0]}`),
    ],
    [
      'more names than there may be',
      frameKinds.call,
      Buffer.from(JSON.stringify({ id: 1, method: 'load', args: [named(2000), named(2000), named(100)] })),
    ],
    [
      'more names of an object that is written as a list',
      frameKinds.call,
      Buffer.from(
        JSON.stringify({
          id: 1,
          method: 'load',
          args: [
            { $: ['object', Object.entries(named(2000))] },
            { $: ['object', Object.entries(named(2100))] },
          ],
        }),
      ),
    ],
    [
      'more names than an object may have',
      frameKinds.call,
      Buffer.from(`{"id":1,"method":"load","args":[{${'"a":0,'.repeat(4096)}"b":0}]}`),
    ],
    ['more names, in pairs', frameKinds.callWithBytes, lying(['object', Array(4097).fill(['a', 0])])],
  ])('with %s is refused', (_, kind, body) => {
    expect(() => doAll(callPieces(kind, body))).toThrow(BadRecord)
  })

  it('is not sent with more names or values than are read', () => {
    const sent = (...args: unknown[]) => callFrameOf({ id: 1, method: 'load', args })
    const most = named(4092) // beside the three of the call, and what JSON counts
    expect(read(sent(most)).args).toEqual([most])
    for (const refused of [
      () => sent(named(2000), named(2100)),
      () => sent(Array.from({ length: 131_100 }, () => 0)),
    ])
      expect(refused).toThrow(/arguments of load\(\): expected at most \d+ names/)
    expect(() => read(sent(Array.from({ length: 131_000 }, () => 0)))).not.toThrow()
  })

  it('with a long list is read and written in pieces', () => {
    const labels = Array.from({ length: 60_000 }, (_, at) => `l${at}`)
    const frame = callFrameOf({ id: 1, method: 'load', args: ['m', { outputs: [{ name: 'y', labels }] }] })
    const [call, pieces] = counted(callPieces(frameKinds.call, frame.subarray(8)))
    expect(call.args[1]).toEqual({ outputs: [{ name: 'y', labels }] })
    expect(pieces).toBeGreaterThan(60_000 / 600)
    const [text, parts] = counted(writtenPieces(call))
    expect(text).toBe(toText(call))
    expect(parts).toBeGreaterThan(60_000 / 600)
  })

  /** What the pieces return, and how many they are. */
  function counted<T>(pieces: Pieces<T>): [T, number] {
    for (let count = 1; ; count++) {
      const { done, value } = pieces.next()
      if (done) return [value, count]
    }
  }

  /** An object of so many names. */
  function named(length: number): Record<string, string> {
    return Object.fromEntries(Array.from({ length }, (_, at) => [`k${at}`, '1']))
  }

  /** A frame's body with 16 bytes beside the text. */
  function lying(bytes: unknown[]): Buffer {
    const text = JSON.stringify({ id: 1, method: 'load', args: [{ $: bytes }] })
    const body = Buffer.alloc(aligned(4 + text.length) + 16)
    body.writeUInt32LE(text.length, 0)
    body.write(text, 4)
    return body
  }
})

describe('frames', () => {
  it('come whole, however the stream is divided', () => {
    const sent = [textFrame(4, 'one'), textFrame(5, ''), frameOf(7, 3)]
    sent[2]!.set([1, 2, 3], 8)
    const stream = Buffer.concat(sent)
    for (let size = 1; size <= stream.length; size++) {
      const got: [number, string][] = []
      const frames = new FrameReader(100, (kind, body) => got.push([kind, body.toString('latin1')]))
      for (let at = 0; at < stream.length; at += size) frames.push(stream.subarray(at, at + size))
      expect(got).toEqual([
        [4, 'one'],
        [5, ''],
        [7, '\u0001\u0002\u0003'],
      ])
    }
  })

  it('that are too long are refused by their first bytes', () => {
    expect(() => new FrameReader(100, () => {}).push(frameOf(4, 101).subarray(0, 8))).toThrow(BadRecord)
  })

  it('that are long come whole, in memory that grows with what has arrived', () => {
    const sent = frameOf(7, 9_000_001)
    for (let at = 8; at < sent.length; at++) sent[at] = (at * 31 + (at >> 8)) & 255
    const stream = Buffer.concat([sent, textFrame(4, 'next')])
    for (const size of [65_536, 1_000_003, stream.length]) {
      const got: Buffer[] = []
      const frames = new FrameReader(2 ** 24, (_kind, body) => got.push(body))
      for (let at = 0; at < stream.length; at += size) frames.push(stream.subarray(at, at + size))
      expect(got.map((body) => body.toString('latin1') === sent.toString('latin1', 8))).toEqual([true, false])
      expect([got[0]!.byteOffset, got[0]!.buffer.byteLength, got[1]!.toString()]).toEqual([
        0,
        9_000_001,
        'next',
      ])
    }
    collectGarbage()
    const held = () => process.memoryUsage().arrayBuffers
    const before = held()
    const frames = Array.from({ length: 16 }, () => new FrameReader(2 ** 28, () => {}))
    const head = frameOf(7, 0)
    head.writeUInt32LE(2 ** 28, 0)
    for (const reader of frames) reader.push(head)
    expect(held() - before).toBeLessThan(17 * 2 ** 18)
    for (const reader of frames)
      for (let at = 0; at < 2 ** 20; at += 2 ** 16) reader.push(new Uint8Array(2 ** 16))
    collectGarbage()
    expect(held() - before).toBeLessThan(16 * 8 * 2 ** 20)
  })
})

describe('a record that is long', () => {
  /** A request whose only input is a list of so many arrays, each of which says that it is all bytes of the body. */
  function amplifying(items: number, bodyBytes: number): RecordReader {
    const cells: number[] = [0, 1, 0]
    const text = (value: string) => {
      cells.push(value.length)
      if (value !== '')
        cells.push(
          new DataView(Uint8Array.from(Buffer.from(value.padEnd(8, '\0'))).buffer).getFloat64(0, true),
        )
    }
    text('m')
    text('')
    cells.push(1)
    text('x')
    cells.push(1, 5, items)
    for (let item = 0; item < items; item++) cells.push(3, 0, 0, bodyBytes)
    cells[0] = cells.length
    const memory = new ArrayBuffer(cells.length * 8 + bodyBytes)
    new Float64Array(memory, 0, cells.length).set(cells)
    return new RecordReader(new RecordViews(memory), 0, memory.byteLength)
  }

  it('has no byte copied more than once', () => {
    expect((readRequest(amplifying(1, 4096)).feeds['x'] as Uint8Array[])[0]).toHaveLength(4096)
    expect(() => readRequest(amplifying(2, 4096))).toThrow('elements that lie where others do')
    expect(() => readRequest(amplifying(2, 2 ** 20))).toThrow('elements that lie where others do')
  })

  it('has only so many arrays in it, as each takes more than the record has of it', () => {
    expect(readRequest(amplifying(60_000, 0)).feeds['x']).toHaveLength(60_000)
    expect(() => readRequest(amplifying(140_000, 0))).toThrow('more than 131072 values')
  })

  it('is read in pieces', () => {
    const pieces = (feeds: Record<string, unknown>, options?: object) => {
      writeRequest(record, 1, 'm', feeds, options, false)
      const reading = requestPieces(reader(written()))
      for (let count = 0; ; count++) {
        const { done, value } = reading.next()
        if (done) return { count, feeds: value.feeds, options: value.options }
      }
    }
    const floats = Float32Array.from({ length: 2 ** 20 + 3 }, (_, at) => at)
    const long = pieces({ x: floats })
    expect([
      long.count,
      Buffer.compare(Buffer.from((long.feeds['x'] as Float32Array).buffer), Buffer.from(floats.buffer)),
    ]).toEqual([8, 0])
    const texts = Array.from({ length: 5000 }, (_, at) => `t${at}`)
    expect(pieces({ x: texts })).toEqual({ count: 9, feeds: { x: texts }, options: undefined })
    const sequence = Array.from({ length: 1500 }, (_, at) => Float32Array.of(at))
    expect(pieces({ x: sequence }).count).toBe(2)
    const options = { outputs: Array.from({ length: 2000 }, (_, at) => ({ at: BigInt(at) })) }
    const read = pieces({}, options)
    expect(read.options).toEqual(options)
    expect(read.count).toBeGreaterThan(2)
    expect(pieces({ x: Float32Array.of(1) }, { timeoutMs: 5 }).count).toBe(0)
  })

  it('is refused by who writes it where its options or a list are too long', () => {
    expect(() => writeRequest(record, 1, 'm', {}, { requestId: 'x'.repeat(70_000) }, false)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: 'options' }),
    )
    expect(() =>
      writeRequest(record, 1, 'm', { x: Array(70_000).fill(Float32Array.of(1)) }, undefined, false),
    ).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: "input 'x'" }))
    writeRequest(record, 1, 'm', {}, undefined, false)
  })
})
