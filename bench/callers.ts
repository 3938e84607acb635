/** What callers saw, and how long they were at it. */
export interface Asked {
  /** Of each request, in the order of the answers. */
  readonly timesUs: number[]
  readonly tookMs: number
}

/** Callers that each ask again as soon as they are answered, for so long. */
export async function askFor(forMs: number, callers: number, ask: () => Promise<unknown>): Promise<Asked> {
  const timesUs: number[] = []
  const beganMs = performance.now()
  const caller = async () => {
    while (performance.now() < beganMs + forMs) {
      const startMs = performance.now()
      await ask()
      timesUs.push((performance.now() - startMs) * 1000)
    }
  }
  await Promise.all(Array.from({ length: callers }, caller))
  return { timesUs, tookMs: performance.now() - beganMs }
}
