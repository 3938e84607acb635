import { describe, expect, it } from 'vitest'
import type { PipelineStep } from '../../src/index.ts'
import { ownEngine } from '../support/open.ts'
import { errorOf } from '../triton-repository/temporary.ts'
import { loadNumber, one, step } from './arithmetic.ts'

/** A pipeline of one step, which is run if `when` says so. */
async function loadWith(when: NonNullable<PipelineStep['when']>) {
  const engine = ownEngine()
  const twice = await loadNumber(engine, 'twice', (x) => 2 * x)
  const model = await engine.loadPipeline('strange', {
    inputs: ['x'],
    steps: [{ ...step('twice', 'x', 'y'), when }],
    outputs: ['y'],
  })
  return { engine, twice, model }
}

describe('a when', () => {
  it.each([true, false])(
    'that ends its own request, and gives %s, has nothing more begin for it',
    async (wanted) => {
      const controller = new AbortController()
      const { twice, model } = await loadWith(() => {
        controller.abort(new Error('no more'))
        return wanted
      })
      await expect(model.infer({ x: one(1) }, { signal: controller.signal })).rejects.toThrow('no more')
      expect(twice.stats().inferenceStats.success.count + twice.capacity().waiting).toBe(0)
      expect(model.stats().steps).toMatchObject([
        { success: { count: 0 }, fail: { count: 0 }, cancelledCount: 0, skippedCount: 0 },
      ])
    },
  )

  it('that is asynchronous and rejects fails its request, and nothing else is told of it', async () => {
    const unhandled: unknown[] = []
    const note = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', note)
    const { model } = await loadWith((async () => Promise.reject(new Error('later'))) as never)
    await expect(model.infer({ x: one(1) })).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      step: 'twice',
      message: expect.stringMatching(/its when has given a promise, where true or false was expected/),
    })
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', note)
    expect(unhandled).toEqual([])
  })

  it.each([
    [
      'whose message throws',
      Object.defineProperty(new Error('x'), 'message', {
        get: () => {
          throw new Error('again')
        },
      }),
    ],
    ['whose message is a symbol', Object.assign(new Error('x'), { message: Symbol('x') })],
    [
      'that is a proxy without a prototype to look at',
      new Proxy(
        {},
        {
          getPrototypeOf: () => {
            throw new Error('again')
          },
        },
      ),
    ],
  ])('that throws an error %s fails its request alone, with a typed error', async (_, thrown) => {
    const { model } = await loadWith(({ x }) => {
      if (x!.data[0] === 13) throw thrown
      return true
    })
    const [failed, ...others] = await Promise.all([
      errorOf(model.infer({ x: one(13) })),
      model.infer({ x: one(1) }),
      model.infer({ x: one(2) }),
    ])
    expect(failed).toMatchObject({
      code: 'ERR_EXECUTION',
      step: 'twice',
      argument: 'steps[0].when',
      message: expect.stringMatching(/its when has thrown: what cannot be read/),
    })
    expect(others).toMatchObject([{ y: { data: one(2) } }, { y: { data: one(4) } }])
  })
})
