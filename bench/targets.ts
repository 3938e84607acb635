/** A figure and what is asked of it. */
export interface Target {
  readonly what: string
  readonly found: number
  readonly target: string
  readonly met: boolean
}

export function atLeast(limit: number, what: string, found: number): Target {
  return { what, found, target: `>= ${limit}`, met: found >= limit }
}

export function atMost(limit: number, what: string, found: number): Target {
  return { what, found, target: `<= ${limit}`, met: found <= limit }
}
