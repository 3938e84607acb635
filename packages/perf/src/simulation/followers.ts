import type { Arrival, ArrivalRun } from 'zerohop/internals'

/** Times are written to a tenth of a microsecond, and two of them are added. */
const roundingUs = 0.5
/** Answers of a run are given within that, one after the other. */
const longestGivingUs = 10_000

/** A request that was made on an answer. */
export interface Follower {
  readonly arrival: number
  /** From the first answer of the same run until it came. */
  readonly afterMs: number
}

/** Of each request, which others were made on its answer; each follows one before it, and those that follow none that is there follow none. */
export function followersOf(arrivals: readonly Arrival[]): Map<number, Follower[]> {
  const followers = new Map<number, Follower[]>()
  const ends = arrivals.flatMap(({ atUs, latencyUs, cancelledUs }, index) => {
    const tookUs = latencyUs ?? cancelledUs
    return tookUs === undefined ? [] : [{ index, atUs: atUs + tookUs }]
  })
  ends.sort((a, b) => a.atUs - b.atUs)
  const following = arrivals.flatMap(({ atUs, afterAnswerUs }, index) =>
    afterAnswerUs === undefined ? [] : [{ index, atUs, answeredUs: atUs - afterAnswerUs }],
  )
  following.sort((a, b) => a.answeredUs - b.answeredUs || a.index - b.index)
  const givenUs =
    following.length === 0
      ? []
      : arrivals
          .flatMap((arrival) => (arrival.runs ?? []).map((run) => firstGivenUs(arrival, run)))
          .sort((a, b) => a - b)
  let [next, given] = [0, 0]
  for (const { index, atUs, answeredUs } of following) {
    while (next < ends.length && ends[next]!.atUs < answeredUs - roundingUs) next++
    while (given + 1 < givenUs.length && givenUs[given + 1]! <= answeredUs + roundingUs) given++
    const end = ends[next]
    if (end === undefined || end.atUs > answeredUs + roundingUs || end.index >= index) continue
    next++
    const beforeUs = answeredUs - (givenUs[given] ?? -Infinity)
    const fromUs = beforeUs >= -roundingUs && beforeUs < longestGivingUs ? givenUs[given]! : answeredUs
    const own = { arrival: index, afterMs: Math.max(0, atUs - fromUs) / 1000 }
    const others = followers.get(end.index)
    if (others === undefined) followers.set(end.index, [own])
    else others.push(own)
  }
  return followers
}

/** When the first answer of a run was given: that of the request that it is noted with, unless that waited for other runs. */
export function firstGivenUs(
  { atUs, rows: ofRequest, latencyUs }: Arrival,
  { takenAtUs, rows, gatherUs, handOverUs, runUs, wakeUs, scatterUs }: ArrivalRun,
): number {
  const doneUs = takenAtUs + gatherUs + handOverUs + runUs + wakeUs + scatterUs
  const answeredUs = latencyUs === undefined || ofRequest > rows ? doneUs : atUs + latencyUs
  return answeredUs > doneUs && answeredUs < doneUs + longestGivingUs ? answeredUs : doneUs
}
