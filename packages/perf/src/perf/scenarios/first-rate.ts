import type { ScenarioSystem } from './run-scenario.ts'

const warmUpQueries = 10
const queries = 50
/** Of either. */
const longestMs = 1000

/** A rate for a search to begin with: half of what one query after the other comes to. */
export async function firstRate({ send, clock, signal }: ScenarioSystem): Promise<number> {
  const askFor = async (most: number) => {
    const startMs = clock.nowMs()
    let asked = 0
    do {
      // What fails is told of by the search.
      await send(0).catch(() => {})
      asked++
    } while (asked < most && clock.nowMs() - startMs < longestMs && signal?.aborted !== true)
    return (clock.nowMs() - startMs) / asked
  }
  await askFor(warmUpQueries)
  const meanMs = await askFor(queries)
  return 500 / Math.max(meanMs, 1e-3)
}
