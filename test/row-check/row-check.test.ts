import { describe, expect, it } from 'vitest'
import { dependentRows } from '../models/dependent-rows.ts'
import { independentRows } from '../models/independent-rows.ts'
import * as models from '../models/networks.ts'
import { largestBatch, matchesPlain } from '../support/against-plain.ts'
import { load, sharedEngine } from '../support/open.ts'
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
  const finite = tensors.every(({ type, data }) => type === 'float32' && (data as Float32Array).every(Number.isFinite))
  if (finite) expectClose(received, expected)
  else expectSame(received, expected)
}
const rows = [1, 3, 1, 2, 1, 4, 1]

describe('rows that depend on each other are found, and requests run alone', () => {
  it.each(dependentRows().map((graph) => [graph.name, graph] as const))('%s', async (_, graph) => {
    const model = await load(engine, graph.path, together(rows.length))
    expect(model.metadata.joining).toMatchObject({ rows: 'dependent', reason: expect.stringMatching(/./) })
    expect(model.metadata.maxBatchSize).toBe(0)
    const requests = requestsOf(graph, rows)
    if (graph.repeatable) await matchesPlain(model, requests)
    expect(largestBatch(model)).toBe(graph.repeatable ? 1 : 0)
  })
})

describe('rows that do not depend on each other are found, and requests are joined', () => {
  it.each(independentRows().map((graph) => [graph.name, graph] as const))('%s', async (_, graph) => {
    const model = await load(engine, graph.path, together(rows.length))
    expect(model.metadata).toMatchObject({ maxBatchSize: 32, joining: { rows: 'independent', largestDifference: expect.any(Number) } })
    expect(model.metadata.joining.largestDifference).toBeLessThan(1e-3)
    await matchesPlain(model, requestsOf(graph, rows), { same: sameRows })
    expect(largestBatch(model)).toBe(13)
  })

  it('a perceptron', async () => {
    const model = await load(engine, models.mlp(), together(3))
    expect(model.metadata.joining.rows).toBe('independent')
    await matchesPlain(model, [1, 2, 1].map((count) => ({ input: noise([count, 64]) })), { same: sameRows })
    expect(largestBatch(model)).toBe(4)
  })

  it.skipIf(!hasShared)(`SqueezeNet${missingShared}`, async () => {
    const model = await load(engine, sharedPath('models/squeezenet/model.onnx'), together(3))
    expect(model.metadata.joining.rows).toBe('independent')
    const [input] = model.metadata.inputs
    await matchesPlain(model, [1, 2, 1].map((count) => ({ [input!.name]: noise([count, 3, 224, 224]) })), { same: sameRows })
    expect(largestBatch(model)).toBe(4)
  })
})
