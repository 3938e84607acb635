import { Command } from 'commander'
import {
  availableCores,
  availableMemory,
  type AvailableCores,
  type AvailableMemory,
} from '../base/available-resources.ts'
import { InferenceEngine, type Capabilities, type ProviderCapability } from '../index.ts'
import { failureOf, printReport, tableText, type Failure } from './command-line.ts'

/** `zerohop devices`: what models would run on, and why. */
export const devices = new Command('devices')
  .description(
    'show what models run on here, and why: cores, GPUs, execution providers, executor and staging memory',
  )
  .option('-j, --json', 'print JSON', false)
  .action(async ({ json }: { json: boolean }) => printReport(await lookAround(), json, devicesText))

/**
 * The result of `zerohop devices`: what an engine uses once it serves a model, and the result of trying the
 * execution providers.
 */
export interface DeviceReport extends Omit<Capabilities, 'cpu'> {
  readonly cores: AvailableCores
  readonly memory: AvailableMemory
  /** Why even the smallest model cannot be served. */
  readonly error?: Failure
}

/** Serves the smallest possible model: an engine makes its choices at the first load. */
async function lookAround(): Promise<DeviceReport> {
  process.removeAllListeners('warning') // about fallbacks, which the report contains
  const engine = new InferenceEngine()
  let error: Failure | undefined
  try {
    await engine.load('identity', { bytes: identity, instanceGroup: [{ kind: 'cpu' }] })
    await engine.probeProviders()
  } catch (cause) {
    error = failureOf(cause)
  }
  const { cpu: _, ...capabilities } = engine.capabilities()
  await engine.close()
  return {
    cores: availableCores(),
    memory: availableMemory(),
    ...capabilities,
    ...(error === undefined ? {} : { error }),
  }
}

/** An ONNX model of one operator: `y = Identity(x)`, both float32 of shape ['N']. */
const identity = Buffer.from(
  'CAg6QAoQCgF4EgF5IghJZGVudGl0eRIIaWRlbnRpdHlaEAoBeBILCgkIARIFCgMSAU5iEAoBeRILCgkIARIFCgMSAU5CAhAR',
  'base64',
)

/** A report as text. */
function devicesText(report: DeviceReport): string {
  const { cores, memory, cuda, executor, staging, native, providers, telemetry } = report
  return tableText(14, [
    ['cores', [`${cores.usable}${limits(cores)}`]],
    [
      'memory',
      [
        `${gibibytes(memory.usableBytes)}${memory.limitBytes === null ? '' : ` of ${gibibytes(memory.machineBytes)}, by its control group`}`,
      ],
    ],
    [
      'GPUs',
      cuda.available
        ? cuda.devices.map(
            ({ ordinal, name, totalBytes }) => `cuda:${ordinal} ${name}, ${gibibytes(totalBytes)}`,
          )
        : [`none for CUDA: ${cuda.reason}`],
    ],
    ['executor', [`${executor.kind ?? 'none'}: ${executor.reason}`]],
    ['ONNX Runtime', [report.onnxruntime ?? executor.ortVersion ?? 'none']],
    ['Node.js', [report.node]],
    ['addon', [native.available ? native.path! : `none: ${native.reason}`]],
    ['staging', [`${staging.kind ?? 'none'}: ${staging.reason}`]],
    ['providers', providers.length === 0 ? ['not known without ONNX Runtime'] : providers.map(provider)],
    ['telemetry', [`${telemetry.off ? 'off' : 'on'}: ${telemetry.reason}`]],
  ])
}

const gibibytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`

/** Why fewer cores are used than the machine has. */
function limits({ machine, allowed, quota, usable }: DeviceReport['cores']): string {
  if (usable === machine) return ''
  const group = quota === null ? '' : `, and its control group the time of ${Number(quota.toFixed(2))}`
  return ` of ${machine}: this process may run on ${allowed}${group}`
}

function provider({ name, source, available, reason }: ProviderCapability): string {
  return `${name} (${source}): ${available === null ? 'perhaps' : available ? 'yes' : 'no'}, ${reason}`
}
