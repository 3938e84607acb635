import type { ProviderCapability } from '../index.ts'
import type { DeviceReport } from './device-report.ts'
import { oneLine } from './command-line.ts'

/** A report as text. */
export function devicesText(report: DeviceReport): string {
  const { cores, memory, cuda, executor, staging, native, providers, telemetry } = report
  const rows: [name: string, lines: readonly string[]][] = [
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
  ]
  return rows
    .flatMap(([name, lines]) =>
      lines.map((text, index) => `${(index === 0 ? name : '').padEnd(14)}${oneLine(text)}\n`),
    )
    .join('')
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
