import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { ElementType, ModelMetadata, Tensor } from '../../../../src/index.ts'
import {
  checkAnswer,
  inputDefaults,
  type InputSettings,
  type Sample,
  sampleSource,
} from '../../src/perf/input/sample-source.ts'
import { storageOf, toStorage } from '../../../../src/tensor/tensor.ts'
import { temporaryFolder } from '../../../../test/triton-repository/temporary.ts'

type Value = ModelMetadata['inputs'][number]

const value = (name: string, type: string, shape: (number | string)[], batchAxis?: number | null): Value => ({
  name,
  type: type as ElementType,
  shape,
  ...(batchAxis === undefined ? {} : { batchAxis }),
})

/** What is known of a model with these inputs, which answers with the same. */
function modelOf(...inputs: Value[]): ModelMetadata {
  const joining = { rows: 'independent', how: 'checked', largestDifference: 0, reason: '' } as const
  const outputs = inputs.map((input) => ({ ...input, name: `${input.name}_OUT` }))
  return {
    name: 'm',
    path: '',
    inputs,
    outputs,
    properties: null,
    unservableOutputs: [],
    executionProviders: [],
    maxBatchSize: 32,
    joining,
  }
}

async function samplesFor(
  metadata: ModelMetadata,
  settings: Partial<InputSettings> = {},
  count = 1,
): Promise<Sample[]> {
  const source = await sampleSource(metadata, { ...inputDefaults, ...settings })
  return Array.from({ length: count }, () => source.next(0))
}

const tensor = (sample: Sample, name: string) => sample.feeds[name] as Tensor
const fp32 = modelOf(value('IN', 'float32', ['N', 2]))
const file = (json: unknown) =>
  join(temporaryFolder({ 'data.json': typeof json === 'string' ? json : JSON.stringify(json) }), 'data.json')
const settingsOf = (json: unknown): Partial<InputSettings> => ({ inputData: [file(json)] })

