import type { InferenceSession } from 'onnxruntime-common'
import { computePrecisions, PluginProvider, type ResolvedPlugin } from '../options/provider-options.ts'
import { nameOf } from '../options/session-options.ts'
import { InferenceError, invalidArgument } from '../errors.ts'
import { openNativeOrt } from './executors/native/native-ort.ts'
import { chooseDevice, deviceNames, knownProvider } from './executors/native/plugin-entries.ts'
import { openPlugin, tryPlugin, type OpenedPlugin } from './executors/native/plugin-registry.ts'
import { untilAborted } from '../request/abort-watch.ts'
import type { Executors } from './executor-choice.ts'

/** The provider plugins of an engine: opened when a model asks for them. */
export class EnginePlugins {
  readonly #options: ReadonlyMap<string, ResolvedPlugin>
  readonly #opened = new Map<string, OpenedPlugin>()
  /** What trying those has shown since that no model could be opened on. */
  readonly #tried = new Map<string, OpenedPlugin>()
  readonly #ending: AbortSignal

  /** @param ending fires when nobody waits for plugins any more. */
  constructor(plugins: readonly ResolvedPlugin[], ending: AbortSignal) {
    this.#options = new Map(plugins.map((plugin) => [plugin.name, plugin]))
    this.#ending = ending
  }

  /** Each with what came of opening or trying it; `null` for one that nobody has asked for. */
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

  /** Tries all that are not open, each in a process of its own, one after the other. */
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
      invalidArgument(`executionProviders.${name}.${option}`, expected, received, {
        code: 'ERR_MODEL_CONFIG',
        model,
      })
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
