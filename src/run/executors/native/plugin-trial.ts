import type { NativeProviderDevice } from '../../../native/native-providers.ts'
import { trialLimitMs, tryInProcess, type TrialFailure } from './trial-process.ts'

/** What a child found of a plugin: its devices, or why it cannot be used. */
export type TrialResult = { readonly devices: readonly NativeProviderDevice[] } | TrialFailure

/** Loads a plugin in a process of its own and runs a model of one operator with it. Ending that process is part of the trial. */
export function tryInChild(name: string, library: string, limitMs = trialLimitMs): Promise<TrialResult> {
  return tryInProcess('run/executors/native/plugin-trial-child.js', [name, library], limitMs, true)
}