describe('made-up data', () => {
  const types: ElementType[] = [
    'float32',
    'float64',
    'float16',
    'int8',
    'uint8',
    'int16',
    'uint16',
    'int32',
    'uint32',
    'int64',
    'uint64',
    'bool',
    'bfloat16',
    'float8e4m3fn',
    'float8e4m3fnuz',
    'float8e5m2',
    'float8e5m2fnuz',
    'int4',
    'uint4',
  ]
  it.each(types)('of %s has its type and shape, and is not all the same', async (type) => {
    const [sample] = await samplesFor(modelOf(value('IN', type, ['N', 64])), { batchSize: 2 })
    const { type: itsType, dims, data } = tensor(sample!, 'IN')
    expect([itsType, dims, sample!.rows]).toEqual([type, [2, 64], 2])
    expect(toStorage(type, data)).toBeInstanceOf(storageOf(type)) // newer Node has a Float16Array
    expect(new Set(data as Iterable<unknown>).size).toBeGreaterThan(1)
  })

  it.each(types)('of zeros of %s is zeros', async (type) => {
    const [sample] = await samplesFor(modelOf(value('IN', type, ['N', 8])), { inputData: ['zero'] })
    expect(new Set(Array.from(tensor(sample!, 'IN').data as ArrayLike<number>, Number))).toEqual(new Set([0]))
  })

  it('may be another for single inputs, whose names may have colons', async () => {
    const model = modelOf(
      value('IDS', 'int64', ['N', 8]),
      value('input:0', 'float32', ['N', 8]),
      value('MASK', 'int64', ['N', 8]),
    )
    const kinds = async (...inputData: string[]) => {
      const [sample] = await samplesFor(model, { inputData })
      return ['IDS', 'input:0', 'MASK'].map((name) =>
        Array.from(tensor(sample!, name).data as ArrayLike<number | bigint>, Number).some(
          (element) => element !== 0,
        )
          ? 'random'
          : 'zero',
      )
    }
    expect(await kinds('input:0:zero')).toEqual(['random', 'zero', 'random'])
    expect(await kinds('MASK:zero', 'IDS:zero')).toEqual(['zero', 'random', 'zero'])
    expect(await kinds('zero', 'IDS:random')).toEqual(['random', 'zero', 'zero'])
  })

  it('that is a pipe, a device or a folder is refused, and not waited for', async () => {
    const folder = temporaryFolder({})
    symlinkSync('/dev/zero', join(folder, 'IN'))
    for (const path of [folder, '/dev/zero'])
      await expect(samplesFor(fp32, { inputData: [path] })).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG',
        message: expect.stringContaining('not a regular file'),
      })
  })

  it('may begin with a byte order mark', async () => {
    const [sample] = await samplesFor(fp32, settingsOf('\uFEFF{"data":[{"IN":[1,2]}]}'))
    expect([...(tensor(sample!, 'IN').data as Float32Array)]).toEqual([1, 2])
  })

  it('of strings has the length that was asked for, or the text', async () => {
    const model = modelOf(value('IN', 'string', ['N', 3]))
    const [made, given, zero] = [
      await samplesFor(model, { stringLength: 7 }),
      await samplesFor(model, { stringData: 'hello' }),
      await samplesFor(model, { inputData: ['zero'] }),
    ]
    expect((tensor(made[0]!, 'IN').data as unknown as string[]).map(({ length }) => length)).toEqual([
      7, 7, 7,
    ])
    expect([tensor(given[0]!, 'IN').data, tensor(zero[0]!, 'IN').data]).toEqual([
      ['hello', 'hello', 'hello'],
      ['', '', ''],
    ])
  })

  it('is the same for the same seed, and one request unless more are asked for', async () => {
    const data = async (settings: Partial<InputSettings>) =>
      (await samplesFor(fp32, settings, 3)).map((sample) => String(tensor(sample, 'IN').data))
    expect(await data({ seed: 1 })).toEqual(await data({ seed: 1 }))
    expect(await data({ seed: 1 })).not.toEqual(await data({ seed: 2 }))
    expect(new Set(await data({})).size).toBe(1)
    expect(new Set(await data({ uniqueInputs: 2 })).size).toBe(2)
  })

  it('needs a shape where the model has variable dims, and takes one', async () => {
    const model = modelOf(value('IDS', 'int64', ['N', 'L']))
    await expect(samplesFor(model)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining('--shape IDS:1'),
    })
    const [sample] = await samplesFor(model, { shapes: new Map([['IDS', [5]]]) })
    expect(tensor(sample!, 'IDS').dims).toEqual([1, 5])
  })

  it('has rows where the model counts them, and none in an input that all share', async () => {
    const [sample] = await samplesFor(
      modelOf(
        value('STATE', 'float32', [2, 'N', 4], 1),
        value('SR', 'int64', [], null),
        value('IN', 'float32', ['N', 2]),
      ),
      { batchSize: 3 },
    )
    expect(['STATE', 'SR', 'IN'].map((name) => tensor(sample!, name).dims)).toEqual([[2, 3, 4], [], [3, 2]])
  })

  it.each([
    [{ shapes: new Map([['NO', [1]]]) }, 'shape: expected the name of an input (IN)'],
    [{ shapes: new Map([['IN', [3]]]) }, "shape of input 'IN'"],
    [{ inputData: ['NO:zero'] }, "each input of the model ('IN') once at most, as NAME:zero"],
    [{ inputData: ['IN:zero', 'IN:random'] }, 'once at most'],
    [{ inputData: ['zero', 'random'] }, 'random or zero once'],
    [{ inputData: ['IN:zero', 'x.json'] }, 'input data: expected random and zero alone'],
    [{ inputData: ['random', 'x.json'] }, 'input data: expected random and zero alone'],
  ])('is refused for %o', async (settings, message) => {
    await expect(samplesFor(fp32, settings)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining(message),
    })
  })

  it('has one row for a model whose requests have none', async () => {
    const fixed = { ...modelOf(value('IN', 'float32', [4, 2])), maxBatchSize: 0 }
    expect(tensor((await samplesFor(fixed))[0]!, 'IN').dims).toEqual([4, 2])
    await expect(samplesFor(fixed, { batchSize: 2 })).rejects.toMatchObject({
      message: expect.stringContaining("requests to 'm' have no rows"),
    })
  })
})

describe('a folder of data', () => {
  it('has a file of bytes for each input, and one of lines for strings', async () => {
    const folder = temporaryFolder({
      IN: Buffer.from(new Float32Array([1.5, -2]).buffer),
      TEXT: 'one\ntwo\n',
    })
    const [sample] = await samplesFor(
      modelOf(value('IN', 'float32', ['N', 2]), value('TEXT', 'string', ['N', 2])),
      { inputData: [folder], batchSize: 2 },
    )
    expect([...(tensor(sample!, 'IN').data as Float32Array)]).toEqual([1.5, -2, 1.5, -2])
    expect(tensor(sample!, 'TEXT')).toMatchObject({ dims: [2, 2], data: ['one', 'two', 'one', 'two'] })
  })

  it('of which a file has not the length that it has to have is refused', async () => {
    await expect(samplesFor(fp32, { inputData: [temporaryFolder({ IN: 'abcd' })] })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining('expected 2 elements of float32'),
    })
    await expect(samplesFor(fp32, { inputData: [temporaryFolder({ IN: 'abc' })] })).rejects.toMatchObject({
      message: expect.stringContaining('a multiple of 4 bytes'),
    })
    await expect(samplesFor(fp32, { inputData: [temporaryFolder({})] })).rejects.toMatchObject({
      code: 'ENOENT',
    })
  })
})

