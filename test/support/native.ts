import { describe } from 'vitest'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'

const { version, reason } = openNativeOrt()

/** Whether engines have the native executor by default in this run of the tests, which runs rows where they were written. */
export const runsInPlace = version !== undefined && process.env['ZEROHOP_EXECUTOR'] !== 'binding'

/** Tests that need the native executor; skipped, with the reason, where there is none. */
export function describeNative(what: string, tests: () => void): void {
  describe.skipIf(version === undefined)(
    `${what}${reason === undefined ? '' : ` (skipped: ${reason.split('\n', 1)[0]})`}`,
    tests,
  )
}
