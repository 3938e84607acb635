import type { InferenceSession } from 'onnxruntime-common'
import {
  computePrecisions,
  PluginProvider,
  type ResolvedPlugin,
  type ComputePrecision,
} from '../options/engine-options.ts'
import { nameOf } from '../options/session-options.ts'
import { InferenceError, invalidArgument, invalidConfig } from '../errors.ts'
import { openNativeOrt, type NativeOrt } from './executors/native/native-ort.ts'
import { untilAborted } from '../base/abort-watch.ts'
import type { Executors } from './executor-choice.ts'
import { realpathSync, statSync } from 'node:fs'
import type { NativeProviderDevice } from '../native/native-binding.ts'
import { tryInChild, type TrialResult } from './executors/native/trial-process.ts'

/** The provider plugins of an engine: opened when a model asks for them. */
export class EnginePlugins {
  readonly #options: ReadonlyMap<string, ResolvedPlugin>
  readonly #opened = new Map<string, OpenedPlugin>()
  /** What trying those has shown since that no model could be opened on. */
  readonly #tried = new Map<string, OpenedPlugin>()
  readonly #ending: AbortSignal

  /** @param ending fires when the engine ends, and waits for no plugin any more. */
  constructor(plugins: readonly ResolvedPlugin[], ending: AbortSignal) {
    this.#options = new Map(plugins.map((plugin) => [plugin.name, plugin]))
    this.#ending = ending
  }

