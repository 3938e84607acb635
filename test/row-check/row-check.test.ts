import { describe, expect, it, vi } from 'vitest'
import type { Model, TensorMetadata } from '../../src/index.ts'
import { ask } from '../../src/models/row-check/joining-at-load.ts'
import { checkRows, type RowCheckSetup } from '../../src/models/row-check/row-check.ts'
import { resolveConfig } from '../../src/options/model-config.ts'
import type { TrialFeeds } from '../../src/models/row-check/trial-feeds.ts'
import { floatTolerance, Joining } from '../../src/schedule/joining.ts'
import { dependentRows, type RowGraph } from '../models/dependent-rows.ts'
import { independentRows } from '../models/independent-rows.ts'
import * as models from '../models/networks.ts'
import { largestBatch, matchesPlain } from '../support/against-plain.ts'
import { decided } from '../support/decided.ts'
import { load, sharedEngine } from '../support/open.ts'
import { ortForm } from '../support/ort-form.ts'
import { feedsOf, type Samples } from '../support/plain.ts'
import { requestsOf } from '../support/row-requests.ts'
import { expectClose, expectSame } from '../support/same.ts'
import { noise } from '../support/samples.ts'
import { hasShared, missingShared, sharedPath } from '../support/shared.ts'
import { full } from '../support/full.ts'

const engine = sharedEngine({ cpuWorkers: 1 })
/** Requests wait for each other, so that all that may be joined are. */
const together = (count: number) => ({ dynamicBatching: { holdUntilQueued: count } })
/** Kernels for more rows sum in another order; what is no float32, or not a number, has to be the same to the bit. */
const sameRows: typeof expectSame = (received, expected) => {
  const tensors = Object.values(expected)
  const finite = tensors.every(
    ({ type, data }) => type === 'float32' && (data as Float32Array).every(Number.isFinite),
  )
  if (finite) expectClose(received, expected)
  else expectSame(received, expected)
}
const rows = [1, 3, 1, 2, 1, 4, 1]

/** All graphs in `npm run test:full`, else every so many. */
const some = <T>(graphs: readonly T[], every: number) =>
  graphs.filter((_, index) => full || index % every === 0)

describe('rows that depend on each other are found, and requests run alone', () => {
  it.each(some(dependentRows(), 2).map((graph) => [graph.name, graph] as const))('%s', async (_, graph) => {
    const model = await load(engine, graph.path, together(rows.length))
    expect(await decided(model)).toMatchObject({ rows: 'dependent', reason: expect.stringMatching(/./) })
    await runsAlone(model, graph)
  })
})

describe('rows that depend on each other are found by running where there is no graph', () => {
  it.each(some(dependentRows(), 8).map((graph) => [graph.name, graph] as const))('%s', async (_, graph) => {
    const model = await load(engine, await ortForm(graph.path), together(rows.length))
    expect(await decided(model)).toMatchObject({ rows: 'dependent', reason: expect.stringMatching(/./) })
    await runsAlone(model, graph)
  })
})

async function runsAlone(model: Model, graph: RowGraph): Promise<void> {
  expect(model.metadata.maxBatchSize).toBe(0)
  const requests = requestsOf(graph, rows)
  if (graph.repeatable) await matchesPlain(model, requests)
  expect(largestBatch(model)).toBe(graph.repeatable ? 1 : 0)
}

describe('rows that do not depend on each other are found, and requests are joined', () => {
  it.each(some(independentRows(), 2).map((graph) => [graph.name, graph] as const))('%s', async (_, graph) => {
    const model = await load(engine, graph.path, together(rows.length))
    const { how, largestDifference } = await decided(model)
    expect(model.metadata).toMatchObject({ maxBatchSize: 32, joining: { rows: 'independent' } })
    if (how === 'checked') expect(largestDifference).toBeLessThan(1e-3)
    else expect({ how, largestDifference }).toEqual({ how: 'proved', largestDifference: null })
    await matchesPlain(model, requestsOf(graph, rows), { same: sameRows })
    expect(largestBatch(model)).toBe(13)
  })
})

