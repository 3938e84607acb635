import { describe, expect, it } from 'vitest'
import { Tensor, type Feeds, type Model } from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import { named, outputNamedTwice } from '../models/small.ts'
import { largestBatch } from '../support/against-plain.ts'
import { load, sharedEngine } from '../support/open.ts'

const engine = sharedEngine()
const row = (value: number, rows = 1) =>
  new Tensor('float32', new Float32Array(4 * rows).fill(value), [rows, 4])
/** As JSON.parse makes it: a property of its own, whatever the name. */
const feedsOf = (name: string, value: unknown) => Object.fromEntries([[name, value]]) as Feeds

/** Three names that something in between could take for one of its own. */
const triples: [input: string, negative: string, same: string][] = [
  ['__proto__', 'constructor', 'toString'],
  ['toString', '__proto__', 'hasOwnProperty'],
  ['constructor', 'valueOf', '__proto__'],
  ['0', '1', '-1'],
  ['type', 'dims', 'data'],
  ['x', 'then', 'length'],
  [' ', 'ü', '\u{1f600}'],
]

describe.each(triples)(
  "a model whose input is named '%s' and whose outputs are '%s' and '%s'",
  (input, negative, same) => {
    const open = (config = {}) => load(engine, named(input, negative, same), config)
    const infer = (model: Model, value: number, rows = 1) => model.infer(feedsOf(input, row(value, rows)))

    it('answers each caller under these names', async () => {
      const model = await open()
      for (const count of [1, 4]) {
        const answers = await Promise.all(Array.from({ length: count }, (_, at) => infer(model, at + 1)))
        for (const [at, outputs] of answers.entries()) {
          expect(Object.keys(outputs).sort()).toEqual([negative, same].sort())
          expect(Object.getPrototypeOf(outputs)).toBe(Object.prototype)
          expect(outputs[negative]!.data).toEqual(new Float32Array(4).fill(-at - 1))
          expect(outputs[same]!.data).toEqual(new Float32Array(4).fill(at + 1))
        }
      }
      expect(largestBatch(model)).toBe(4)
    })

    it('gives one of them that is asked for', async () => {
      const outputs = await (await open()).infer(feedsOf(input, row(3)), { outputs: [negative] })
      expect(Object.entries(outputs).map(([name, { data }]) => [name, [...(data as Float32Array)]])).toEqual([
        [negative, [-3, -3, -3, -3]],
      ])
    })

    it('joins the parts of a request', async () => {
      const outputs = await infer(await open({ maxBatchSize: 2, splitOversized: true }), 5, 7)
      expect(Object.keys(outputs).sort()).toEqual([negative, same].sort())
      expect(outputs[negative]!.dims).toEqual([7, 4])
    })

    it('looks for NaN under every name', async () => {
      const model = await open({ rejectNonFinite: 'outputs' })
      expect(await rejectionOf(() => infer(model, NaN))).toMatchObject({ code: 'ERR_EXECUTION' })
      await infer(model, 1)
    })

    it('is warmed with a sample of that name', async () => {
      const model = await open({ warmup: [{ feeds: feedsOf(input, row(1)) }] })
      await infer(model, 1)
    })

    it('misses the input when it is not given, whatever every object has of that name', async () => {
      const model = await open()
      for (const feeds of [{}, Object.create(feedsOf(input, row(1)))]) {
        expectRefusal(await rejectionOf(() => model.infer(feeds)), {
          argument: `input '${input}'`,
          expected: /given/,
        })
      }
    })
  },
)

it("an input named like every object's method may be left out where it is optional", async () => {
  const model = await load(engine, named('toString', 'y', 'z'), { optionalInputs: ['toString'] })
  const refusal = { argument: 'feeds', expected: /at least one input/ }
  expectRefusal(await rejectionOf(() => model.infer({})), refusal)
})

it('a model with two outputs of one name is refused', async () => {
  const refusal = {
    code: 'ERR_MODEL_LOAD',
    argument: "output 'y'",
    expected: /a name of its own/,
    received: '2 outputs of that name',
  }
  expectRefusal(await rejectionOf(() => load(engine, outputNamedTwice())), refusal)
})
