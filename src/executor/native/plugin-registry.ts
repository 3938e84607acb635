import { realpathSync, statSync } from 'node:fs'
import type { NativeProviderDevice } from '../../memory/native-providers.ts'
import type { NativeOrt } from './native-ort.ts'
import { tryInChild, type TrialResult } from './plugin-trial.ts'

/** A plugin as this process has it: its devices, or why it cannot be used. */
export interface OpenedPlugin {
  readonly devices: readonly NativeProviderDevice[]
  /** `null` when it can be used. */
  readonly reason: string | null
  /** Whether the process has another library under that name, or that library under another. */
  readonly taken: boolean
}

const trials = new Map<string, Promise<TrialResult>>()
const registered = new Map<string, Promise<OpenedPlugin>>()

const refused = (reason: string, taken = false): OpenedPlugin => ({ devices: [], reason, taken })

/**
 * Registers a plugin with the process's ONNX Runtime, once; never throws. Before that it is tried in a process of its own,
 * once for each state of its file.
 */
export async function openPlugin(ort: NativeOrt, name: string, library: string): Promise<OpenedPlugin> {
  if (ort.binding === null) return refused(ort.reason)
  const { binding } = ort
  let path: string
  let state: string
  try {
    path = realpathSync(library)
    state = `${name} ${path} ${statSync(path).mtimeMs}`
  } catch (error) {
    return refused(`there is no such library (${(error as Error).message})`)
  }
  const key = `${name} ${path}`
  const known = await registered.get(key)
  if (known?.reason === null) return known
  let trial = trials.get(state)
  if (trial === undefined) trials.set(state, (trial = tryInChild(name, path)))
  const result = await trial
  if ('reason' in result) return refused(result.reason)
  if (result.devices.length === 0) return refused('it offers no device on this machine')
  const opening = binding.registerProvider(name, path, false).then(
    (devices) => ({ devices, reason: null, taken: false }),
    (error: Error & { code?: string }) => refused(error.message, error.code === 'ERR_PLUGIN_TAKEN'),
  )
  registered.set(key, opening)
  return opening
}