describe('a file of JSON', () => {
  const b64 = (...values: number[]) => Buffer.from(new Float32Array(values).buffer).toString('base64')

  it.each([
    ['elements', { IN: [1, 2] }],
    ['nested elements', { IN: [[1], [2]] }],
    ['bytes', { IN: { b64: b64(1, 2) } }],
    ['elements with a shape', { IN: { content: [1, 2], shape: [2] } }],
    ['bytes with a shape', { IN: { content: { b64: b64(1, 2) }, shape: [2] } }],
  ])('has tensors as %s', async (_, entry) => {
    const [sample] = await samplesFor(fp32, settingsOf({ data: [entry] }))
    expect(tensor(sample!, 'IN')).toMatchObject({ type: 'float32', dims: [1, 2] })
    expect([...(tensor(sample!, 'IN').data as Float32Array)]).toEqual([1, 2])
  })

  it.each([
    ['int64', [1, '9007199254740993'], [1n, 9007199254740993n]],
    ['uint8', [1, 255], [1, 255]],
    ['bool', [true, 0], [1, 0]],
    ['float16', [1, -2], [0x3c00, 0xc000]],
    ['string', ['a', 'ü'], ['a', 'ü']],
    ['string', { b64: Buffer.from('\u0001\0\0\0a\u0002\0\0\0bc').toString('base64') }, ['a', 'bc']],
    ['bfloat16', { b64: Buffer.from([0x80, 0x3f, 0, 0]).toString('base64') }, [0x3f80, 0]],
  ])('has elements of %s', async (type, given, expected) => {
    const [sample] = await samplesFor(
      modelOf(value('IN', type, ['N', 2])),
      settingsOf({ data: [{ IN: given }] }),
    )
    const { data } = tensor(sample!, 'IN')
    expect([...((toStorage(type as ElementType, data) ?? data) as Iterable<unknown>)]).toEqual(expected)
  })

  it('has one entry a row: the next requests take the next ones, and begin again', async () => {
    const data = [1, 2, 3].map((each) => ({ IN: [each, each] }))
    const one = await samplesFor(fp32, settingsOf({ data }), 4)
    expect(one.map((sample) => (tensor(sample, 'IN').data as Float32Array)[0])).toEqual([1, 2, 3, 1])
    const two = await samplesFor(fp32, { ...settingsOf({ data }), batchSize: 2 }, 4)
    expect(
      two.map((sample) =>
        [...(tensor(sample, 'IN').data as Float32Array)].filter((_, index) => index % 2 === 0),
      ),
    ).toEqual([
      [1, 2],
      [3, 1],
      [2, 3],
      [1, 2],
    ])
  })

  it('joins rows along the dimension that counts them', async () => {
    const model = modelOf(value('STATE', 'float32', [2, 'N', 2], 1), value('TEXT', 'string', [2, 'N'], 1))
    const data = [
      { STATE: [1, 2, 3, 4], TEXT: ['a', 'b'] },
      { STATE: [5, 6, 7, 8], TEXT: ['c', 'd'] },
    ]
    const [sample] = await samplesFor(model, { ...settingsOf({ data }), batchSize: 2 })
    expect([...(tensor(sample!, 'STATE').data as Float32Array)]).toEqual([1, 2, 5, 6, 3, 4, 7, 8])
    expect(tensor(sample!, 'TEXT')).toMatchObject({ dims: [2, 2], data: ['a', 'c', 'b', 'd'] })
  })

  it('says variable dims, or lets the one that is missing be found from the elements', async () => {
    const model = modelOf(value('IN', 'float32', ['N', 'L', 2]))
    const [said, found] = [
      await samplesFor(model, settingsOf({ data: [{ IN: { content: [1, 2, 3, 4], shape: [2, 2] } }] })),
      await samplesFor(model, settingsOf({ data: [{ IN: [1, 2, 3, 4, 5, 6] }] })),
    ]
    expect([tensor(said[0]!, 'IN').dims, tensor(found[0]!, 'IN').dims]).toEqual([
      [1, 2, 2],
      [1, 3, 2],
    ])
  })

  it('may be several, which are taken one after the other', async () => {
    const inputData = [file({ data: [{ IN: [1, 1] }] }), file({ data: [{ IN: [2, 2] }] })]
    const samples = await samplesFor(fp32, { inputData }, 3)
    expect(samples.map((sample) => (tensor(sample, 'IN').data as Float32Array)[0])).toEqual([1, 2, 1])
  })

  it('may say what answers have to be, byte by byte', async () => {
    const json = {
      data: [{ IN: [1, 2] }, { IN: [3, 4] }],
      validation_data: [{ IN_OUT: [1, 2] }, { IN_OUT: [3, 4] }],
    }
    const [sample] = await samplesFor(fp32, { ...settingsOf(json), batchSize: 2 })
    const answer = (...values: number[]) => ({ IN_OUT: { data: new Float32Array(values) } as never })
    expect(() => checkAnswer(answer(1, 2, 3, 4), sample!.expected!)).not.toThrow()
    expect(() => checkAnswer(answer(1, 2, 3, 5), sample!.expected!)).toThrow(
      expect.objectContaining({ code: 'UNEXPECTED_ANSWER' }),
    )
    expect(() => checkAnswer({}, sample!.expected!)).toThrow('received none')
    const texts = new Map([['T', ['a', 'b']]])
    expect(() => checkAnswer({ T: { data: ['a', 'b'] } as never }, texts)).not.toThrow()
    expect(() => checkAnswer({ T: { data: ['a', 'c'] } as never }, texts)).toThrow('differs')
  })

  it.each([
    ['{', 'a file of JSON'],
    [{}, 'data: expected an array of entries'],
    [{ data: [] }, 'data: expected an array of entries'],
    [{ data: [1] }, 'data[0]: expected an object with a tensor under each name'],
    [{ data: [{}] }, 'data[0].IN: expected a tensor'],
    [{ data: [{ IN: [1, 2], OUT: [1] }] }, 'names of the model (IN)'],
    [{ data: [{ IN: [1] }] }, 'data[0].IN: expected 2 elements'],
    [{ data: [{ IN: ['1', '2'] }] }, 'data[0].IN[0]: expected an element of float32'],
    [{ data: [{ IN: 5 }] }, 'data[0].IN: expected an array of elements'],
    [{ data: [{ IN: { content: [1, 2], shape: [3] } }] }, 'data[0].IN.shape: expected dims that fit [2]'],
    [{ data: [{ IN: { b64: 'AAAA' } }] }, 'a multiple of 4 bytes'],
    [{ data: [{ IN: [1, 2] }], validation_data: [] }, 'validation_data: expected an array of 1 entries'],
    [{ data: [{ IN: [1, 2] }, [{ IN: [1, 2] }]] }, 'either entries or sequences'],
    [{ data: [[]] }, 'a sequence of at least one entry'],
    [
      { data: [{ IN: [1, 2] }], validation_data: [{ NO: [1] }] },
      'validation_data[0]: expected names of the model (IN_OUT)',
    ],
    [
      { data: [[{ IN: [1, 2] }, { IN: [1, 2] }]], validation_data: [[{ IN_OUT: [1, 2] }]] },
      'validation_data[0]: expected an array of 2 entries',
    ],
    [
      { data: [[{ IN: [1, 2] }]], validation_data: [{ IN_OUT: [1, 2] }] },
      'validation_data[0]: expected an array of 1 entries',
    ],
    [{ data: [{ IN: { b64: '!!AAAAAAAA' } }] }, 'data[0].IN: expected base64'],
    [{ data: [{ IN: [1, 1e39] }] }, 'data[0].IN[1]: expected an element of float32'],
  ])('%j is refused', async (json, message) => {
    await expect(samplesFor(fp32, settingsOf(json))).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining(message),
    })
  })
})

