/** From `fromMs` on something is `factor` times what it is by default. */
export interface Step {
  readonly fromMs: number
  readonly factor: number
}

/** The factor that holds at a moment; 1 before the first step. Steps are in order of time. */
export function factorAt(steps: readonly Step[], atMs: number): number {
  let factor = 1
  for (const step of steps) {
    if (step.fromMs > atMs) break
    factor = step.factor
  }
  return factor
}

/**
 * When so much has happened as takes `workMs` at factor 1: the time up to which the factor adds up to it. A process
 * whose rate changes is an unchanging one on a clock that runs faster and slower.
 */
export function timeOfWork(steps: readonly Step[], workMs: number): number {
  let doneMs = 0
  let fromMs = 0
  let factor = 1
  for (const step of steps) {
    const untilMs = doneMs + (step.fromMs - fromMs) * factor
    if (untilMs > workMs) break
    doneMs = untilMs
    ;({ fromMs, factor } = step)
  }
  return factor === 0 ? Infinity : fromMs + (workMs - doneMs) / factor
}
