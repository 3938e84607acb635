import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'

/** The kinds of executors that can be had here: without the addon, the binding alone. */
export const executorKinds =
  openNativeOrt().binding === null ? (['binding'] as const) : (['native', 'binding'] as const)
