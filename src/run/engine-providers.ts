import type { InferenceSession } from 'onnxruntime-common'
import type { InstanceKind } from '../options/instance-groups.ts'
import type { ResolvedPlugin, ComputePrecision } from '../options/engine-options.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import { forbidsCpu, nameOf } from '../options/session-options.ts'
import { invalidArgument, type InferenceError } from '../errors.ts'
import { ThreadEndedError } from './executors/executor.ts'
import { openNativeOrt } from './executors/native/native-ort.ts'
import { letGoOfTrials } from './executors/native/trial-process.ts'
import { loadBinding } from '../native/addon.ts'
import type { ModelProvider } from '../tensor/metadata.ts'
import { untilAborted } from '../base/abort-watch.ts'
import { BuiltInProviders, type BuiltIn } from './built-in-providers.ts'
import { EnginePlugins, deviceNames } from './provider-plugins.ts'
import type { Executors } from './executor-choice.ts'
import type { NativeProviderDevice } from '../native/native-binding.ts'
import { warn } from '../base/warnings.ts'

type Entry = InferenceSession.ExecutionProviderConfig

/** The ordinals of all GPUs; the first where none is known, so that errors speak of that one. */
export function allGpus(): readonly number[] {
  const ordinals =
    loadBinding()
      .binding?.cudaProbe()
      .devices.map(({ ordinal }) => ordinal) ?? []
  return ordinals.length === 0 ? [0] : ordinals
}

/** An execution provider that a model asks for, in its list or by the kind of its instances. */
interface Wanted {
  readonly name: string
  /** Whether the model may not be loaded without it. */
  readonly required: boolean
}

/**
 * Which execution providers the models of an engine have: those that they ask for, without those that cannot be used. Plugins are
 * tried before they are opened. Of what is built into ONNX Runtime only what is known to be absent is left out; should sessions
 * not be opened for want of another, that is found out by trying it, and they are opened without it.
 */
export class EngineProviders {
  readonly plugins: EnginePlugins
  readonly builtIn = new BuiltInProviders()
  /** The built-in providers that the sessions of a model are to have, by its configuration. */
  readonly #using = new WeakMap<ResolvedConfig, readonly string[]>()
  readonly #warned = new Set<string>()
  readonly #ending = new AbortController()

  constructor(plugins: readonly ResolvedPlugin[]) {
    this.plugins = new EnginePlugins(plugins, this.#ending.signal)
  }

  /** Waits for no trial any more. */
  end(): void {
    this.#ending.abort(new ThreadEndedError())
    letGoOfTrials()
  }

  /**
   * Makes ready what a model asks for, and warns once of each that it is loaded without.
   *
   * @throws InferenceError `ERR_MODEL_LOAD` when one that is required cannot be used, or none of those that are listed;
   * `ERR_INVALID_ARG` when the process has another library under the name of a plugin.
   */
  async prepare(model: string, config: ResolvedConfig, executors: Executors): Promise<void> {
    const wanted = this.#wantedBy(config)
    if (executors.kind === 'native') this.builtIn.readNames(openNativeOrt())
    await this.plugins.open(
      wanted.map(({ name }) => name),
      executors,
    )
    const builtIn = this.#builtInOf(config)
    this.builtIn.asked(builtIn)
    const absent = wanted.flatMap((each) => {
      const reason = this.#reasonAgainst(each.name)
      return reason === null ? [] : [{ ...each, reason }]
    })
    const needed = absent.filter(({ required }) => required)
    if (needed.length > 0) throw absenceError(model, config, needed)
    const noneLeft = wanted.every(
      ({ name }) => absent.some((each) => each.name === name) || (name === 'cpu' && forbidsCpu(config)),
    )
    if (absent.length > 0 && noneLeft && config.executionProviders !== undefined)
      throw absenceError(model, config, absent)
    for (const { name, reason } of absent) this.#warn(name, reason)
    this.#using.set(
      config,
      builtIn.filter((name) => name !== 'cpu' && this.builtIn.about(name).available !== false),
    )
  }

