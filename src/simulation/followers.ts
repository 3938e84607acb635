import type { Arrival } from '../arrivals/arrival.ts'

/** Times are written to a tenth of a microsecond, and two of them are added. */
const roundingUs = 0.5

/** Of each request, which others were made on its answer; each follows one before it, and those that follow none that is there follow none. */
export function followersOf(arrivals: readonly Arrival[]): Map<number, number[]> {
  const followers = new Map<number, number[]>()
  const ends = arrivals.flatMap(({ atUs, latencyUs, cancelledUs }, index) => {
    const tookUs = latencyUs ?? cancelledUs
    return tookUs === undefined ? [] : [{ index, atUs: atUs + tookUs }]
  })
  ends.sort((a, b) => a.atUs - b.atUs)
  const following = arrivals.flatMap(({ atUs, afterAnswerUs }, index) => (afterAnswerUs === undefined ? [] : [{ index, answeredUs: atUs - afterAnswerUs }]))
  following.sort((a, b) => a.answeredUs - b.answeredUs || a.index - b.index)
  let next = 0
  for (const { index, answeredUs } of following) {
    while (next < ends.length && ends[next]!.atUs < answeredUs - roundingUs) next++
    const end = ends[next]
    if (end === undefined || end.atUs > answeredUs + roundingUs || end.index >= index) continue
    next++
    followers.set(end.index, [...(followers.get(end.index) ?? []), index])
  }
  return followers
}
