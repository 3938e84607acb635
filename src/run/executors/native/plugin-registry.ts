import { realpathSync, statSync } from 'node:fs'
import type { NativeProviderDevice } from '../../../native/native-providers.ts'
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

/** Tries a plugin in a process of its own, anew if that has failed before; never throws. This process does not have it then. */
export async function tryPlugin(ort: NativeOrt, name: string, library: string): Promise<OpenedPlugin> {
  if (ort.binding === null) return refused(ort.reason)
  const file = stateOf(library)
  if ('reason' in file) return refused(file.reason)
  const key = trialKey(name, file)
  const before = trials.get(key)
  const found = await tryFile(name, file)
  if (found.reason === null || before === undefined) return found
  if (trials.get(key) === before) trials.delete(key) // what it lacked may be there now
  return tryFile(name, file)
}

/** Registers a plugin with the process's ONNX Runtime, once; never throws. Before that it is tried, once for each state of its file. */
export async function openPlugin(ort: NativeOrt, name: string, library: string): Promise<OpenedPlugin> {
  if (ort.binding === null) return refused(ort.reason)
  const file = stateOf(library)
  if ('reason' in file) return refused(file.reason)
  const key = `${name} ${file.path}`
  const known = await registered.get(key)
  if (known?.reason === null) return known
  const tried = await tryFile(name, file)
  if (tried.reason !== null) return tried
  const opening = ort.binding.registerProvider(name, file.path, false).then(
    (devices) => ({ devices, reason: null, taken: false }),
    (error: Error & { code?: string }) => refused(error.message, error.code === 'ERR_PLUGIN_TAKEN'),
  )
  registered.set(key, opening)
  return opening
}

/** A library, and when it was last changed. */
interface LibraryFile {
  readonly path: string
  readonly mtimeMs: number
}

function stateOf(library: string): LibraryFile | { readonly reason: string } {
  try {
    const path = realpathSync(library)
    return { path, mtimeMs: statSync(path).mtimeMs }
  } catch (error) {
    return { reason: `there is no such library (${(error as Error).message})` }
  }
}

const trialKey = (name: string, { path, mtimeMs }: LibraryFile): string => `${name} ${path} ${mtimeMs}`

async function tryFile(name: string, file: LibraryFile): Promise<OpenedPlugin> {
  const key = trialKey(name, file)
  let trial = trials.get(key)
  if (trial === undefined) trials.set(key, (trial = tryInChild(name, file.path)))
  const result = await trial
  if ('reason' in result) return refused(result.reason)
  return result.devices.length === 0
    ? refused('it offers no device on this machine')
    : { devices: result.devices, reason: null, taken: false }
}
