import type { Peer } from './peer.ts'
import type { Level, Workload } from './workload.ts'

/** How long and how much is measured. */
export interface Plan {
  readonly seconds: number
  readonly rounds: number
  /** Of the closed loops. */
  readonly callers: readonly number[]
  /** How many of a workload's rates are held, the lowest first. */
  readonly openLoops: number
  /** How long a rate is held at most for the sake of its requests. */
  readonly mostOpenSeconds: number
}

/** What a run takes that nobody shortens. */
const usual = { seconds: 4, rounds: 3 }

/** Requests that a rate is held for, where there are so many within the time. */
const openRequests = 200

export function planOf({
  quick,
  smoke,
  seconds,
  rounds,
}: {
  quick: boolean
  smoke: boolean
  seconds?: number | undefined
  rounds?: number | undefined
}): Plan {
  if (smoke)
    return { seconds: seconds ?? 0.3, rounds: rounds ?? 1, callers: [8], openLoops: 1, mostOpenSeconds: 0 }
  if (quick)
    return {
      seconds: seconds ?? 0.5,
      rounds: rounds ?? 1,
      callers: [1, 64],
      openLoops: 1,
      mostOpenSeconds: 12,
    }
  return {
    seconds: seconds ?? usual.seconds,
    rounds: rounds ?? usual.rounds,
    callers: [1, 8, 64, 256],
    openLoops: 2,
    mostOpenSeconds: 12,
  }
}

/** What is told of a run that takes less than the usual one; nothing of another. */
export function shortenedOf({ seconds, rounds }: Plan): Pick<Plan, 'seconds' | 'rounds'> | null {
  return seconds < usual.seconds || rounds < usual.rounds ? { seconds, rounds } : null
}

/** The loads of a peer, closed loops first: what an overloaded one leaves behind meets no other. */
export function levelsOf(
  plan: Plan,
  peer: Peer,
  { rates, inProcessRates, usualPerSecond }: Workload,
): Level[] {
  const { callers, openLoops, mostOpenSeconds } = plan
  // A slow model has few batches in a window.
  const seconds = usualPerSecond < 1000 ? 2 * plan.seconds : plan.seconds
  const warmupSeconds = Math.min(1, seconds / 2)
  return [
    ...callers.map((count) => ({ callers: count, warmupSeconds, warmupRequests: count, seconds })),
    ...[
      ...rates.slice(0, openLoops),
      ...(peer.kind === 'in process' && openLoops > 1 ? inProcessRates : []),
    ].map((ratePerSecond) => ({
      ratePerSecond,
      warmupSeconds,
      warmupRequests: 0,
      seconds: Math.max(seconds, Math.min(mostOpenSeconds, openRequests / ratePerSecond)),
    })),
  ]
}

/** Start and end of a peer, about. */
const startSeconds = { 'in process': 2, http: 6 }

/** How long a plan takes, about. */
export function expectedSeconds(
  plan: Plan,
  pairs: readonly { readonly peer: Peer; readonly workload: Workload }[],
): number {
  const each = pairs.map(({ peer, workload }) => {
    const levels = levelsOf(plan, peer, workload).map(
      ({ callers = 0, warmupSeconds, warmupRequests, seconds }) => {
        const round = callers / workload.usualPerSecond
        return (
          Math.max(warmupSeconds, warmupRequests / workload.usualPerSecond) +
          Math.max(seconds, round / 2) +
          round
        )
      },
    )
    return levels.reduce((sum, level) => sum + level, startSeconds[peer.kind])
  })
  return plan.rounds * each.reduce((sum, one) => sum + one, 0)
}
