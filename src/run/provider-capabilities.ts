import type { ComputePrecision } from '../options/provider-options.ts'
import { deviceNames } from './executors/native/plugin-entries.ts'
import type { NativeProviderDevice } from '../native/native-providers.ts'
import type { BuiltIn } from './built-in-providers.ts'
import type { EngineProviders } from './engine-providers.ts'

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
    const notYet = { available: null, reason: 'no model has asked for it', devices: [] }
    if (opened === null) return { name, source: 'plugin', library, precision, ...notYet }
    const found = { available: opened.reason === null, reason: opened.reason ?? 'it ran a model in a process of its own' }
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
