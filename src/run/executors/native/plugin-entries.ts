import type { ComputePrecision } from '../../../options/provider-options.ts'
import type { NativeProviderDevice } from '../../../native/native-providers.ts'

/** Options of a plugin's sessions as a user gives them. */
export type PluginOptions = Readonly<Record<string, unknown>>

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