  /** Each with what came of opening or trying it; `null` for one that no model has asked for. */
  get all(): { readonly options: ResolvedPlugin; readonly opened: OpenedPlugin | null }[] {
    return [...this.#options.values()].map((options) => ({
      options,
      opened: this.#tried.get(options.name) ?? this.#opened.get(options.name) ?? null,
    }))
  }

  /** Whether a name is that of a plugin. */
  has(name: string): boolean {
    return this.#options.has(name)
  }

  /** Whether a plugin is open. */
  isUsable(name: string): boolean {
    return this.#opened.get(name)?.reason === null
  }

  /** Whether all sessions of an open plugin have to be run by one thread. */
  needsOneThread(name: string): boolean {
    return this.#opened.get(name)?.devices.some((device) => knownProvider(device).oneThread) ?? false
  }

  /** Why a plugin that was to be opened cannot be used; `null` for one that can. */
  reasonAgainst(name: string): string | null {
    return this.#opened.get(name)?.reason ?? null
  }

  /**
   * Opens those of these providers that are plugins.
   *
   * @throws InferenceError `ERR_INVALID_ARG` when the process has another library under such a name.
   */
  async open(names: readonly string[], executors: Executors): Promise<void> {
    await Promise.all(
      [...new Set(names)].filter((name) => this.has(name)).map((name) => this.#open(name, executors)),
    )
  }

  /** Tries all that are not open, each in a separate process, one after the other. */
  async tryAll(executors: Executors): Promise<void> {
    for (const { name, library } of this.#options.values()) {
      if (this.#ending.aborted) return
      if (this.isUsable(name)) continue
      const tried =
        executors.kind === 'binding'
          ? withBinding(executors)
          : await tryPlugin(openNativeOrt(), name, library)
      if (!this.isUsable(name)) this.#tried.set(name, tried)
    }
  }

  /**
   * An entry of `executionProviders` as a session is to have it, once {@link open} has been called; `null` for a plugin that cannot
   * be used.
   *
   * @throws InferenceError `ERR_MODEL_CONFIG` for an option that the plugin cannot take.
   */
  use(
    model: string,
    entry: InferenceSession.ExecutionProviderConfig,
  ): InferenceSession.ExecutionProviderConfig | null {
    const name = nameOf(entry)
    if (!this.has(name)) return entry
    const { options: defaults, precision: usual } = this.#options.get(name)!
    const { devices, reason } = this.#opened.get(name)!
    if (reason !== null) return null
    const {
      name: _,
      required: _required,
      device,
      deviceId = 0,
      precision = usual,
      ...own
    } = { ...defaults, ...(typeof entry === 'string' ? {} : entry) } as PluginEntry
    const wrong = (option: string, expected: string, received: unknown) =>
      invalidConfig(model, `executionProviders.${name}.${option}`, expected, received)
    if (precision !== undefined && !computePrecisions.includes(precision))
      throw wrong('precision', `one of ${computePrecisions.join(', ')}`, precision)
    if (device !== undefined && typeof device !== 'string')
      throw wrong('device', 'the kind of a device, such as cpu', device)
    const chosen = chooseDevice(devices, device, deviceId)
    if (chosen === -1) {
      const there = devices.flatMap(deviceNames).join(', ')
      throw wrong(
        device === undefined ? 'deviceId' : 'device',
        `a device that the plugin offers here (${there})`,
        device ?? deviceId,
      )
    }
    const known = knownProvider(devices[chosen]!)
    try {
      return new PluginProvider(
        name,
        chosen,
        known.entries(devices[chosen]!, precision, own),
        known.sharable,
        precision ?? null,
      )
    } catch (error) {
      const [option, expected] = (error as Error).message.split(': expected ') as [string, string?]
      if (expected === undefined)
        throw new InferenceError('ERR_MODEL_CONFIG', `executionProviders.${name}.${option}`, {
          model,
          cause: error,
        })
      throw wrong(option, expected, own[option])
    }
  }

  async #open(name: string, executors: Executors): Promise<void> {
    if (this.isUsable(name)) return
    const { library } = this.#options.get(name)!
    const opened =
      executors.kind === 'binding'
        ? withBinding(executors)
        : await untilAborted(openPlugin(openNativeOrt(), name, library), this.#ending)
    this.#opened.set(name, opened)
    this.#tried.delete(name)
    if (!opened.taken) return
    const hint = `${opened.reason}; a plugin is one for the process, so name it alike everywhere`
    throw invalidArgument(
      `options.providers.${name}.library`,
      'the library that the process has under that name, and no other',
      library,
      { hint },
    )
  }
}

function withBinding({ reason }: Executors): OpenedPlugin {
  return {
    devices: [],
    reason: `it takes executor: 'native', and 'binding' is at work (${reason})`,
    taken: false,
  }
}

/** An entry of `executionProviders` for a plugin, with the options that are ours. */
interface PluginEntry extends Record<string, unknown> {
  readonly required?: boolean
  readonly device?: string
  readonly deviceId?: number
  readonly precision?: PluginProvider['precision'] & string
}

/** A plugin as this process has it: its devices, or why it cannot be used. */
interface OpenedPlugin {
  readonly devices: readonly NativeProviderDevice[]
  /** `null` when it can be used. */
  readonly reason: string | null
  /** Whether the process has another library under that name, or that library under another. */
  readonly taken: boolean
}

const trials = new Map<string, Promise<TrialResult>>()
const registered = new Map<string, Promise<OpenedPlugin>>()

const refused = (reason: string, taken = false): OpenedPlugin => ({ devices: [], reason, taken })

/** Tries a plugin in a separate process, anew if that has failed before; never throws. This process does not have it then. */
async function tryPlugin(ort: NativeOrt, name: string, library: string): Promise<OpenedPlugin> {
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

/** Options of a plugin's sessions as a user gives them. */
type PluginOptions = Readonly<Record<string, unknown>>

/** What is known of a provider beyond what its plugin says of itself. */
interface KnownProvider {
  /** Whether threads may run one session at the same time. */
  readonly sharable: boolean
  /** Whether all of its sessions have to be run by one thread. */
  readonly oneThread: boolean
  /** The same options as the provider takes them; throws a TypeError for one that it cannot take. */
  entries(
    device: NativeProviderDevice,
    precision: ComputePrecision | undefined,
    options: PluginOptions,
  ): Record<string, string>
}

const openVinoPrecisions: Readonly<Record<ComputePrecision, string>> = {
  float32: 'f32',
  float16: 'f16',
  bfloat16: 'bf16',
}

/** OpenVINO's names of options that its plugin knows by others, and would silently leave out. */
const openVinoNames: Readonly<Record<string, string>> = {
  num_streams: 'NUM_STREAMS', num_of_threads: 'INFERENCE_NUM_THREADS', cache_dir: 'CACHE_DIR', performance_hint: 'PERFORMANCE_HINT',
} // prettier-ignore

/** OpenVINO takes its own properties as one JSON text, by device; what has a lower-case name is the plugin's. */
const openVino: KnownProvider = {
  sharable: true,
  oneThread: false,
  entries({ metadata }, precision, { load_config: given, ...options }) {
    const entries: Record<string, string> = {}
    const own: Record<string, string> = {}
    if (precision !== undefined) own['INFERENCE_PRECISION_HINT'] = openVinoPrecisions[precision]
    for (const [name, value] of Object.entries(options)) {
      const property = Object.hasOwn(openVinoNames, name)
        ? openVinoNames[name]!
        : /^[A-Z][A-Z0-9_]*$/.test(name)
          ? name
          : undefined
      if (property === undefined) entries[name] = text(name, value)
      else own[property] = text(name, value)
    }
    const device = metadata['ov_meta_device'] ?? metadata['ov_device'] ?? 'CPU'
    const config = readConfig(given)
    const merged = { ...config, [device]: { ...own, ...(config[device] as object | undefined) } }
    if (given !== undefined || Object.keys(own).length > 0) entries['load_config'] = JSON.stringify(merged)
    return entries
  },
}

function readConfig(given: unknown): Record<string, unknown> {
  if (given === undefined) return {}
  let config = given
  try {
    if (typeof given === 'string') config = JSON.parse(given)
  } catch {
    // said below
  }
  if (typeof config === 'object' && config !== null && !Array.isArray(config)) return { ...config }
  throw new TypeError('load_config: expected an object of devices with their properties, or the same as JSON')
}

const others: KnownProvider = {
  sharable: false,
  oneThread: false,
  entries(device, precision, options) {
    if (precision !== undefined) {
      throw new TypeError(
        `precision: how ${device.provider} is told is not known here; give the option of its own that says it`,
      )
    }
    return Object.fromEntries(Object.entries(options).map(([name, value]) => [name, text(name, value)]))
  },
}

/** Its sessions share a device, and two threads in it at once end the process. */
const webGpu: KnownProvider = { ...others, oneThread: true }

const known: Readonly<Record<string, KnownProvider>> = {
  OpenVINOExecutionProvider: openVino,
  WebGpuExecutionProvider: webGpu,
}

/** What is known of the provider that a device belongs to. */
export function knownProvider({ provider }: NativeProviderDevice): KnownProvider {
  const [name] = provider.split('.') as [string]
  return Object.hasOwn(known, name) ? known[name]! : others
}

/**
 * The device that a session is to use: the first that the plugin offers, or number `deviceId` of those of a kind (`cpu`, `gpu`,
 * `npu`, or what a provider calls a combination, such as `auto`). -1 when there is none.
 */
export function chooseDevice(
  devices: readonly NativeProviderDevice[],
  kind: string | undefined,
  deviceId: number,
): number {
  const wanted = kind?.toLowerCase()
  const places = [...devices.keys()].filter(
    (place) => wanted === undefined || deviceNames(devices[place]!).includes(wanted),
  )
  return places[deviceId] ?? -1
}

/** By what a device can be asked for. */
export function deviceNames({ provider, kind }: NativeProviderDevice): string[] {
  const [, combination] = provider.split('.')
  return combination === undefined ? [kind] : [combination.toLowerCase()]
}

function text(name: string, value: unknown): string {
  if (
    typeof value === 'string' ||
    typeof value === 'boolean' ||
    (typeof value === 'number' && Number.isFinite(value))
  )
    return String(value)
  throw new TypeError(`${name}: expected text, a number or a boolean`)
}
