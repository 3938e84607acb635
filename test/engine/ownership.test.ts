import { describe, expect, it } from 'vitest'
import type { Model } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { largestBatch } from '../support/against-plain.ts'
import { load, sharedEngine } from '../support/open.ts'
import { feedsOf, runPlain, type Samples } from '../support/plain.ts'
import { expectSame } from '../support/same.ts'
import { noise } from '../support/samples.ts'

const engine = sharedEngine()

const big = 100_000
const cases: [string, () => string, () => Samples][] = [
  [
    'that lie in staging memory',
    () => small.addSub('float32'),
    () => ({ a: noise([1, 16]), b: noise([1, 16]) }),
  ],
  ['of several rows', () => small.identity('float32'), () => ({ x: noise([3, 4]) })],
  ['of an unbatched model', () => small.identityUnbatched('float32', [2, 4]), () => ({ x: noise([2, 4]) })],
  ['of unknown size', () => small.nonZero(), () => ({ x: noise([2, 4]) })],
  ['that share a batch and come by message', () => small.lyingShape(), () => ({ x: noise([2, 4]) })],
  ['of many elements', () => small.bigRow(big), () => ({ x: noise([1, big]) })],
]

/** Answers to five requests at once, and what each should be. */
async function burst(model: Model, make: () => Samples) {
  const samples = Array.from({ length: 5 }, make)
  const feeds = samples.map(feedsOf)
  const answers = await Promise.all(feeds.map((request) => model.infer(request)))
  return {
    samples,
    feeds,
    answers,
    expected: await Promise.all(samples.map((request) => runPlain(model.metadata.path, request))),
  }
}

describe.each(cases)('results %s', (_, path, make) => {
  it('can be overwritten without a trace in other results or later ones', async () => {
    const model = await load(engine, path())
    const { answers, expected } = await burst(model, make)
    for (const { data } of Object.values(answers[1]!))
      (data as Float32Array).fill(data.constructor === BigInt64Array ? (99n as never) : 99)
    for (const index of [0, 2, 3, 4]) expectSame(answers[index]!, expected[index]!)
    const later = await burst(model, make)
    for (const [index, answer] of later.answers.entries()) expectSame(answer, later.expected[index]!)
  })

  it('can be transferred to another thread without a trace in other results or later ones', async () => {
    const model = await load(engine, path())
    const { answers, expected } = await burst(model, make)
    for (const { data } of Object.values(answers[2]!)) {
      structuredClone(data, { transfer: [(data as Float32Array).buffer as ArrayBuffer] })
      expect((data as Float32Array).byteLength).toBe(0)
    }
    for (const index of [0, 1, 3, 4]) expectSame(answers[index]!, expected[index]!)
    const later = await burst(model, make)
    for (const [index, answer] of later.answers.entries()) expectSame(answer, later.expected[index]!)
  })

  it('stay as they are while later requests run, and leave the feeds as they were', async () => {
    const model = await load(engine, path())
    const first = await burst(model, make)
    for (let round = 0; round < 5; round++) await burst(model, make)
    for (const [index, answer] of first.answers.entries()) expectSame(answer, first.expected[index]!)
    for (const [index, request] of first.feeds.entries()) expectSame(request, feedsOf(first.samples[index]!))
  })
})

describe('feeds', () => {
  it('may be one tensor for many requests at once', async () => {
    const model = await load(engine, small.identity('float32'))
    const feeds = feedsOf({ x: noise([1, 4]) })
    const answers = await Promise.all(Array.from({ length: 16 }, () => model.infer(feeds)))
    for (const { y } of answers) expectSame({ x: y! }, feeds)
    expect(largestBatch(model)).toBe(16)
  })

  it('may be the result of the request before', async () => {
    const model = await load(engine, small.matmulSlow(4, 1))
    let x = feedsOf({ x: noise([1, 4]) })['x']!
    const before = x
    for (let step = 0; step < 4; step++) x = (await model.infer({ x }))['y']!
    expectSame({ x }, { x: before })
  })
})
