/** By more than this the two clocks differ only where one was set, or stood still. */
const toleranceMs = 10

let originMs = performance.timeOrigin

/**
 * When `performance.now()` was 0, by the clock that the spans of callers go by: that is set now and then, and goes on while the machine
 * sleeps. The same for all that is told of one span.
 */
export function epochOriginMs(): number {
  for (let tries = 0; tries < 5; tries++) {
    const beforeMs = performance.now()
    const seenMs = Date.now() + 0.5 - beforeMs // of which it has whole ones
    if (performance.now() - beforeMs > 1) continue // somebody else had the processor between the two
    if (Math.abs(seenMs - originMs) > toleranceMs) originMs = seenMs
    break
  }
  return originMs
}