describe('rows that do not depend on each other are found by running where there is no graph', () => {
  it.each(some(independentRows(), 8).map((graph) => [graph.name, graph] as const))('%s', async (_, graph) => {
    const model = await load(engine, await ortForm(graph.path))
    const isOpen = model.metadata.inputs.some(({ shape }) =>
      shape.slice(1).some((dim) => typeof dim === 'string'),
    )
    // What lengths they have only requests show, and what has other lengths than those that were made up is not joined before.
    if (isOpen) await alone(model, requestsOf(graph, [1, 1, 1]))
    expect(await decided(model)).toMatchObject({ rows: 'independent', how: 'checked' })
    expect(model.metadata.maxBatchSize).toBe(32)
    expect(model.metadata.joining.largestDifference).toBeLessThan(1e-3)
    await matchesPlain(model, requestsOf(graph, rows), { same: sameRows })
    expect(largestBatch(model)).toBeGreaterThan(1)
  })

  async function alone(model: Model, requests: readonly Samples[]): Promise<void> {
    const before = model.stats().executionCount
    for (const request of requests) await model.infer(feedsOf(request) as never)
    expect(model.stats().executionCount - before).toBe(requests.length)
  }
})

describe('networks', () => {
  it('a perceptron', async () => {
    const model = await load(engine, models.mlp(), together(3))
    expect((await decided(model)).rows).toBe('independent')
    await matchesPlain(
      model,
      [1, 2, 1].map((count) => ({ input: noise([count, 64]) })),
      { same: sameRows },
    )
    expect(largestBatch(model)).toBe(4)
  })

  it.skipIf(!hasShared)(`SqueezeNet${missingShared}`, async () => {
    const model = await load(engine, sharedPath('models/squeezenet/model.onnx'), together(3))
    expect((await decided(model)).rows).toBe('independent')
    const [input] = model.metadata.inputs
    await matchesPlain(
      model,
      [1, 2, 1].map((count) => ({ [input!.name]: noise([count, 3, 224, 224]) })),
      { same: sameRows },
    )
    expect(largestBatch(model)).toBe(4)
  })
})

const tensor = (name: string) => ({ name, type: 'float32', shape: ['N', 4] }) as const
const served = {
  inputs: [tensor('x')],
  outputs: [tensor('y')],
  unservableOutputs: [],
  executionProviders: [],
}

it.each([[{}], [{ maxBatchSize: 8 }]])(
  'what a run has shown of an output counts, whatever a check finds that is still under way (%j)',
  (config) => {
    vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const joining = new Joining('m', resolveConfig('m', { path: 'm.onnx', ...config }), served)
    joining.refuted('y')
    joining.found({ rows: 'independent', largestDifference: 0, reason: 'tried', runs: 1 })
    expect(joining.metadata.joining).toMatchObject({
      rows: 'dependent',
      reason: expect.stringMatching(
        /^output 'y' does not have one entry per row; .*docs\/guide\/detectors.md/,
      ),
    })
    vi.restoreAllMocks()
  },
)

it.each([
  ['kept', { rows: 'independent', node: null, reason: 'the graph shows it' }],
  ['kept', { rows: 'unknown', node: "Reshape 'r'", reason: 'a length is not known' }],
  ['asked for again', { rows: 'unknown', node: null, reason: 'its graph cannot be read: EMFILE' }],
] as const)('what the graph says is %s: %j', async (whether, proof) => {
  const notes = new Map<string, string>()
  const prove = vi.fn(async () => [proof])
  const session = {
    prove,
    note: (about: string) => notes.get(about) ?? '',
    setNote: (about: string, value: string) => void notes.set(about, value),
  }
  for (let load = 0; load < 2; load++) expect(await ask(session, [])).toEqual([proof])
  expect(prove).toHaveBeenCalledTimes(whether === 'kept' ? 1 : 2)
})

