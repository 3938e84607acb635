import { describe } from 'vitest'
import { openNativeOrt } from '../../src/executor/native/native-ort.ts'

const { version, reason } = openNativeOrt()

/** Tests that need the native executor; skipped, with the reason, where there is none. */
export function describeNative(what: string, tests: () => void): void {
  describe.skipIf(version === undefined)(`${what}${reason === undefined ? '' : ` (skipped: ${reason.split('\n', 1)[0]})`}`, tests)
}
