import { describe, expect, it } from 'vitest'
import { derivedCases } from './derived-cases.ts'
import { proofOf } from './proof.ts'
import { truthOf } from './truth.ts'

/** What is proved may become more. */
const leastProved = 2500

describe('cases derived from the operator cases', () => {
  const cases = derivedCases()

  it('are proved only where joining changes nothing', async () => {
    const refuted: string[] = []
    let proved = 0
    for (const { text, graph } of cases) {
      for (const { name } of graph.outputs) {
        for (const known of ['all', 'none'] as const) {
          const first = proofOf({ ...graph, outputs: [{ name, batchAxis: 0 }] }, known)
          const batchAxis = Number(/has its rows along dimension (\d)/.exec(first.reason)?.[1] ?? 0)
          const outputs = [{ name, batchAxis }]
          if (first.verdict !== 'proved' && (batchAxis === 0 || proofOf({ ...graph, outputs }, known).verdict !== 'proved')) continue
          proved++
          const { answer, where } = await truthOf({ ...graph, outputs })
          if (answer === 'differs') refuted.push(`${text}\n-> ${name} ${batchAxis}: ${where}`)
        }
      }
    }
    expect(refuted).toEqual([])
    expect(proved).toBeGreaterThanOrEqual(leastProved)
  })

  it('are many', () => {
    expect(cases.length).toBeGreaterThan(10_000)
  })
})
