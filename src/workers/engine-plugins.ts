import type { InferenceSession } from 'onnxruntime-common'
import { computePrecisions, PluginProvider, type ResolvedPlugin } from '../config/provider-options.ts'
import type { ResolvedConfig } from '../config/resolve-model-config.ts'
import { InferenceError, invalidArgument } from '../errors.ts'
import { ThreadEndedError } from '../executor/executor.ts'
import { openNativeOrt } from '../executor/native/native-ort.ts'
import { chooseDevice, deviceNames, knownProvider } from '../executor/native/plugin-entries.ts'
import { openPlugin, type OpenedPlugin } from '../executor/native/plugin-registry.ts'
import { untilAborted } from '../request/abort-watch.ts'
import { letGoOfTrials } from '../executor/native/plugin-trial.ts'
import type { Executors } from './executor-choice.ts'

/** The provider plugins of an engine: opened when a model asks for them, and left out, with a warning, where that cannot be. */
export class EnginePlugins {
  readonly #options: ReadonlyMap<string, ResolvedPlugin>
  readonly #opened = new Map<string, OpenedPlugin>()
  readonly #warned = new Set<string>()
  readonly #ending = new AbortController()

  constructor(plugins: readonly ResolvedPlugin[]) {
    this.#options = new Map(plugins.map((plugin) => [plugin.name, plugin]))
  }

  /** Waits for no plugin any more. */
  end(): void {
    this.#ending.abort(new ThreadEndedError())
    letGoOfTrials()
  }

  /** Each with what came of opening it; `null` for one that no model has asked for. */
  get all(): { readonly options: ResolvedPlugin; readonly opened: OpenedPlugin | null }[] {
    return [...this.#options.values()].map((options) => ({ options, opened: this.#opened.get(options.name) ?? null }))
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

  /**
   * Opens the plugins that a model asks for.
   *
   * @throws InferenceError `ERR_INVALID_ARG` when the process has another library under such a name; `ERR_NATIVE_LOAD` when one
   * cannot be used and the model has nothing to fall back to.
   */
  async open(model: string, config: ResolvedConfig, executors: Executors): Promise<void> {
    const asked = config.executionProviders?.map(nameOf) ?? config.instanceGroup.map(({ kind }) => kind)
    await Promise.all([...new Set(asked)].filter((name) => this.has(name)).map((name) => this.#open(name, executors)))
    for (const name of asked) {
      const opened = this.#opened.get(name)
      if (opened === undefined || opened.reason === null) continue
      const reason = `provider plugin '${name}' cannot be used: ${opened.reason}`
      // Kinds fall back to the CPU; a list to what it names.
      if (config.executionProviders?.every((provider) => this.has(nameOf(provider)) && !this.isUsable(nameOf(provider))) === true) {
        const hint = `Model '${model}' names no other of its executionProviders; add 'cpu' to fall back to`
        throw new InferenceError('ERR_NATIVE_LOAD', `${reason}. ${hint}`, { model, name: 'executionProviders', received: name })
      }
      this.#warn(name, `${reason}. Its models run without it`)
    }
  }

  /**
   * An entry of `executionProviders` as a session is to have it, once {@link open} has been called; `null` for a plugin that cannot
   * be used.
   *
   * @throws InferenceError `ERR_MODEL_CONFIG` for an option that the plugin cannot take.
   */
  use(model: string, entry: InferenceSession.ExecutionProviderConfig): InferenceSession.ExecutionProviderConfig | null {
    const name = nameOf(entry)
    if (!this.has(name)) return entry
    const { options: defaults, precision: usual } = this.#options.get(name)!
    const { devices, reason } = this.#opened.get(name)!
    if (reason !== null) return null
    const { name: _, device, deviceId = 0, precision = usual, ...own } = { ...defaults, ...(typeof entry === 'string' ? {} : entry) } as PluginEntry
    const wrong = (option: string, expected: string, received: unknown) =>
      invalidArgument(`executionProviders.${name}.${option}`, expected, received, { code: 'ERR_MODEL_CONFIG', model })
    if (precision !== undefined && !computePrecisions.includes(precision)) throw wrong('precision', `one of ${computePrecisions.join(', ')}`, precision)
    if (device !== undefined && typeof device !== 'string') throw wrong('device', 'the kind of a device, such as cpu', device)
    const chosen = chooseDevice(devices, device, deviceId)
    if (chosen === -1) {
      const there = devices.flatMap(deviceNames).join(', ')
      throw wrong(device === undefined ? 'deviceId' : 'device', `a device that the plugin offers here (${there})`, device ?? deviceId)
    }
    const known = knownProvider(devices[chosen]!)
    try {
      return new PluginProvider(name, chosen, known.entries(devices[chosen]!, precision, own), known.sharable, precision ?? null)
    } catch (error) {
      const [option, expected] = (error as Error).message.split(': expected ') as [string, string?]
      if (expected === undefined) throw new InferenceError('ERR_MODEL_CONFIG', `executionProviders.${name}.${option}`, { model, cause: error })
      throw wrong(option, expected, own[option])
    }
  }

  async #open(name: string, executors: Executors): Promise<void> {
    if (this.isUsable(name)) return
    const { library } = this.#options.get(name)!
    const needsNative = `it takes executor: 'native', and 'binding' is at work (${executors.reason})`
    const refused = { devices: [], reason: needsNative, taken: false }
    const opened = executors.kind === 'binding' ? refused : await untilAborted(openPlugin(openNativeOrt(), name, library), this.#ending.signal)
    this.#opened.set(name, opened)
    if (!opened.taken) return
    const hint = `${opened.reason}; a plugin is one for the process, so name it alike everywhere`
    throw invalidArgument(`options.providers.${name}.library`, 'the library that the process has under that name, and no other', library, { hint })
  }

  #warn(name: string, message: string): void {
    if (this.#warned.has(name)) return
    this.#warned.add(name)
    process.emitWarning(message, { type: 'ZerohopWarning', code: 'ZEROHOP_PROVIDER_FALLBACK' })
  }
}

/** An entry of `executionProviders` for a plugin, with the options that are ours. */
interface PluginEntry extends Record<string, unknown> {
  readonly device?: string
  readonly deviceId?: number
  readonly precision?: PluginProvider['precision'] & string
}

/** The name of a provider in a list. */
export function nameOf(provider: InferenceSession.ExecutionProviderConfig): string {
  return typeof provider === 'string' ? provider : provider.name
}
