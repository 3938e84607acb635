import { describe, expect, it } from 'vitest'
import { ownEngine } from '../support/open.ts'
import { loadFunction } from './load-function.ts'

const declared = { inputs: [{ name: 'x', type: 'int32' }], outputs: [{ name: 'y', type: 'int32' }] } as const
const bare = Object.create(null) as object

describe('what a function throws', () => {
  it.each([
    ['an object without a prototype', () => bare, 'an instance of Object'],
    ['a symbol', () => Symbol('why'), 'Symbol(why)'],
    ['undefined', () => undefined, 'undefined'],
    ['text', () => 'no such word', 'no such word'],
    ['a reason of an abort', () => AbortSignal.abort().reason as unknown, 'This operation was aborted'],
    ['an error without a message', () => new RangeError(''), 'RangeError'],
    ['an error whose message throws', () => Object.defineProperty(new Error('x'), 'message', { get: () => { throw new Error('no') } }), 'an instance of Error'], // prettier-ignore
  ])('rejects its callers, whatever it is: %s', async (_, thrown, message) => {
    const run = () => { throw thrown() } // prettier-ignore
    const engine = ownEngine()
    const here = await engine.loadFunction('here', { run, ...declared })
    await expect(here.infer({ x: Int32Array.of(1) })).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      message: expect.stringContaining(message),
    })
    const refusing = await engine.loadFunction('refusing', {
      run: (_, { fail }) => ({ y: [fail(0, thrown())] }),
      ...declared,
    })
    await expect(refusing.infer({ x: Int32Array.of(1) })).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      message: expect.stringContaining(message),
    })
  })

  it('is told with its file and line where it is an error of the language', async () => {
    const model = await loadFunction(ownEngine(), 'mistaken.mjs', declared)
    await expect(model.infer({ x: Int32Array.of(1) })).rejects.toMatchObject({
      message: expect.stringMatching(/\(reading 'length'\) \(mistaken\.mjs:4\)\.$/),
    })
    await expect(model.infer({ x: Int32Array.of(2) })).rejects.toMatchObject({
      message: expect.stringMatching(/of a batch that has 1 \(mistaken\.mjs:5\)\.$/),
    })
    await expect(model.infer({ x: Int32Array.of(3) })).rejects.toMatchObject({
      message: expect.stringMatching(/: the third\.$/),
    })
  })
})
