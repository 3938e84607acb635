import { Tensor } from 'onnxruntime-common'
import { describe, expect, it } from 'vitest'
import type { ModelMetadata, ValueMetadata } from '../../src/tensor/metadata.ts'
import { FeedParser, PlainFeeds } from '../../src/request/feeds.ts'

const metadataOf = (inputs: readonly Partial<ValueMetadata>[], maxBatchSize = 4): ModelMetadata => ({
  name: 'm', path: '', properties: null, unservableOutputs: [], executionProviders: [], outputs: [], maxBatchSize, joining: { rows: 'declared', how: 'declared', largestDifference: null, reason: '' },
  inputs: inputs.map((input, index) => ({ name: `i${index}`, type: 'float32', shape: ['N', 2], ...input }) as ValueMetadata),
}) // prettier-ignore
const tensor = (...dims: number[]) => ({
  type: 'float32',
  dims,
  data: new Float32Array(dims.reduce((product, dim) => product * dim, 1)),
})

describe('tensors that were made by another model', () => {
  it.each([
    ['one row', metadataOf([{}]), [tensor(1, 2)]],
    ['as many rows as may be', metadataOf([{}]), [tensor(4, 2)]],
    ['several inputs', metadataOf([{}, { shape: ['N', 3, 1] }]), [tensor(2, 2), tensor(2, 3, 1)]],
    ['what is not batched', metadataOf([{ shape: [2, 3] }], 0), [tensor(2, 3)]],
  ])('are a request as the parser reads it from feeds: %s', (_, metadata, tensors) => {
    const feeds = Object.fromEntries(tensors.map((each, index) => [`i${index}`, each]))
    expect(PlainFeeds.of(metadata)!.take([...tensors])).toEqual(new FeedParser(metadata).parse(feeds))
  })

  it.each([
    ['no row', metadataOf([{}]), [tensor(0, 2)]],
    ['too many rows', metadataOf([{}]), [tensor(5, 2)]],
    ['other dims', metadataOf([{}]), [tensor(1, 3)]],
    ['another rank', metadataOf([{}]), [tensor(1, 2, 1)]],
    ['rows that differ', metadataOf([{}, {}]), [tensor(1, 2), tensor(2, 2)]],
    ['other first dims of what is not batched', metadataOf([{ shape: [2, 3] }], 0), [tensor(1, 3)]],
  ])('are left to the parser where they do not fit: %s', (_, metadata, tensors) => {
    expect(PlainFeeds.of(metadata)!.take([...tensors])).toBeNull()
  })

  it.each([
    ['a variable shape', { shape: ['N', ''] }],
    ['no shape', { shape: [] }],
    ['strings', { type: 'string' }],
    ['elements that share bytes', { type: 'int4' }],
    ['float16, which may be shown as numbers', { type: 'float16' }],
    ['what is no tensor', { type: 'seq(tensor(float32))' }],
    ['rows along another dimension', { shape: [2, 'N'], batchAxis: 1 }],
    ['a value that all rows share', { shape: [2], batchAxis: -1 }],
  ] as [string, Partial<ValueMetadata>][])('are left to the parser for a model that takes %s', (_, input) => {
    expect(PlainFeeds.of(metadataOf([{}, input]))).toBeNull()
  })

  it('are left to the parser where numbers have to be finite, and where each request runs as it is', () => {
    expect(new FeedParser(metadataOf([{}]), { finiteOnly: true }).plain).toBeNull()
    const parser = new FeedParser(metadataOf([{}]))
    expect(parser.plain).toBeInstanceOf(PlainFeeds)
    parser.byRow = false
    expect(parser.plain).toBeNull()
  })
})

