import { hasShared, sharedPath } from '../../test/support/shared.ts'
import { run } from '../child.ts'
import type { ImageOverloadInput, ImageOverloadResult } from '../programs/image-overload.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import { TrialSkipped, type Trial } from '../trial.ts'

const maxQueueSize = 64
const factors = [2, 5, 10]
const burst = 50
const burstDeadlineMs = 2000

/** Encoded images under overload: what is answered, how soon the rest is refused, and how much is held. */
export const imageOverload: Trial = {
  describe:
    'encoded photographs for SqueezeNet: 2, 5 and 10 times what a closed loop answers, each with a deadline of 1 s and a queue of 64; bursts of 50 with 2 s in fresh processes',
  reading:
    'Capacity is the mean of the closed loops before and after each load, in the same process. A refusal in a burst is false where what was answered of it, and the same burst without a deadline, took less than the deadline.',
  seconds: 4,
  async run({ seconds, rounds, smoke, quick }) {
    if (!hasShared) throw new TrialSkipped(' is left out: no ../shared with images and SqueezeNet')
    const of = (given: Partial<ImageOverloadInput>): ImageOverloadInput => ({
      model: sharedPath('models/squeezenet/model.onnx'), input: 'data_0', images: ['goldfish.jpg', 'daisy.jpg', 'mug.jpg'].map((name) => sharedPath(`images/${name}`)),
      seconds, maxQueueSize, deadlineMs: 1000, factors: smoke ? [2] : factors, burst: 0, ...given,
    }) // prettier-ignore
    const found: ImageOverloadResult[] = []
    for (let round = 0; round < rounds; round++)
      found.push(await run<ImageOverloadResult>('programs/image-overload.ts', of({})))
    const processes = smoke ? 1 : quick ? 10 : 50
    const bursts: ImageOverloadResult[] = []
    for (let count = 0; count < processes; count++)
      bursts.push(
        await run<ImageOverloadResult>(
          'programs/image-overload.ts',
          of({ burst, deadlineMs: burstDeadlineMs }),
        ),
      )
    const inTime = bursts.filter(
      ({ burst: { tookMs }, burstWithoutMs }) => Math.max(tookMs, burstWithoutMs) < burstDeadlineMs,
    )
    const falseRefusals = inTime.reduce((sum, each) => sum + each.burst.refused, 0)
    const rows = found[0]!.loads.map(({ factor }, at) => {
      const middle = (figure: (result: ImageOverloadResult) => number) => round(median(found.map(figure)))
      const share = middle(
        ({ capacity, loads }) => loads[at]!.answeredPerSecond / ((capacity[at]! + capacity[at + 1]!) / 2),
      )
      return {
        'times capacity': factor, 'answered per second': middle(({ loads }) => loads[at]!.answeredPerSecond), 'of capacity': share, late: middle(({ loads }) => loads[at]!.late),
        refused: middle(({ loads }) => loads[at]!.refused), 'refused, p50 ms': middle(({ loads }) => loads[at]!.refusedP50Ms), 'p99 ms': middle(({ loads }) => loads[at]!.refusedP99Ms),
        'most held': middle(({ loads }) => loads[at]!.mostHeld), 'most waiting': middle(({ loads }) => loads[at]!.mostWaiting), 'most in work': middle(({ loads }) => loads[at]!.mostInWork),
      } // prettier-ignore
    })
    const shares = rows.map((row) => row['of capacity'])
    const answered = median(rows.map((row) => row['answered per second']))
    const capacity = median(found.flatMap((result) => result.capacity))
    return {
      ours: round(answered),
      plain: round(capacity),
      unit: 'photographs per second under overload, beside a closed loop',
      ratio: round(answered / capacity),
      targets: [
        atLeast(0.9, 'of capacity answered in time, at the worst load', Math.min(...shares)),
        atMost(
          20,
          'ms until 99 of 100 refusals, at the worst load',
          Math.max(...rows.map((row) => row['p99 ms'])),
        ),
        atMost(
          maxQueueSize,
          'requests waiting at once, the most',
          Math.max(...rows.map((row) => row['most waiting'])),
        ),
        atMost(0, `false refusals in ${processes} bursts of ${burst} in fresh processes`, falseRefusals),
      ],
      rows,
      settings: {
        seconds,
        rounds,
        maxQueueSize,
        deadlineMs: 1000,
        burst,
        burstDeadlineMs,
        processes,
        processesInTime: inTime.length,
        maxBatchSize: found[0]!.maxBatchSize,
      },
      details: { found, bursts },
    }
  },
}
