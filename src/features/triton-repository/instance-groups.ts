import type { InstanceGroup } from '../../options/instance-group.ts'
import type { ConfigFields } from './config-fields.ts'

const rules = {
  noted: {
    name: 'instances have the name of the model and a number',
    host_policy: 'threads are not bound to cores',
  },
  refused: {
    rate_limiter:
      'Instances share a worker by the time they take: give weight in a config.ts for another share',
    secondary_devices: 'They are for TensorRT only',
    profile: 'It is for TensorRT only',
    passive: 'Every instance serves requests: leave the group out',
  },
}

/** Instances of a group on the CPU that does not say how many; Triton's number for ONNX Runtime. */
const defaultCpuCount = 2

/** Where the instances of a model may be. */
export type GroupKind = 'KIND_AUTO' | 'KIND_GPU' | 'KIND_CPU' | 'KIND_MODEL'

/** Reads `instance_group`; without one there is one of kind `KIND_AUTO`, as in Triton. */
export function readInstanceGroups(config: ConfigFields): {
  groups: InstanceGroup[]
  kinds: ReadonlySet<GroupKind>
} {
  const read = config.messages('instance_group').map(readGroup)
  const all = read.length > 0 ? read : [{ kind: 'KIND_AUTO' as const, group: auto(undefined, []) }]
  return { groups: all.map(({ group }) => group), kinds: new Set(all.map(({ kind }) => kind)) }
}

function readGroup(fields: ConfigFields): { kind: GroupKind; group: InstanceGroup } {
  const kind = fields.enumerator<GroupKind>('kind') ?? 'KIND_AUTO'
  const count = fields.integer('count', 0) || undefined
  const gpus = fields.integers('gpus', 0)
  if (gpus.length > 0 && (kind === 'KIND_CPU' || kind === 'KIND_MODEL')) {
    fields.fail('gpus', `to be left out for ${kind}`, gpus, 'KIND_GPU and KIND_AUTO take a list of GPUs')
  }
  if (kind === 'KIND_MODEL')
    fields.note('kind', "as in Triton's backend for ONNX Runtime, instances of KIND_MODEL run on the CPU")
  fields.finish(rules)
  if (kind === 'KIND_AUTO') return { kind, group: auto(count, gpus) }
  if (kind === 'KIND_GPU')
    return { kind, group: { kind: 'cuda', count: count ?? 1, gpus: gpus.length === 0 ? 'all' : gpus } }
  return { kind, group: { kind: 'cpu', count: count ?? (kind === 'KIND_CPU' ? defaultCpuCount : 1) } }
}

function auto(count: number | undefined, gpus: readonly number[]): InstanceGroup {
  return {
    kind: 'auto',
    count: count ?? 1,
    cpuCount: count ?? defaultCpuCount,
    gpus: gpus.length === 0 ? 'all' : gpus,
  }
}