  /**
   * An entry of `executionProviders` as a session is to have it, once {@link prepare} has been called; `null` for one that cannot
   * be used.
   *
   * @throws InferenceError `ERR_MODEL_CONFIG` for an option that a plugin cannot take.
   */
  use(model: string, entry: Entry): Entry | null {
    if (this.plugins.has(nameOf(entry))) return this.plugins.use(model, entry)
    if (this.#reasonAgainst(nameOf(entry)) !== null) return null
    if (typeof entry === 'string' || !('required' in entry)) return entry
    const { required: _, ...rest } = entry
    return rest as Entry
  }

  /**
   * Whether sessions of a model, which could not be opened, were to have a provider that turns out to be absent: they may be
   * opened without it. What is not known yet is tried, each by itself and without options, in a separate process.
   */
  async lacking(config: ResolvedConfig): Promise<boolean> {
    let any = false
    for (const name of this.#using.get(config) ?? []) {
      const { available, reason } = await untilAborted(this.builtIn.try(name), this.#ending.signal)
      if (available !== false) continue
      any = true
      if (!this.#wantedBy(config).some((wanted) => wanted.name.toLowerCase() === name))
        this.#warn(name, reason) // kind `auto` has chosen it
    }
    return any
  }

  /** Whether a model's sessions have no execution provider but the CPU's, once {@link prepare} has been called. */
  leaveCpuOnly(config: ResolvedConfig): boolean {
    const { executionProviders, instanceGroup } = config
    const names =
      executionProviders?.map(nameOf) ??
      instanceGroup.map(({ kind, gpus }) => this.placedOn(kind, config, gpus))
    return names.every((name) => name.toLowerCase() === 'cpu' || this.#reasonAgainst(name) !== null)
  }

  /** Takes note that a model's sessions are open, and says which providers they have. */
  opened(config: ResolvedConfig): readonly ModelProvider[] {
    for (const name of this.#using.get(config) ?? []) this.builtIn.opened(name)
    const names =
      config.executionProviders?.map(nameOf) ??
      config.instanceGroup.flatMap(({ kind }) => (kind === 'auto' ? ['cuda', 'cpu'] : [kind, 'cpu']))
    return [...new Set(names)].map((name) => {
      const reason =
        name === 'cpu' && forbidsCpu(config)
          ? 'session.disable_cpu_ep_fallback forbids it'
          : this.#reasonUnused(name, config)
      return Object.freeze({ name, used: reason === null, reason })
    })
  }

  /** The kind of device that a kind of instance is put on. */
  placedOn(
    kind: InstanceKind,
    { executionProviders }: ResolvedConfig,
    gpus: readonly number[] | 'all',
  ): InstanceKind {
    if (this.plugins.has(kind)) return this.plugins.isUsable(kind) ? kind : 'cpu'
    if (kind !== 'auto') return kind
    return executionProviders === undefined && this.#reasonAgainstAuto(gpus) === null ? 'cuda' : 'cpu'
  }

  /** Whether all sessions on a provider have to be run by one thread: two in it at once end the process. */
  needsOneThread(name: string): boolean {
    return (
      this.plugins.needsOneThread(name) ||
      (name.toLowerCase() === 'webgpu' && !this.plugins.has(name) && this.#reasonAgainst(name) === null)
    )
  }

  /** Tries all, those that are built in and the plugins, each in a separate process; until {@link end}. */
  async tryAll(executors: Executors): Promise<void> {
    if (executors.kind === 'native') this.builtIn.readNames(openNativeOrt())
    const { signal } = this.#ending
    await untilAborted(
      this.builtIn.tryAll(signal).then(() => this.plugins.tryAll(executors)),
      signal,
    ).catch((error) => {
      if (!signal.aborted) throw error
    })
  }

  /** What has to be there: what the user says, and kinds that mean a GPU. The kind of a plugin falls back to the CPU. */
  #wantedBy(config: ResolvedConfig): Wanted[] {
    const { executionProviders, instanceGroup, required } = config
    if (executionProviders !== undefined) {
      return executionProviders.map((entry) => ({
        name: nameOf(entry),
        required: required || (typeof entry !== 'string' && 'required' in entry && entry.required === true),
      }))
    }
    return instanceGroup
      .filter(({ kind }) => kind !== 'auto')
      .map(({ kind }) => ({
        name: kind,
        required: required || forbidsCpu(config) || !this.plugins.has(kind),
      }))
  }

  /** Names of the built-in providers that the sessions of a model may have. */
  #builtInOf(config: ResolvedConfig): string[] {
    const names =
      config.executionProviders?.map(nameOf) ??
      config.instanceGroup.map(({ kind, gpus }) => this.placedOn(kind, config, gpus))
    return [...new Set(names)].filter((name) => !this.plugins.has(name)).map((name) => name.toLowerCase())
  }

  #reasonAgainst(name: string): string | null {
    if (this.plugins.has(name)) return this.plugins.reasonAgainst(name)
    const { available, reason } = this.builtIn.about(name.toLowerCase())
    return available === false ? reason : null
  }

  /** Why instances of kind `auto` are not put on CUDA; `null` where they are. */
  #reasonAgainstAuto(gpus: readonly number[] | 'all'): string | null {
    const { binding } = loadBinding()
    if (binding === null) return 'the native addon, which looks for its driver, is not loaded'
    const { available, reason } = binding.cudaProbe()
    if (!available) return reason
    const missing = gpus === 'all' ? [] : gpus.filter((gpu) => !allGpus().includes(gpu))
    return missing.length > 0 ? `there is no GPU ${missing.join(', ')}` : this.#reasonAgainst('cuda')
  }

  #reasonUnused(name: string, { executionProviders, instanceGroup }: ResolvedConfig): string | null {
    const onlyAuto =
      name === 'cuda' &&
      executionProviders === undefined &&
      !instanceGroup.some(({ kind }) => kind === 'cuda')
    if (!onlyAuto) return this.#reasonAgainst(name)
    const reasons = instanceGroup.flatMap(({ kind, gpus }) =>
      kind === 'auto' ? [this.#reasonAgainstAuto(gpus)] : [],
    )
    return reasons.includes(null) ? null : reasons[0]!
  }

  #warn(name: string, reason: string): void {
    if (this.#warned.has(name)) return
    this.#warned.add(name)
    const what = this.plugins.has(name) ? 'provider plugin' : 'execution provider'
    const message = `${what} '${name}' cannot be used: ${reason}. Models run without it`
    warn('ZEROHOP_PROVIDER_FALLBACK', message)
  }
}

function absenceError(
  model: string,
  { executionProviders }: ResolvedConfig,
  absent: readonly (Wanted & { readonly reason: string })[],
): InferenceError {
  const isListed = executionProviders !== undefined
  const isRequired = absent.every(({ required }) => required)
  const otherwise = !isListed
    ? "Kind 'auto' takes the CPU where there is no GPU"
    : isRequired
      ? "Without 'required' the next that is listed is taken"
      : "List 'cpu' as well to fall back to it"
  const reasons = absent.map(({ name, reason }) => `${name}: ${reason}`).join('; ')
  const names = [...new Set(absent.map(({ name }) => name))]
  const details = { code: 'ERR_MODEL_LOAD', model, hint: `${reasons}. ${otherwise}` } as const
  return invalidArgument(
    isListed ? 'executionProviders' : 'instanceGroup',
    'execution providers that can be used here',
    names,
    details,
  )
}

/** A device that a provider offers. */
export interface ProviderDevice {
  /** By what `executionProviders` ask for it: `cpu`, `gpu`, `npu`, or what the provider calls a combination. */
  readonly device: string
  /** As its provider, or else its vendor, calls it. */
  readonly name: string
}

/** An execution provider, and whether it can be used here. */
export interface ProviderCapability {
  /** As `executionProviders` have it. */
  readonly name: string
  /** Whether ONNX Runtime has it itself. */
  readonly source: 'built-in' | 'plugin'
  /** `null` where only trying it, or opening a model on it, shows it. */
  readonly available: boolean | null
  /** Why, or why not. */
  readonly reason: string
  /** Of a plugin. */
  readonly library?: string
  /** Of a plugin: the type of numbers it was told to compute in, unless a model says otherwise; `null` for its own choice. */
  readonly precision?: ComputePrecision | null
  /** Of a plugin that can be used. */
  readonly devices: readonly ProviderDevice[]
}

/** What an engine knows of execution providers, the plugins first. */
export function providerCapabilities({ plugins, builtIn }: EngineProviders): ProviderCapability[] {
  return [...plugins.all.map(({ options, opened }): ProviderCapability => {
    const { name, library, precision = null } = options
    const notYet = { available: null, reason: 'no model uses it', devices: [] }
    if (opened === null) return { name, source: 'plugin', library, precision, ...notYet }
    const found = { available: opened.reason === null, reason: opened.reason ?? 'it ran a model in a separate process' }
    return { name, source: 'plugin', library, precision, ...found, devices: opened.devices.map(describeDevice) }
  }), ...builtIn.all.map(builtInCapability)] // prettier-ignore
}

export function builtInCapability(known: BuiltIn): ProviderCapability {
  return { ...known, source: 'built-in', devices: [] }
}

export function describeDevice(device: NativeProviderDevice): ProviderDevice {
  return {
    device: deviceNames(device)[0]!,
    name: device.metadata['FULL_DEVICE_NAME'] ?? device.hardwareVendor,
  }
}
