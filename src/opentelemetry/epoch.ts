/** By more than this the two clocks differ only where one was set, or stood still. */
const toleranceMs = 10

let originMs = performance.timeOrigin

/**
 * When `performance.now()` was 0, by the clock that the spans of callers go by: that is set now and then, and goes on while the machine
 * sleeps. The same for all that is told of one span.
 */
export function epochOriginMs(): number {
  const beforeMs = performance.now()
  const seenMs = Date.now() + 0.5 - beforeMs // of which it has whole ones
  const isSure = performance.now() - beforeMs < 1 // nobody else had the processor between the two
  if (isSure && Math.abs(seenMs - originMs) > toleranceMs) originMs = seenMs
  return originMs
}
