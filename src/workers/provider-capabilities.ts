import type { ComputePrecision } from '../config/provider-options.ts'
import type { NativeOrt } from '../executor/native/native-ort.ts'
import { deviceNames } from '../executor/native/plugin-entries.ts'
import type { NativeProviderDevice } from '../memory/native-providers.ts'
import { cudaProviderInstalled } from './cuda-provider.ts'
import type { EnginePlugins } from './engine-plugins.ts'

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
  readonly source: 'built-in' | 'plugin'
  /** `null` where only opening a model shows it. */
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

/** @param ort ONNX Runtime as the addon has opened it; `null` where it has not been asked to. */
export function providerCapabilities(ort: NativeOrt | null, plugins: EnginePlugins): ProviderCapability[] {
  const builtIn = ort?.binding ? ort.binding.builtInProviders().map((name) => builtInCapability(name)) : []
  return [...plugins.all.map(({ options, opened }): ProviderCapability => {
    const { name, library, precision = null } = options
    const notYet = { available: null, reason: 'no model has asked for it', devices: [] }
    if (opened === null) return { name, source: 'plugin', library, precision, ...notYet }
    const found = { available: opened.reason === null, reason: opened.reason ?? 'it ran a model in a process of its own' }
    return { name, source: 'plugin', library, precision, ...found, devices: opened.devices.map(describeDevice) }
  }), ...builtIn] // prettier-ignore
}

/** One that is built in, by ONNX Runtime's name. */
export function builtInCapability(provider: string): ProviderCapability {
  const name = provider.replace(/ExecutionProvider$/, '').toLowerCase()
  const known = (available: boolean | null, reason: string): ProviderCapability => ({ name, source: 'built-in', available, reason, devices: [] })
  if (name === 'cpu') return known(true, 'always there')
  if (name !== 'cuda' && name !== 'tensorrt') return known(null, 'whether it finds a device shows when a model is opened on it')
  if (cudaProviderInstalled()) return known(null, 'its library is installed; whether it finds a device shows when a model is opened on it')
  return known(false, 'its library, which onnxruntime-node downloads apart, is not installed')
}

export function describeDevice(device: NativeProviderDevice): ProviderDevice {
  return { device: deviceNames(device)[0]!, name: device.metadata['FULL_DEVICE_NAME'] ?? device.hardwareVendor }
}
