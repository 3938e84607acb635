import type { InstanceGroup, InstanceKind } from '../config/model-config.ts'
import type { ConfigFields } from './config-fields.ts'
import { defined } from './defined.ts'

const kinds = ['KIND_AUTO', 'KIND_GPU', 'KIND_CPU', 'KIND_MODEL'] as const
const served: Readonly<Record<Exclude<(typeof kinds)[number], 'KIND_MODEL'>, InstanceKind>> = {
  KIND_AUTO: 'auto',
  KIND_GPU: 'cuda',
  KIND_CPU: 'cpu',
}

const rules = {
  noted: {
    name: 'instances have no names',
    host_policy: 'threads are not bound to cores',
  },
  refused: {
    rate_limiter: 'Instances share a worker by the time they take',
    secondary_devices: 'It is for TensorRT only',
    profile: 'It is for TensorRT only',
    passive: 'Every instance serves requests',
  },
}

/** Reads `instance_group`. */
export function readInstanceGroups(config: ConfigFields): InstanceGroup[] | undefined {
  const groups = config.messages('instance_group').map(readGroup)
  return groups.length === 0 ? undefined : groups
}

function readGroup(group: ConfigFields): InstanceGroup {
  const kind = group.enumerator('kind', kinds) ?? 'KIND_AUTO'
  const gpus = group.integers('gpus', 0)
  if (kind === 'KIND_MODEL') group.fail('kind', 'KIND_AUTO, KIND_CPU or KIND_GPU', kind)
  if (gpus.length > 0 && kind !== 'KIND_GPU') {
    group.fail('gpus', `to be left out for ${kind}`, gpus, 'KIND_GPU takes a list of GPUs')
  }
  if (gpus.length === 0 && kind === 'KIND_GPU') {
    group.note(group.has('kind') ? 'kind' : 'gpus', 'without gpus, GPU 0 is used rather than all there are')
  }
  const read = defined({
    kind: served[kind],
    count: group.integer('count', 0) || undefined,
    gpus: gpus.length === 0 ? undefined : gpus,
  })
  group.finish(rules)
  return read
}
