import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import { Tensor, type EngineOptions, type InferenceEngine } from '../../src/index.ts'
import { graph } from '../models/builder.ts'
import { modelPath } from '../models/cache.ts'
import { identity } from '../models/identity.ts'
import { mulberry32 } from '../models/random.ts'
import { executorKinds } from '../support/executors.ts'
import { repetitions } from '../support/full.ts'
import { ownEngine } from '../support/open.ts'
import { inParallel } from '../support/shared.ts'
import { step } from './arithmetic.ts'

const elements = 16_384 // 64 KiB a row: enough to be written where it will be run

/** y = x for rows whose first element is less than 10; any other fails the run. */
const picky = () =>
  modelPath(`picky-${elements}`, () =>
    graph('picky')
      .input('x', 'float32', ['N', elements])
      .output('y', 'float32', ['N', elements])
      .initializer('from', 'int64', [1], [0]).initializer('to', 'int64', [1], [1]).initializer('axis', 'int64', [1], [1])
      .initializer('table', 'float32', [10], Array.from({ length: 10 }, () => 0))
      .node('Slice', ['x', 'from', 'to', 'axis'], ['first'])
      .node('Cast', ['first'], ['index'], { to: 7 })
      .node('Gather', ['table', 'index'], ['zero'])
      .node('Add', ['x', 'zero'], ['y'])
      .build()) // prettier-ignore

const loadPicky = (engine: InferenceEngine) =>
  engine.load('picky', { path: picky(), maxBatchSize: 8, dynamicBatching: {} })

/** Three models one behind the other, the second of which fails for some rows. */
async function setUp(options: EngineOptions = {}) {
  const engine = ownEngine({ executor: 'native', ...options })
  const same = await engine.load('same', { path: identity('float32', [elements]), maxBatchSize: 8 })
  await loadPicky(engine)
  const model = await engine.loadPipeline('p', {
    inputs: ['x'],
    steps: [step('same', 'x', 'a'), step('picky', 'a', 'b'), { ...step('same', 'b', 'y'), name: 'last' }],
    outputs: ['y'],
  })
  /** What a request of rows full of a number comes to: `right` where every element of its answer is that. */
  const ask = async (value: number, rows = 1, first = 0, limits = {}): Promise<string> => {
    const data = new Float32Array(rows * elements).fill(value)
    for (let row = 0; row < rows; row++) data[row * elements] = first
    const expected = data.slice()
    try {
      const { y } = await model.infer({ x: new Tensor('float32', data, [rows, elements]) }, limits)
      const { buffer, byteOffset, byteLength } = y.data as Float32Array<ArrayBuffer>
      return Buffer.from(buffer, byteOffset, byteLength).equals(Buffer.from(expected.buffer))
        ? 'right'
        : 'wrong'
    } catch (error) {
      const { code, step: at } = error as { code?: string; step?: string }
      return code === undefined ? String(error) : `${code} ${at ?? ''}`.trim()
    }
  }
  const inPlace = () => engine.model('picky').stats().leases.rowsInPlace + same.stats().leases.rowsInPlace
  return { engine, model, ask, inPlace }
}

const numbers = (count: number) => Array.from({ length: count }, (_, number) => number + 1)

describe.skipIf(!executorKinds.includes('native' as never))(
  'what a step makes for the one step that takes it',
  () => {
    it('is written where that will be run, and every caller gets its own', async () => {
      const { engine, ask, inPlace } = await setUp()
      const count = repetitions(400, 200)
      const ends = await inParallel(24, numbers(count), (value) => ask(value, 1 + (value % 3)))
      expect([...new Set(ends)]).toEqual(['right'])
      expect(inPlace()).toBeGreaterThan(count)
      expect(engine.model('picky').stats().leases).toMatchObject({ taken: 0, held: 0 })
    })

    it('is there to be run again where others of the batch fail it', async () => {
      const { engine, ask, inPlace } = await setUp()
      const ends = await inParallel(24, numbers(200), (value) => ask(value, 1, value % 9 === 0 ? 99 : 0))
      for (const [index, value] of numbers(200).entries())
        expect([value, ends[index]]).toEqual([value, value % 9 === 0 ? 'ERR_EXECUTION picky' : 'right'])
      expect(engine.model('picky').stats().rerunCount).toBeGreaterThan(0)
      expect(inPlace()).toBeGreaterThan(0)
    })

    it("is nobody else's when requests are cancelled, late or failed at random, and leaves nothing", async () => {
      const { engine, model, ask, inPlace } = await setUp()
      const random = mulberry32(3)
      await inParallel(24, numbers(100), (value) => ask(value))
      const ends = await inParallel(24, numbers(repetitions(3000, 300)), async (value) => {
        const controller = new AbortController()
        const how = random()
        if (how < 0.3) setTimeout(() => controller.abort('aborted'), 4 * random())
        else if (how < 0.4) setImmediate(() => controller.abort('aborted'))
        return ask(
          value,
          1 + Math.floor(3 * random()),
          random() < 0.02 ? 99 : 0,
          how < 0.4 ? { signal: controller.signal } : how < 0.6 ? { deadlineMs: 0.1 + 6 * random() } : {},
        )
      })
      const kinds = new Set(ends.map((end) => end.replace(/^ERR_DEADLINE.*/, 'late')))
      expect([...kinds].sort()).toEqual(['ERR_EXECUTION picky', 'aborted', 'late', 'right'])
      expect(inPlace()).toBeGreaterThan(0)
      expect(model.capacity()).toMatchObject({ waiting: 0, running: 0 })
      await model.unload()
      for (const name of ['same', 'picky']) await engine.unload(name)
      expect(engine.stats().staging!.usedBytes).toBe(0)
    }, 30_000)

    it('is right when the model that it was written for is replaced meanwhile', async () => {
      const { engine, ask, inPlace } = await setUp()
      let asked = 0
      let replaced = 0
      const replacing = (async () => {
        for (; asked < 300; replaced++) {
          await loadPicky(engine)
          await nextTurn()
        }
      })()
      const ends = await inParallel(24, numbers(300), (value) => (asked++, ask(value)))
      await replacing
      expect([...new Set(ends)]).toEqual(['right'])
      expect(replaced).toBeGreaterThan(0)
      expect(inPlace()).toBeGreaterThan(0)
    })

    it('ends with the engine', async () => {
      const { engine, ask } = await setUp()
      const ends = numbers(40).map((value) => ask(value))
      await nextTurn()
      await engine.destroy()
      for (const end of await Promise.all(ends)) expect(end).toMatch(/^(right|ERR_CLOSED.*)$/)
      expect(engine.stats().staging?.usedBytes ?? 0).toBe(0)
    })

    it('is copied where staging memory is short, without a word', async () => {
      const warn = vi.spyOn(process, 'emitWarning')
      const { ask, inPlace } = await setUp({ staging: { limitBytes: 8 * 2 ** 20 } })
      expect([...new Set(await inParallel(24, numbers(100), (value) => ask(value)))]).toEqual(['right'])
      expect(inPlace()).toBe(0)
      expect(warn.mock.calls.filter(([text]) => String(text).includes('staging'))).toEqual([])
    })
  },
)
