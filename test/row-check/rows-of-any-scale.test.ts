import { describe, expect, it } from 'vitest'
import type { TensorData, TensorMetadata } from '../../src/index.ts'
import { floatTolerance } from '../../src/schedule/joining.ts'
import { checkRequests, checkRows, type RunTrial } from '../../src/models/row-check/row-check.ts'
import type { TrialFeeds } from '../../src/run/trial-feeds.ts'
import type { RowGraph } from '../models/dependent-rows.ts'
import { meetingByScale, meetingByScaleOfAnyLength } from '../models/meeting-by-scale.ts'
import { runPlain } from '../support/plain.ts'
import { noise } from '../support/samples.ts'

const setup = {
  maxBatchSize: 32,
  samples: [],
  padding: null,
  optional: new Set<number>(),
  tolerance: floatTolerance,
}

/** A graph of floats, run by ONNX Runtime itself. */
function plain(
  { path, inputs }: RowGraph,
  length: (name: string) => readonly (number | string)[],
): { metadata: { inputs: TensorMetadata[]; outputs: TensorMetadata[] }; run: RunTrial } {
  const names = Object.keys(inputs)
  const tensor = (name: string, row: readonly (number | string)[]): TensorMetadata => ({
    name,
    type: 'float32',
    shape: ['N', ...row],
  })
  const run = async (feeds: TrialFeeds) => {
    const samples = Object.fromEntries(
      names.map((name, at) => [
        name,
        {
          type: 'float32' as const,
          dims: feeds[at]!.dims,
          data: new Float32Array(feeds[at]!.data as ArrayBuffer),
        },
      ]),
    )
    const { y } = await runPlain(path, samples)
    return {
      error: null,
      runMs: 0,
      outputs: [
        {
          type: 'float32' as const,
          dims: y!.dims,
          data: (y!.data as TensorData).slice().buffer as ArrayBuffer,
        },
      ],
    }
  }
  return {
    metadata: { inputs: names.map((name) => tensor(name, length(name))), outputs: [tensor('y', [])] },
    run,
  }
}

describe('rows that meet only where their scales are far apart', () => {
  it.each(meetingByScale().map((graph) => [graph.name, graph] as const))(
    'are found among made-up rows: %s',
    async (_, graph) => {
      const { metadata, run } = plain(graph, (name) => graph.inputs[name]!.row)
      expect(await checkRows(metadata, setup, run)).toMatchObject({
        rows: 'dependent',
        reason: expect.stringContaining("output 'y'"),
      })
    },
  )

  it.each(meetingByScaleOfAnyLength().map((graph) => [graph.name, graph] as const))(
    'are found with requests of like scales: %s',
    async (_, graph) => {
      const { metadata, run } = plain(graph, () => ['T'])
      for (const scale of [1000, 0.3]) {
        const requests = [1, 0.9, 1.1].map((each): TrialFeeds => {
          const { data } = noise([1, 50])
          return [
            {
              type: 'float32',
              dims: [1, 50],
              data: (data as Float32Array).map((value) => value * each * scale).buffer as ArrayBuffer,
            },
          ]
        })
        expect(await checkRequests(metadata, requests, 32, floatTolerance, run)).toMatchObject({
          rows: 'dependent',
        })
      }
    },
  )

  it('are none where an answer moves with the size of the batch alone, as where sums lose digits', async () => {
    const metadata = {
      inputs: [{ name: 'x', type: 'float32', shape: ['N', 4] }],
      outputs: [{ name: 'y', type: 'float32', shape: ['N', 4] }],
    } as const
    const chaotic =
      (reach: number): RunTrial =>
      async (feeds) => {
        const { dims, data, type } = feeds[0]!
        const values = new Float32Array(data as ArrayBuffer).slice()
        const isLarge = (row: number) =>
          values
            .subarray(4 * row, 4 * row + 4)
            .some((value) => Math.abs(value) > 10_000 && Math.abs(value) < 100_000)
        for (let row = 0; row < dims[0]!; row++)
          if (isLarge(row))
            values[4 * row]! *=
              1 +
              0.01 * dims[0]! +
              reach * new Float32Array(data as ArrayBuffer)[(4 * row + 4) % values.length]!
        return { error: null, runMs: 0, outputs: [{ type, dims, data: values.buffer }] }
      }
    expect(await checkRows(metadata, setup, chaotic(0))).toMatchObject({ rows: 'independent' })
    expect(await checkRows(metadata, setup, chaotic(1e-6))).toMatchObject({ rows: 'dependent' })
  })
})