describe('tensors of onnxruntime-common', () => {
  const given = (...dims: number[]) =>
    new Tensor(
      'float32',
      new Float32Array(dims.reduce((product, dim) => product * dim, 1)).map((_, at) => at),
      dims,
    )
  const withDims = (data: Tensor, dims: unknown) => Object.defineProperty(data, 'dims', { value: dims })
  const two = metadataOf([{}, { shape: ['N', 3] }])

  it('are read as other tensors are', () => {
    for (const [metadata, tensors] of [
      [metadataOf([{}]), [given(3, 2)]],
      [two, [given(2, 2), given(2, 3)]],
      [metadataOf([{ shape: [2, 3] }], 0), [given(2, 3)]],
    ] as const) {
      const feedsOf = (all: readonly object[]) =>
        Object.fromEntries(all.map((each, index) => [`i${index}`, each]))
      const plain = tensors.map(({ type, dims, data }) => ({ type, dims, data }))
      const parser = new FeedParser(metadata)
      expect(parser.parse(feedsOf(tensors))).toEqual(parser.parse(feedsOf(plain)))
    }
  })

  it('are read as their data are, where that is one row', () => {
    const parser = new FeedParser(metadataOf([{}]))
    const data = Float32Array.of(1, 2)
    expect(parser.parse({ i0: data })).toEqual(parser.parse({ i0: { type: 'float32', dims: [1, 2], data } }))
    expect(() => parser.parse({ i0: new Float32Array(4) })).toThrow('2 elements')
    expect(() => parser.parse({ i0: new Float64Array(2) })).toThrow('Float32Array')
  })

  it('are read in any order of their names', () => {
    const [first, second] = [given(2, 2), given(2, 3)]
    expect(new FeedParser(two).parse({ i1: second, i0: first }).data).toEqual([first.data, second.data])
  })

  it('are read once, beside one that has to be looked at closely as well', () => {
    let reads = 0
    const feeds = {
      get i0() {
        reads++
        return given(1, 2)
      },
      i1: { ...given(1, 3), type: 'float32', dims: [1, 3], data: new Float32Array(3) },
    }
    expect(new FeedParser(two).parse(feeds).data).toEqual([given(1, 2).data, new Float32Array(3)])
    expect(reads).toBe(1)
  })

  it('are read once of one input as well, beside a name that is not read', () => {
    let reads = 0
    const feeds = {
      get i0() {
        reads++
        return given(2, 2)
      },
      other: undefined,
    }
    expect(new FeedParser(metadataOf([{}])).parse(feeds)).toMatchObject({ rows: 2, data: [given(2, 2).data] })
    expect(reads).toBe(1)
  })

  it('leave nothing to the next ones where they are refused', () => {
    const parser = new FeedParser(two)
    expect(() => parser.parse({ i0: given(1, 2), other: 1 })).toThrow('other')
    expect(() => parser.parse({ i1: given(1, 3) })).toThrow('i0')
  })

  it('are refused under other names, and as properties that are not their own', () => {
    const parser = new FeedParser(metadataOf([{}]))
    const own = { i0: given(1, 2) }
    expect(() => parser.parse({ ...own, other: given(1, 2) })).toThrow('other')
    expect(() => parser.parse(Object.create(own))).toThrow('i0')
    expect(() => new FeedParser(metadataOf([{ name: '0' }])).parse([given(1, 2)])).toThrow('feeds')
  })

  it.each([
    ['a name without a value', { other: undefined }, {}],
    ['a name that is inherited', {}, { other: 1 }],
  ])('are read as they are beside %s', (_, own, inherited) => {
    const feeds = Object.assign(Object.create(inherited), { i0: given(2, 2) }, own)
    expect(new FeedParser(metadataOf([{}])).parse(feeds)).toMatchObject({ rows: 2, data: [given(2, 2).data] })
  })

  it.each(['cpu', 'cpu-pinned', undefined])('are read where they say that they are at %s', (location) => {
    const { type, dims, data } = given(2, 2)
    const tensor = { location, type, dims, data }
    expect(new FeedParser(metadataOf([{}])).parse({ i0: tensor })).toMatchObject({ rows: 2, data: [data] })
    const finite = new FeedParser(metadataOf([{}]), { finiteOnly: true })
    expect(finite.parse({ i0: tensor })).toMatchObject({ rows: 2, data: [data] })
  })

  it('are refused where they are on a device, without a look at their data', () => {
    const tensor = {
      location: 'gpu-buffer', type: 'float32', dims: [1, 2],
      get data(): never {
        throw new Error('The data is not on CPU')
      },
    } // prettier-ignore
    expect(() => new FeedParser(metadataOf([{}])).parse({ i0: tensor })).toThrow('on the CPU')
  })

  it('of other copies of onnxruntime-common are plain as well, each property read once', () => {
    const reads: string[] = []
    const { type, dims, data } = given(2, 2)
    const tensor = { location: 'cpu', type, dims, data }
    const watched = new Proxy(tensor, {
      get: (target, name: keyof typeof tensor) => {
        reads.push(name)
        return target[name]
      },
    })
    const plain = PlainFeeds.of(metadataOf([{}]))!
    expect(plain.parse({ i0: watched })).toMatchObject({ rows: 2, data: [data] })
    expect(reads).toEqual(['location', 'type', 'dims', 'data'])
  })

  it('are refused whole where feeds are an array or a view, at once whatever its length', () => {
    const parser = new FeedParser(metadataOf([{}]))
    const view = Object.assign(new DataView(new ArrayBuffer(8)), { i0: given(1, 2) })
    for (const feeds of [new Float32Array(2 ** 24), view, [given(1, 2)]])
      expect(() => parser.parse(feeds)).toThrow('feeds')
  })

  it('are read once where there is nothing', () => {
    let reads = 0
    const feeds = {
      get i0() {
        return reads++ === 0 ? undefined : given(1, 2)
      },
    }
    expect(() => new FeedParser(metadataOf([{}])).parse(feeds)).toThrow('i0')
    expect(reads).toBe(1)
  })

  it('may be properties that loops do not see', () => {
    const feeds = Object.defineProperty({}, 'i0', { value: given(1, 2) })
    expect(new FeedParser(metadataOf([{}])).parse(feeds).data).toEqual([given(1, 2).data])
  })

  it.each([
    ['rows that differ', two, [given(1, 2), given(2, 3)], '1 rows, as input'],
    ['too many rows', metadataOf([{}]), [given(5, 2)], 'at most 4 rows'],
    [
      'a negative number of rows',
      metadataOf([{ shape: ['N', 0] }]),
      [withDims(given(1, 0), [-1, 0])],
      '0 or more',
    ],
    ['half a row', metadataOf([{}]), [withDims(given(1, 2), [0.5, 2])], 'whole numbers'],
    ['other dims', metadataOf([{}]), [given(1, 3)], 'shape [N, 2]'],
    ['fewer elements than their dims say', metadataOf([{}]), [withDims(given(1, 2), [2, 2])], '4 elements'],
    ['another type', metadataOf([{ type: 'int32' }]), [given(1, 2)], 'type int32'],
  ])('are refused that have %s', (_, metadata, tensors, expected) => {
    const feeds = Object.fromEntries(tensors.map((each, index) => [`i${index}`, each]))
    expect(() => new FeedParser(metadata).parse(feeds)).toThrow(expected)
  })
})