describe('elements in JSON that their type cannot hold', () => {
  it.each([
    ['int8', 300],
    ['int8', 1.5],
    ['uint8', -1],
    ['uint16', 65_536],
    ['int32', 2 ** 31],
    ['uint32', 1e300],
    ['bool', 2],
    ['bool', 0.5],
    ['float16', 70_000],
    ['float64', '1'],
    ['int64', 2 ** 53],
    ['int64', '9223372036854775808'],
    ['uint64', '-1'],
    ['int64', 1.5],
    ['int64', ''],
    ['int64', true],
  ])('are refused: %s has no %j', async (type, element) => {
    await expect(
      samplesFor(modelOf(value('IN', type, ['N', 2])), settingsOf({ data: [{ IN: [0, element] }] })),
    ).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining(`data[0].IN[1]: expected an element of ${type}`),
    })
  })

  it.each([
    ['int8', -128],
    ['uint8', 255],
    ['int32', -0],
    ['uint32', 2 ** 32 - 1],
    ['float16', 65_504],
    ['float32', -1e-30],
    ['int64', -(2 ** 53) + 1],
    ['uint64', '18446744073709551615'],
  ])('are no others: %s has %j', async (type, element) => {
    const [sample] = await samplesFor(
      modelOf(value('IN', type, ['N', 2])),
      settingsOf({ data: [{ IN: [0, element] }] }),
    )
    expect(tensor(sample!, 'IN').dims).toEqual([1, 2])
  })

  it('are also arrays within arrays without end', async () => {
    const deep = `{"data":[{"IN":${'['.repeat(100_000)}${']'.repeat(100_000)}}]}`
    await expect(
      samplesFor(fp32, { inputData: [join(temporaryFolder({ 'deep.json': deep }), 'deep.json')] }),
    ).rejects.toMatchObject({ code: 'ERR_INVALID_ARG' })
  })
})

