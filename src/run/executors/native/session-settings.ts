import type { InferenceSession } from 'onnxruntime-common'
import type { OpenOptions } from '../../../options/session-options.ts'
import { bytesId } from '../executor.ts'
import { PluginProvider } from '../../../options/engine-options.ts'

/** One setting of a session as the addon takes it. */
export interface SessionSetting {
  readonly name: string
  readonly key?: string
  readonly value?: string
  /** Options of an execution provider. */
  readonly entries?: Readonly<Record<string, string>>
  /** Contents of a file. */
  readonly bytes?: Uint8Array
}

const optimizationLevels: Readonly<Record<string, number>> = {
  disabled: 0,
  basic: 1,
  extended: 2,
  layout: 3,
  all: 99,
}
const executionModes: Readonly<Record<string, number>> = { sequential: 0, parallel: 1 }

/** ONNX Runtime's names of the execution providers that onnxruntime-node knows by others. */
const providerNames: Readonly<Record<string, string>> = {
  cuda: 'CUDA', tensorrt: 'TensorRT', coreml: 'CoreML', dml: 'DML', qnn: 'QNN', webgpu: 'WebGPU', xnnpack: 'XNNPACK', openvino: 'OpenVINO',
} // prettier-ignore

/** Those of which one session must not be run by two threads at once. */
const oneRunAtOnce = new Set(['webgpu', 'dml', 'tensorrt', 'xnnpack'])

/** Session options as a list of settings, in the order in which they are made. */
export function sessionSettings(options: OpenOptions): SessionSetting[] {
  const settings: SessionSetting[] = []
  const add = (name: string, value: unknown): void => {
    if (value !== undefined) settings.push({ name, value: String(value) })
  }
  const flag = (value: boolean | undefined) => (value === undefined ? undefined : Number(value))
  add('intraOpNumThreads', options.intraOpNumThreads)
  add('interOpNumThreads', options.interOpNumThreads)
  add('executionMode', numbered('executionMode', executionModes, options.executionMode))
  add(
    'graphOptimizationLevel',
    numbered('graphOptimizationLevel', optimizationLevels, options.graphOptimizationLevel),
  )
  add('enableCpuMemArena', flag(options.enableCpuMemArena))
  add('enableMemPattern', flag(options.enableMemPattern))
  add('optimizedModelFilePath', options.optimizedModelFilePath)
  if (options.enableProfiling === true)
    add('profileFilePrefix', options.profileFilePrefix ?? 'onnxruntime_profile_')
  add('logId', options.logId)
  add('logSeverityLevel', options.logSeverityLevel)
  add('logVerbosityLevel', options.logVerbosityLevel)
  for (const [key, length] of Object.entries(options.freeDimensionOverrides ?? {})) {
    settings.push({ name: 'freeDimension', key, value: String(length) })
  }
  for (const [key, length] of Object.entries(options.freeDimensionOverridesByDenotation ?? {})) {
    settings.push({ name: 'freeDimensionByDenotation', key, value: String(length) })
  }
  for (const file of options.externalData ?? []) {
    const { path, data } = file as { path: string; data: Uint8Array } // they have been checked
    settings.push({ name: 'externalFile', key: path, value: String(bytesId(data.buffer)), bytes: data })
  }
  for (const [key, value] of Object.entries(options.runEntries ?? {}))
    settings.push({ name: 'runConfig', key, value })
  for (const [key, value] of Object.entries((options.extra ?? {}) as Record<string, string>))
    settings.push({ name: 'config', key, value })
  for (const provider of options.executionProviders ?? []) settings.push(...providerSetting(provider))
  return settings
}

/** Whether threads may run one session with these options at the same time. */
export function sharable({ executionProviders = [] }: InferenceSession.SessionOptions): boolean {
  return executionProviders.every((provider) =>
    provider instanceof PluginProvider ? provider.sharable : !oneRunAtOnce.has(nameOf(provider)),
  )
}

function providerSetting(provider: InferenceSession.ExecutionProviderConfig): SessionSetting[] {
  if (provider instanceof PluginProvider)
    return [{ name: 'plugin', key: provider.name, value: String(provider.device), entries: provider.entries }]
  const name = nameOf(provider)
  // It is always there, last.
  if (name === 'cpu')
    return typeof provider === 'object' && 'useArena' in provider
      ? [{ name: 'enableCpuMemArena', value: String(Number(provider.useArena)) }]
      : []
  const {
    name: _,
    deviceId,
    ...rest
  } = typeof provider === 'string' ? { name: provider } : (provider as { name: string; deviceId?: number })
  const given = Object.entries({ ...(deviceId === undefined ? {} : { device_id: deviceId }), ...rest })
  return [
    {
      name: 'provider',
      key: providerNames[name] ?? name,
      entries: Object.fromEntries(given.map(([key, value]) => [key, String(value)])),
    },
  ]
}

function nameOf(provider: InferenceSession.ExecutionProviderConfig): string {
  return (typeof provider === 'string' ? provider : provider.name).toLowerCase()
}

function numbered(
  option: string,
  numbers: Readonly<Record<string, number>>,
  value: string | undefined,
): number | undefined {
  if (value === undefined) return undefined
  const number = Object.hasOwn(numbers, value) ? numbers[value] : undefined
  if (number === undefined)
    throw new Error(`${option} is one of ${Object.keys(numbers).join(', ')}, not ${value}`)
  return number
}
