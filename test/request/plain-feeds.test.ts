import { Tensor } from 'onnxruntime-common'
import { describe, expect, it } from 'vitest'
import type { ModelMetadata, ValueMetadata } from '../../src/metadata.ts'
import { FeedParser } from '../../src/request/feeds.ts'
import { PlainFeeds } from '../../src/request/plain-feeds.ts'

const metadataOf = (inputs: readonly Partial<ValueMetadata>[], maxBatchSize = 4): ModelMetadata => ({
  name: 'm', path: '', unservableOutputs: [], executionProviders: [], outputs: [], maxBatchSize, joining: { rows: 'declared', largestDifference: null, reason: '' },
  inputs: inputs.map((input, index) => ({ name: `i${index}`, type: 'float32', shape: ['N', 2], ...input }) as ValueMetadata),
}) // prettier-ignore
const one = metadataOf([{}])
const tensor = (...dims: number[]) => new Tensor('float32', new Float32Array(dims.reduce((product, dim) => product * dim, 1)).fill(3), dims)
const changed = (changes: object) => Object.defineProperties(tensor(1, 2), Object.getOwnPropertyDescriptors(changes))

/** The same values in objects that are no `Tensor`: they are read with care. */
const likeTensors = (feeds: Record<string, Tensor>) => Object.fromEntries(Object.entries(feeds).map(([name, { type, dims, data }]) => [name, { type, dims, data }]))

describe('tensors that are right in every respect', () => {
  it.each([
    ['one row', one, { i0: tensor(1, 2) }],
    ['as many rows as may be', one, { i0: tensor(4, 2) }],
    ['several inputs', metadataOf([{}, { shape: ['N', 3, 1] }]), { i1: tensor(2, 3, 1), i0: tensor(2, 2) }],
    ['integers of 64 bits', metadataOf([{ type: 'int64' }]), { i0: new Tensor('int64', new BigInt64Array(2), [1, 2]) }],
    ['what is not batched', metadataOf([{ shape: [2, 3] }], 0), { i0: tensor(2, 3) }],
  ] as [string, ModelMetadata, Record<string, Tensor>][])('are the request that reading them with care gives: %s', (_, metadata, feeds) => {
    const found = PlainFeeds.of(metadata)!.read(feeds)
    expect(found).not.toBeNull()
    expect(found).toEqual(new FeedParser(metadata).parse(likeTensors(feeds)))
    expect(found!.data).toEqual(Object.keys(feeds).sort().map((name) => feeds[name]!.data))
  })

  it('are taken by the parser', () => {
    const { data } = tensor(1, 2)
    expect(new FeedParser(one).parse({ i0: new Tensor('float32', data as Float32Array, [1, 2]) }).data[0]).toBe(data)
  })

  it.each(['type', 'dims', 'data', 'location'])('are asked for their %s once', (property) => {
    let asked = 0
    const prototype = Object.create(Tensor.prototype) as Tensor
    const value = tensor(1, 2)[property as 'type']
    Object.defineProperty(prototype, property, { get: () => (asked++, value) })
    const own = new Tensor('float32', new Float32Array(2), [1, 2])
    const watched = Object.create(prototype, Object.fromEntries(Object.entries(Object.getOwnPropertyDescriptors(own)).filter(([name]) => name !== property))) as Tensor
    expect(PlainFeeds.of(one)!.read({ i0: watched })).not.toBeNull()
    expect(asked).toBe(1)
  })
})

describe('whatever else is given', () => {
  const detached = tensor(1, 2)
  structuredClone(detached.data, { transfer: [(detached.data as Float32Array).buffer as ArrayBuffer] })

  it.each([
    ['nothing', undefined], ['null', null], ['an array', [tensor(1, 2)]], ['a typed array', new Float32Array(2)], ['no input', {}],
    ['another name', { x: tensor(1, 2) }], ['a name too many', { i0: tensor(1, 2), x: tensor(1, 2) }], ['an input of its prototype', Object.create({ i0: tensor(1, 2) })],
    ['no tensor', { i0: [1, 2] }], ['data without dims', { i0: new Float32Array(2) }], ['what looks like a tensor', likeTensors({ i0: tensor(1, 2) })],
    ['no row', { i0: tensor(0, 2) }], ['too many rows', { i0: tensor(5, 2) }], ['other dims', { i0: tensor(1, 3) }], ['another rank', { i0: tensor(1, 2, 1) }],
    ['another type', { i0: new Tensor('int32', new Int32Array(2), [1, 2]) }], ['data of another type', { i0: changed({ cpuData: new Int32Array(2) }) }], ['rows that are no number', { i0: changed({ dims: ['1', 2] }) }],
    ['dims that changed since', { i0: changed({ dims: [2, 2] }) }], ['a part of a row', { i0: changed({ dims: [0.5, 2] }) }], ['data elsewhere', { i0: changed({ dataLocation: 'gpu-buffer' }) }], ['a detached buffer', { i0: detached }],
  ])('is left to be read with care: %s', (_, feeds) => {
    expect(PlainFeeds.of(one)!.read(feeds)).toBeNull()
  })

  it('is told of when it is wrong, although an input before it was right', () => {
    const parser = new FeedParser(metadataOf([{}, {}]))
    expect(() => parser.parse({ i0: tensor(1, 2), i1: tensor(2, 2) })).toThrow("input 'i1'")
  })

  it.each([
    ['a variable shape', { shape: ['N', ''] }], ['no shape', { shape: [] }], ['strings', { type: 'string' }], ['elements that share bytes', { type: 'int4' }],
    ['float16, which may be shown as numbers', { type: 'float16' }], ['rows along another dimension', { shape: [2, 'N'], batchAxis: 1 }], ['a value that all rows share', { shape: [2], batchAxis: -1 }],
  ] as [string, Partial<ValueMetadata>][])('is all that there is for a model that takes %s', (_, input) => {
    expect(PlainFeeds.of(metadataOf([{}, input]))).toBeNull()
  })

  it('is read with care where each request runs as it is, and where numbers have to be finite', () => {
    const alone = new FeedParser(one)
    alone.byRow = false
    expect(alone.parse({ i0: tensor(1, 2) })).toMatchObject({ whole: true })
    const infinite = new Tensor('float32', Float32Array.of(1, Infinity), [1, 2])
    expect(() => new FeedParser(one, { finiteOnly: true }).parse({ i0: infinite })).toThrow('a finite number')
  })
})