describe('an input that may be left out', () => {
  it('is given by all rows of a request or by none', async () => {
    const model = modelOf(value('IN', 'float32', ['N', 2]), value('MORE', 'float32', ['N', 1]))
    const settings = {
      ...settingsOf({ data: [{ IN: [1, 2], MORE: [7] }, { IN: [3, 4] }] }),
      optionalInputs: ['MORE'],
    }
    const [one, two] = await samplesFor(model, settings, 2)
    expect([Object.keys(one!.feeds), Object.keys(two!.feeds)]).toEqual([['IN', 'MORE'], ['IN']])
    await expect(samplesFor(model, { ...settings, batchSize: 2 })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining("'MORE': expected each of the 2 entries"),
    })
  })
})

describe('sequences', () => {
  const sequences = { length: 4, variation: 0, firstId: 5, lastId: 6 }
  const told = ({ options }: Sample) => [options!.sequenceId, options!.sequenceStart, options!.sequenceEnd]

  it('are one for each caller, with ids in turn, which begin again after the last', async () => {
    const source = await sampleSource(fp32, { ...inputDefaults, sequences })
    expect(Array.from({ length: 4 }, () => told(source.next(0)))).toEqual([
      [5, true, false],
      [5, false, false],
      [5, false, false],
      [5, false, true],
    ])
    expect([told(source.next(1)), told(source.next(0)), source.sequenceCount]).toEqual([
      [6, true, false],
      [5, true, false],
      3,
    ])
  })

  it('never have the id of another that is under way, however few ids there are', async () => {
    const source = await sampleSource(fp32, {
      ...inputDefaults,
      sequences: { length: 5, variation: 1, firstId: 1, lastId: 4 },
    })
    const underWay = new Map<number, number>()
    for (let index = 0; index < 2000; index++) {
      const caller = (index * 7) % 3
      const [id, start, end] = told(source.next(caller)) as [number, boolean, boolean]
      if (start) expect(underWay.has(id)).toBe(false)
      else expect(underWay.get(id)).toBe(caller)
      underWay.set(id, caller)
      if (end) underWay.delete(id)
    }
  })

  it('have the lengths of those in a file, and their data in its order', async () => {
    const data = [[{ IN: [1, 1] }, { IN: [2, 2] }], [{ IN: [3, 3] }]]
    const source = await sampleSource(fp32, { ...inputDefaults, ...settingsOf({ data }), sequences })
    const samples = Array.from({ length: 4 }, () => source.next(0))
    expect(
      samples.map((sample) => [(tensor(sample, 'IN').data as Float32Array)[0], ...told(sample).slice(1)]),
    ).toEqual([
      [1, true, false],
      [2, false, true],
      [3, true, true],
      [1, true, false],
    ])
  })

  it('vary in length by as much as is said', async () => {
    const source = await sampleSource(fp32, {
      ...inputDefaults,
      sequences: { ...sequences, length: 10, variation: 0.5 },
    })
    const lengths: number[] = []
    for (let count = 1; lengths.length < 200; count++) {
      if (source.next(0).options!.sequenceEnd !== true) continue
      lengths.push(count)
      count = 0
    }
    expect([Math.min(...lengths), Math.max(...lengths)]).toEqual([5, 15])
  })

  it('that are under way can be ended, and one that failed is begun anew', async () => {
    const source = await sampleSource(fp32, { ...inputDefaults, sequences })
    source.next(0)
    source.next(1)
    source.failed!(1)
    expect(source.endings!().map(told)).toEqual([[5, undefined, true]])
    expect(source.endings!()).toEqual([])
    expect(told(source.next(1))).toEqual([5, true, false])
  })
})
