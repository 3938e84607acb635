import { run } from '../child.ts'
import type { LeasesInput, LeasesResult } from '../programs/leases.ts'
import { shown } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const elements = 3 * 224 * 224

/** What it takes to bring decoded pixels to the rows of a batch. */
export const leases: Trial = {
  describe:
    'pixels of 224 x 224 to the rows of a batch: the kernel beside memcpy and JavaScript, a lease beside an array',
  seconds: 2,
  async run({ seconds, rounds }) {
    const found: LeasesResult[] = []
    for (let turn = 0; turn < rounds; turn++)
      found.push(await run<LeasesResult>('programs/leases.ts', { seconds } satisfies LeasesInput))
    const middle = (of: (result: LeasesResult) => number) => round(median(found.map(of)), 2)
    // Bytes read and written in the same time.
    const bandwidth = middle(
      ({ kernelUs, memcpyUs }) => (5 * elements) / kernelUs / ((8 * elements) / memcpyUs),
    )
    const times = middle(({ kernelUs, javaScriptUs }) => javaScriptUs / kernelUs)
    const copied = middle(({ rowsInPlace, rowsCopied }) => rowsCopied / (rowsInPlace + rowsCopied))
    const [arrayUs, leaseUs] = [middle((each) => each.arrayUs), middle((each) => each.leaseUs)]
    return {
      ours: leaseUs,
      plain: arrayUs,
      unit: 'us for an image of 588 KiB, from pixels to its answer',
      ratio: round(leaseUs / arrayUs),
      numbers: [{
        question: 'pixels of 224 x 224 to their answer: through an array, or written in place',
        plain: `${shown(arrayUs)} us`, zerohop: `${shown(leaseUs)} us`,
        note: `${round(leaseUs / arrayUs)} x; normalised in ${shown(middle(({ kernelUs }) => kernelUs))} us, by a loop of JavaScript in ${shown(middle(({ javaScriptUs }) => javaScriptUs))}, where \`memcpy\` of the result takes ${shown(middle(({ memcpyUs }) => memcpyUs))}`,
      }], // prettier-ignore
      targets: [
        atLeast(0.7, 'bytes moved by the kernel in the time of those that memcpy moves', bandwidth),
        atLeast(3, 'as fast as the loop in JavaScript', times),
        atMost(0, 'share of leased rows that were copied once more', copied),
        atMost(1, 'a lease takes no longer than an array', round(leaseUs / arrayUs)),
      ],
      rows: [
        { what: 'kernel', us: middle(({ kernelUs }) => kernelUs) },
        { what: 'memcpy of what it writes', us: middle(({ memcpyUs }) => memcpyUs) },
        { what: 'loop in JavaScript', us: middle(({ javaScriptUs }) => javaScriptUs) },
        { what: 'answered through an array', us: arrayUs },
        { what: 'answered through a lease', us: leaseUs },
      ],
      settings: { seconds, vectorInstructions: found[0]!.vectorInstructions },
      details: found,
    }
  },
}
