import { beforeAll, describe, expect, it } from 'vitest'
import { parseGraph } from './graph-text.ts'
import { proofOf } from './proof.ts'
import { GraphSource } from './random-graphs.ts'
import { refutes, truthOf } from './truth.ts'
import { repetitions } from '../support/full.ts'

/** `npx tsx test/row-proof/many-graphs.ts` tries as many as one likes. */
const graphs = repetitions(400, 60)
const firstSeed = 100_000

describe('random graphs', () => {
  let source: GraphSource
  beforeAll(async () => {
    source = await GraphSource.open()
  })

  it('that are proved give each row what it has alone', async () => {
    const refuted: string[] = []
    const verdicts = { independent: 0, dependent: 0, unknown: 0 }
    for (let seed = firstSeed; seed < firstSeed + graphs; seed++) {
      const graph = parseGraph(source.graph(seed))
      const { rows } = proofOf(graph)
      verdicts[rows]++
      if (rows !== 'independent' && proofOf(graph, 'none').rows !== 'independent') continue
      const truth = await truthOf(graph, seed)
      if (refutes(truth)) refuted.push(`seed ${seed}: ${truth.where}\n${source.graph(seed)}`)
    }
    expect(refuted).toEqual([])
    expect(verdicts.independent / graphs).toBeGreaterThan(0.4)
    expect(verdicts.dependent / graphs).toBeGreaterThan(0.1)
  })

  it('are the same for the same seed', () => {
    expect(source.graph(7)).toBe(source.graph(7))
    expect(source.graph(7)).not.toBe(source.graph(8))
  })
})
