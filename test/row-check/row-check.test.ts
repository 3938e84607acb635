import { describe, expect, it } from 'vitest'
import type { Model } from '../../src/index.ts'
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

describe('rows that depend on each other are found, and requests run alone', () => {
  it.each(dependentRows().map((graph) => [graph.name, graph] as const))('%s', async (_, graph) => {
    const model = await load(engine, graph.path, together(rows.length))
    expect(await decided(model)).toMatchObject({ rows: 'dependent', reason: expect.stringMatching(/./) })
    await runsAlone(model, graph)
  })
})

describe('rows that depend on each other are found by running where there is no graph', () => {
  it.each(dependentRows().map((graph) => [graph.name, graph] as const))('%s', async (_, graph) => {
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
  it.each(independentRows().map((graph) => [graph.name, graph] as const))('%s', async (_, graph) => {
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
  it.each(independentRows().map((graph) => [graph.name, graph] as const))('%s', async (_, graph) => {
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
