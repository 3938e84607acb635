import { readFileSync, readdirSync } from 'node:fs'
import sharp from 'sharp'
import { describe, expect, it } from 'vitest'
import { Tensor } from '../../src/index.ts'
import { largestBatch } from '../support/against-plain.ts'
import { ownEngine, sharedEngine } from '../support/open.ts'
import { inParallel } from '../support/shared.ts'
import { loadFunction } from './load-function.ts'

const engine = sharedEngine()
const callers = 64
const stripsTypes = (process.features as { typescript?: unknown }).typescript === 'strip'

const vocabulary = ['the', 'quick', 'brown', 'fox', 'jumps', 'over', 'a', 'lazy', 'dog']
const tokenizer = {
  inputs: [{ name: 'text', type: 'string' }],
  outputs: [{ name: 'ids', type: 'int64', dims: [-1] }],
  parameters: { vocabulary },
} as const

describe('a function as a model', () => {
  it('gives each of 64 callers the tokens of its own text, as the plain call does', async () => {
    const model = await loadFunction(engine, '../../../examples/functions/tokenizer.js', tokenizer)
    const texts = Array.from({ length: 500 }, (_, index) =>
      Array.from({ length: 1 + (index % 9) }, (_, at) => vocabulary[(index * 7 + at) % 11] ?? 'cat').join(
        ' ',
      ),
    )
    const answers = await inParallel(callers, texts, (text) => model.infer({ text: [text] }))
    for (const [index, { ids }] of answers.entries()) {
      const words = texts[index]!.split(' ')
      expect(ids).toMatchObject({ type: 'int64', dims: [1, words.length] })
      expect([...ids.data]).toEqual(words.map((word) => BigInt(vocabulary.indexOf(word) + 1)))
    }
    const { inferenceCount, executionCount, inferenceStats } = model.stats()
    expect([inferenceCount, inferenceStats.success.count, inferenceStats.fail.count]).toEqual([500, 500, 0])
    expect(executionCount).toBeLessThan(250)
    expect(largestBatch(model)).toBeGreaterThan(8)
  })

  it('decodes image files of any size in batches, as sharp does by itself', async () => {
    const model = await loadFunction(engine, 'decoder.mjs', {
      inputs: [{ name: 'image', type: 'uint8', dims: [-1] }],
      outputs: [{ name: 'pixels', type: 'uint8', dims: [8, 8, 3] }],
    })
    const folder = new URL('../../examples/digits/images/', import.meta.url)
    const files = readdirSync(folder)
      .slice(0, 128)
      .map((name) => readFileSync(new URL(name, folder)))
    expect(new Set(files.map(({ length }) => length)).size).toBeGreaterThan(10)
    const answers = await inParallel(callers, files, (image) => model.infer({ image }))
    for (const [index, { pixels }] of answers.entries()) {
      expect(pixels.dims).toEqual([1, 8, 8, 3])
      const plain = await sharp(files[index])
        .resize(8, 8, { fit: 'fill' })
        .removeAlpha()
        .toColourspace('srgb')
        .raw()
        .toBuffer()
      expect(Buffer.compare(Buffer.from(pixels.data), plain)).toBe(0)
    }
    expect(largestBatch(model)).toBeGreaterThan(8)
  })

  it('has a state of its own in each instance', async () => {
    const model = await loadFunction(engine, 'postprocessor.mjs', {
      inputs: [{ name: 'logits', type: 'float32', dims: ['classes'] }],
      outputs: [
        { name: 'probabilities', type: 'float32', dims: ['classes'] },
        { name: 'seen', type: 'int32' },
      ],
      instanceGroup: [{ count: 2 }],
    })
    const seen = new Map<string, number>()
    const answers = await inParallel(callers, [...Array(300).keys()], async (index) => {
      const logits = new Tensor(
        'float32',
        Float32Array.from({ length: 2 + (index % 3) }, (_, at) => Math.sin(index + at)),
        [1, 2 + (index % 3)],
      )
      const { outputs, report } = await model.infer({ logits }, { report: true })
      const powers = Array.from(logits.data, Math.exp)
      const sum = powers.reduce((total, value) => total + value, 0)
      expect(outputs.probabilities.dims).toEqual(logits.dims)
      for (const [at, value] of outputs.probabilities.data.entries())
        expect(value).toBeCloseTo(powers[at]! / sum, 5)
      seen.set(report.instance, Math.max(seen.get(report.instance) ?? 0, outputs.seen.data[0]!))
      return report.instance
    })
    expect([...seen.keys()].sort()).toEqual([`${model.name}_0`, `${model.name}_1`])
    for (const [instance, count] of seen)
      expect(count).toBe(answers.filter((name) => name === instance).length)
  })

  it('may give any array of strings: they are copied', async () => {
    const model = await loadFunction(ownEngine(), 'strange-strings.mjs', {
      inputs: [{ name: 'x', type: 'int32' }],
      outputs: [{ name: 'y', type: 'string' }],
      maxBatchSize: 4,
    })
    for (const x of [0, 1, 2]) expect((await model.infer({ x: Int32Array.of(x) })).y.data).toEqual([`s${x}`])
    expect(model.stats()).toMatchObject({ rejections: { crashed: 0 }, rerunCount: 0 })
  })

  it('takes requests of several rows, and divides each output among them', async () => {
    const model = await loadFunction(engine, 'identity.mjs', {
      inputs: [
        { name: 'x', type: 'float32', dims: [2] },
        { name: 'name', type: 'string', dims: [-1], optional: true },
      ],
      outputs: [{ name: 'x', type: 'float32', dims: [2] }],
    })
    const rows = [1, 3, 2, 5].map(
      (count, request) =>
        new Tensor(
          'float32',
          Float32Array.from({ length: 2 * count }, (_, at) => 100 * request + at),
          [count, 2],
        ),
    )
    const answers = await Promise.all(rows.map((x) => model.infer({ x })))
    for (const [index, { x }] of answers.entries())
      expect([x.dims, [...x.data]]).toEqual([rows[index]!.dims, [...rows[index]!.data]])
    expect(model.stats().executionCount).toBe(1)
  })

  it('gets each request as it is with maxBatchSize 0', async () => {
    const model = await loadFunction(engine, 'identity.mjs', {
      inputs: [{ name: 'x', type: 'int32', dims: [-1, 2] }],
      outputs: [{ name: 'x', type: 'int32', dims: [-1, 2] }],
      maxBatchSize: 0,
    })
    const x = new Tensor('int32', Int32Array.of(1, 2, 3, 4, 5, 6), [3, 2])
    expect((await model.infer({ x })).x).toMatchObject({ dims: [3, 2], data: x.data })
    expect(model.metadata).toMatchObject({
      maxBatchSize: 0,
      inputs: [{ name: 'x', type: 'int32', shape: ['', 2] }],
    })
  })

  it('is replaced, scaled and unloaded as any model, with a thread for each instance', async () => {
    const own = ownEngine()
    const events: string[] = []
    own.on('worker', ({ type, worker }) => events.push(`${worker} ${type}`))
    const declared = {
      inputs: [{ name: 'x', type: 'int32' }],
      outputs: [{ name: 'x', type: 'int32' }],
    } as const
    const model = await loadFunction(own, 'identity.mjs', declared)
    await model.scale({ count: 3 })
    expect(model.capacity().instances).toBe(3)
    expect(events).toHaveLength(3)
    await own.loadFunction(model.name, {
      module: new URL('./fixtures/doubled.mjs', import.meta.url),
      ...declared,
    })
    expect((await model.infer({ x: Int32Array.of(21) })).x.data).toEqual(Int32Array.of(42))
    await model.unload()
    expect(own.stats().functionStaging?.usedBytes).toBe(0)
  })

  it.skipIf(!stripsTypes)('may be TypeScript where Node strips types', async () => {
    const model = await loadFunction(engine, 'typed.ts', {
      inputs: [{ name: 'x', type: 'float32', dims: [2] }],
      outputs: [{ name: 'sum', type: 'float32' }],
    })
    expect((await model.infer({ x: Float32Array.of(1, 2) })).sum.data).toEqual(Float32Array.of(3))
  })

  it('has labels that classification() gives', async () => {
    const model = await loadFunction(engine, 'identity.mjs', {
      inputs: [{ name: 'x', type: 'float32', dims: [3] }],
      outputs: [{ name: 'x', type: 'float32', dims: [3], labels: ['cat', 'dog', 'fox'] }],
    })
    expect(model.classification(await model.infer({ x: Float32Array.of(1, 3, 2) }), 2)).toEqual([
      [
        { index: 1, value: 3, label: 'dog' },
        { index: 2, value: 2, label: 'fox' },
      ],
    ])
  })
})
