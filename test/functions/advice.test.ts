import { describe, expect, it } from 'vitest'
import { Tensor } from '../../src/index.ts'
import { sharedEngine } from '../support/open.ts'
import { loadFunction } from './load-function.ts'

const engine = sharedEngine()
const declared = {
  inputs: [{ name: 'x', type: 'float32', dims: [2] }],
  outputs: [{ name: 'y', type: 'float32' }],
} as const
const row = Float32Array.of(1, 2)

describe('an error says what to do', () => {
  it.each([
    [() => new Float32Array(1), 'expected an object of outputs by name, received Float32Array(1)'],
    [() => [1], 'expected an object of outputs by name, received [1]'],
    [() => ({ z: [1], scores: [1] }), "output 'y': expected to be given, received 'z', 'scores'"],
    [() => ({}), "output 'y': expected to be given, received no output"],
  ])('when a function gives something else than its outputs (%#)', async (run, message) => {
    const model = await engine.loadFunction('giver', { run: run as never, ...declared })
    await expect(model.infer({ x: row })).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      message: `The request failed in model 'giver': ${message}.`,
    })
  })

  it('when several rows are given without dims, and as it says they are taken', async () => {
    const texts = await engine.loadFunction('texts', {
      run: ({ text }) => ({ n: text.data.map(({ length }) => length) }),
      inputs: [{ name: 'text', type: 'string' }],
      outputs: [{ name: 'n', type: 'int32' }],
    })
    const message =
      "input 'text' of model 'texts': expected 1 string for one row of shape [rows], received 2 (number). Several rows take a Tensor: new Tensor('string', data, [2])"
    await expect(texts.infer({ text: ['a', 'bc'] })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      message,
    })
    expect((await texts.infer({ text: new Tensor('string', ['a', 'bc'], [2]) })).n.data).toEqual(
      Int32Array.of(1, 2),
    )
    const pairs = await engine.loadFunction('pairs', {
      run: ({ x }) => ({ y: Array.from(x, ([first]) => first!) }),
      ...declared,
    })
    await expect(pairs.infer({ x: new Float32Array(6) })).rejects.toMatchObject({
      message: expect.stringMatching(
        /received 6 \(number\)\. Several rows take a Tensor: new Tensor\('float32', data, \[3, 2\]\)$/,
      ),
    })
    await expect(pairs.infer({ x: new Float32Array(3) })).rejects.toMatchObject({
      message: expect.stringMatching(/received 3 \(number\)$/),
    })
  })

  it('when an encoded image is given for pixels', async () => {
    const pixels = await engine.loadFunction('pixels', {
      run: () => ({ y: [1] }),
      inputs: [{ name: 'x', type: 'float32', dims: [3, 2, 2] }],
      outputs: declared.outputs,
    })
    await expect(pixels.infer({ x: Buffer.alloc(12) as never })).rejects.toMatchObject({
      message: expect.stringContaining(
        "received Buffer(12). An encoded image takes `image` for this input in the model's configuration",
      ),
    })
  })

  it.skipIf(process.features.typescript)(
    'when a module is in TypeScript and Node does not read that',
    async () => {
      const message = expect.stringMatching(
        /Unknown file extension "\.ts" for .*typed\.ts\. TypeScript is read from Node 22\.18 on, .*; else give the compiled module$/,
      )
      await expect(loadFunction(engine, 'typed.ts', declared)).rejects.toMatchObject({
        code: 'ERR_MODEL_LOAD',
        argument: 'module',
        message,
      })
    },
  )

  it.each([
    [{}, 'module', 'the path or file: URL of a module, or run: a function'],
    [{ run: () => ({}), outputs: [] }, 'outputs', 'at least one output'],
    [{ run: () => ({}), inputs: [{ name: '', type: 'float32' }] }, 'inputs[0].name', 'a name'],
  ])('when a declaration is not whole (%#)', async (config, argument, expected) => {
    await expect(engine.loadFunction('half', { ...declared, ...config } as never)).rejects.toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument,
      expected,
    })
  })
})
