import { run } from '../child.ts'
import type { PostprocessingInput, PostprocessingResult } from '../programs/postprocessing.ts'
import { takeTurns } from '../rounds.ts'
import { shownAll } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

type Side = PostprocessingInput['side']

const works: readonly {
  readonly what: string
  readonly work: PostprocessingInput['work']
  readonly callers: number
  readonly sides: readonly Side[]
}[] = [
  { what: 'softmax of 10', work: { classes: 10 }, callers: 1, sides: ['built in', 'here', 'on a thread'] },
  {
    what: 'softmax of 1000',
    work: { classes: 1000 },
    callers: 1,
    sides: ['built in', 'here', 'on a thread'],
  },
  {
    what: 'softmax of 1000',
    work: { classes: 1000 },
    callers: 64,
    sides: ['built in', 'here', 'on a thread'],
  },
  {
    what: 'boxes: 100 of 1 class',
    work: { boxes: 100, classes: 1 },
    callers: 1,
    sides: ['built in', 'on a thread'],
  },
  {
    what: 'boxes: 300 of 80 classes',
    work: { boxes: 300, classes: 80 },
    callers: 1,
    sides: ['built in', 'on a thread'],
  },
  {
    what: 'boxes: 8400 of 80 classes',
    work: { boxes: 8400, classes: 80 },
    callers: 1,
    sides: ['built in', 'on a thread'],
  },
]

/** What the built-in functions cost, beside the same in JavaScript. */
export const postprocessing: Trial = {
  describe:
    "softmax and nonMaxSuppression as they are built in, in JavaScript on the application's thread, and on a thread of their own",
  seconds: 2,
  async run({ seconds, rounds, smoke }) {
    const rows = []
    const details = []
    for (const { what, work, callers, sides } of smoke ? works.slice(0, 1) : works) {
      const measure = (side: Side) => () =>
        run<PostprocessingResult>('programs/postprocessing.ts', {
          work,
          side,
          callers,
          seconds,
        } satisfies PostprocessingInput)
      const found = await takeTurns(
        rounds,
        Object.fromEntries(sides.map((side) => [side, measure(side)])) as Record<
          Side,
          () => Promise<PostprocessingResult>
        >,
      )
      const usOf = (side: Side) =>
        found[side] === undefined
          ? NaN
          : round(
              median(
                found[side].map(({ p50Us, answersPerSecond }) =>
                  callers === 1 ? p50Us : 1e6 / answersPerSecond,
                ),
              ),
              1,
            )
      const shownUs = (side: Side) => (Number.isNaN(usOf(side)) ? 'as built in' : usOf(side))
      rows.push({
        function: what,
        callers,
        'built in us': usOf('built in'),
        'JavaScript here us': shownUs('here'),
        'JavaScript on a thread us': usOf('on a thread'),
      })
      details.push({ what, callers, found })
    }
    const softmaxes = rows.filter((row) => typeof row['JavaScript here us'] === 'number')
    const [ours, plain] = (['built in us', 'JavaScript on a thread us'] as const).map((column) =>
      softmaxes.map((row) => row[column]),
    ) as [number[], number[]]
    const ratios = ours.map((us, index) => round(us / plain[index]!))
    return {
      ours: ours[0]!,
      plain: plain[0]!,
      unit: 'us an answer, softmax of 10 classes for one caller',
      ratio: ratios[0]!,
      targets: [
        atMost(1, 'softmax as it is built in, to JavaScript on a thread, at most', Math.max(...ratios)),
      ],
      rows,
      numbers: [{
        question: `${softmaxes.map((row) => `${row.function} classes with ${row.callers}`).join(', ')}: a function of JavaScript on a thread, or built in`,
        plain: shownAll(plain, 'us'), zerohop: shownAll(ours, 'us'), note: `${ratios.join(', ')} x`,
      }], // prettier-ignore
      settings: { seconds },
      details,
    }
  },
}
