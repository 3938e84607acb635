// Full: it runs thousands of graphs.
import { describe, expect, it } from 'vitest'
import { derivedCases } from './derived-cases.ts'
import type { GraphText } from './graph-text.ts'
import { proofOf, type KnownDims } from './proof.ts'
import { isOfFailure, truthOf } from './truth.ts'

/** What is proved may become more. */
const leastProved = 3277

describe('cases derived from the operator cases', () => {
  const cases = derivedCases()

  it('are proved only where joining changes nothing', async () => {
    const wrong: string[] = []
    let proved = 0
    for (const { text, graph } of cases) {
      for (const { name } of graph.outputs) {
        const axes = (['all', 'none'] as const)
          .map((known) => provedAxis(graph, name, known))
          .filter((axis) => axis !== null)
        proved += axes.length
        for (const batchAxis of new Set(axes)) {
          const truth = await truthOf({ ...graph, outputs: [{ name, batchAxis }] })
          // Another output may be why a run fails.
          if (truth.answer === 'differs' && !(graph.outputs.length > 1 && isOfFailure(truth)))
            wrong.push(`${text}\n-> ${name} ${batchAxis}: ${truth.where}`)
        }
      }
    }
    expect(wrong).toEqual([])
    expect(proved).toBeGreaterThanOrEqual(leastProved)
  }, 240_000)

  it('are followed without an error, also where no session opens them', () => {
    expect(cases.length).toBeGreaterThan(10_000)
    const failed = cases.flatMap(({ text, graph }) => {
      try {
        proofOf(graph)
        return []
      } catch (error) {
        return [`${text}: ${String(error)}`]
      }
    })
    expect(failed).toEqual([])
  })
})

/** The dimension along which an output is proved to have its rows; `null` for none. */
function provedAxis(graph: GraphText, name: string, known: KnownDims): number | null {
  const verdictAt = (batchAxis: number) => {
    try {
      return proofOf({ ...graph, outputs: [{ name, batchAxis }] }, known)
    } catch {
      return { rows: 'unknown', reason: '' } // which another test asks for
    }
  }
  const first = verdictAt(0)
  if (first.rows === 'independent') return 0
  const [, axis] = /has its rows along dimension (\d)/.exec(first.reason) ?? []
  return axis !== undefined && verdictAt(Number(axis)).rows === 'independent' ? Number(axis) : null
}