describe('row check cost', () => {
  const tensor = (name: string): TensorMetadata => ({ name, type: 'float32', shape: ['N', 4] })
  const metadata = { inputs: [tensor('x')], outputs: [tensor('y')] }
  const usual: RowCheckSetup = {
    maxBatchSize: 32,
    samples: [],
    padding: null,
    optionalInputs: [],
    tolerance: floatTolerance,
  }

  /** A model that gives what it is given, in `rowMs` a row; `first` as many times that for its first run. */
  function model(rowMs: number, first = 1) {
    const sizes: number[] = []
    let costMs = 0
    const run = async (feeds: TrialFeeds) => {
      const rows = feeds[0]!.dims[0]!
      const runMs = rows * rowMs * (sizes.length === 0 ? first : 1)
      sizes.push(rows)
      costMs += runMs
      return { error: null, runMs, outputs: [feeds[0]!] }
    }
    return { run, sizes, cost: () => costMs }
  }

  describe('the check of rows', () => {
    it.each([
      [12, [1, 2, 3, 4, 5, 6, 7, 8, 12, 18, 27, 32]],
      [200, [1, 2, 3, 4, 5]],
      [5000, [1, 2, 3]],
    ])(
      'of a model of %d ms a row joins no more rows than run for a second, and no more in all than a few batches have',
      async (rowMs, expected) => {
        const { run, sizes } = model(rowMs)
        expect((await checkRows(metadata, usual, run)).rows).toBe('independent')
        expect(new Set(sizes)).toEqual(new Set(expected))
        expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(300)
      },
    )

    it('of a model of short runs tries every size up to the largest batch', async () => {
      const { run, sizes, cost } = model(0.01)
      await checkRows(metadata, usual, run)
      expect(new Set(sizes)).toEqual(new Set(Array.from({ length: 32 }, (_, index) => index + 1)))
      expect(cost()).toBeLessThan(10)
    })

    it('tries no batch that is never run', async () => {
      const { run, sizes } = model(0.01)
      await checkRows(metadata, { ...usual, maxBatchSize: 4 }, run)
      expect(Math.max(...sizes)).toBe(4)
    })

    it('tries no more rows at once for a batch size without bounds', async () => {
      const { run, sizes } = model(0.001)
      await checkRows(metadata, { ...usual, maxBatchSize: 1e9 }, run)
      expect(Math.max(...sizes)).toBeLessThanOrEqual(256)
    })

    it('is not misled by runs that were held up', async () => {
      const { run, sizes } = model(0.01)
      const heldUp = async (feeds: TrialFeeds) => ({
        ...(await run(feeds)),
        ...(sizes.length % 3 === 0 ? { runMs: 1000 } : {}),
      })
      await checkRows(metadata, usual, heldUp)
      expect(new Set(sizes)).toEqual(new Set(Array.from({ length: 32 }, (_, index) => index + 1)))
    })

    it('begins with rows of extreme scales', async () => {
      const scales: number[][] = []
      const { run } = model(0.01)
      await checkRows(metadata, usual, async (feeds) => {
        const values = new Float32Array(feeds[0]!.data as ArrayBuffer)
        if (feeds[0]!.dims[0] === 8)
          scales.push(
            Array.from({ length: 8 }, (_, row) =>
              Math.max(...values.slice(4 * row, 4 * row + 4).map(Math.abs)),
            ),
          )
        return run(feeds)
      })
      expect(Math.max(...scales[0]!)).toBeGreaterThan(10_000)
      expect(Math.min(...scales[0]!.filter((scale) => scale > 0))).toBeLessThan(1e-3)
    })

    it('ends with the first difference', async () => {
      const { run, sizes } = model(0.01)
      const verdict = await checkRows(metadata, usual, async (feeds) => {
        const result = await run(feeds)
        return feeds[0]!.dims[0] === 5
          ? { ...result, outputs: [{ ...feeds[0]!, data: new ArrayBuffer(80) }] }
          : result
      })
      expect(verdict).toMatchObject({
        rows: 'dependent',
        largestDifference: expect.any(Number),
        reason: expect.stringContaining("output 'y'"),
      })
      expect(sizes.at(-1)).toBe(1) // the first of the five once more
      expect(sizes.filter((size) => size === 5)).toHaveLength(1)
    })

    it('says that nothing could be run', async () => {
      const run = async () => ({ error: 'no such row', runMs: 0.1, outputs: [] })
      expect(await checkRows(metadata, usual, run)).toMatchObject({
        rows: 'unknown',
        largestDifference: null,
        reason: 'the model does not run on generated rows',
      })
    })

    it('says that all rows gave the same', async () => {
      const run = async (feeds: TrialFeeds) => ({
        error: null,
        runMs: 0.1,
        outputs: [{ ...feeds[0]!, data: new ArrayBuffer(16 * feeds[0]!.dims[0]!) }],
      })
      expect(await checkRows(metadata, usual, run)).toMatchObject({
        rows: 'unknown',
        largestDifference: 0,
        reason: expect.stringContaining("output 'y' is the same"),
      })
    })

    it('takes the rows of samples where no others can be run', async () => {
      const { run } = model(0.01)
      const sample = (value: number): TrialFeeds => [
        { type: 'float32', dims: [1, 4], data: new Float32Array(4).fill(value).buffer },
      ]
      const samples = [sample(-7), sample(-9)]
      const picky = async (feeds: TrialFeeds) => {
        const fits = new Float32Array(feeds[0]!.data as ArrayBuffer).every(
          (value) => value === -7 || value === -9,
        )
        return fits ? run(feeds) : { error: 'neither -7 nor -9', runMs: 0.01, outputs: [] }
      }
      expect(await checkRows(metadata, { ...usual, samples }, picky)).toMatchObject({ rows: 'independent' })
      expect(await checkRows(metadata, { ...usual, samples: [sample(-7)] }, picky)).toMatchObject({
        rows: 'unknown',
      })
    })
  })
})
