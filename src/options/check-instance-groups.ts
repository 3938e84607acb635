import { invalidArgument } from '../errors.ts'
import type { InstanceKind } from './instance-group.ts'
import { maxInstances } from './scaling-options.ts'

/** Kinds of instances that need no plugin. */
const kinds: readonly InstanceKind[] = ['auto', 'cpu', 'cuda', 'webgpu']

/**
 * Checks groups of instances against each other, and their kinds.
 *
 * @param plugins names of provider plugins, which are kinds as well.
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkGroups(
  model: string,
  groups: readonly {
    kind: string
    count: number
    cpuCount?: number | undefined
    gpus?: readonly number[] | 'all' | undefined
  }[],
  plugins: readonly string[],
): void {
  const known = [...kinds, ...plugins]
  const instances = groups.reduce(
    (sum, { count, cpuCount = 0, gpus = [0] }) =>
      sum + Math.max(cpuCount, count * (gpus === 'all' ? 1 : gpus.length)),
    0,
  )
  if (instances > maxInstances) {
    throw invalidArgument('instanceGroup', `at most ${maxInstances} instances in all`, instances, {
      code: 'ERR_MODEL_CONFIG',
      model,
    })
  }
  for (const [index, { kind, gpus }] of groups.entries()) {
    if (!known.includes(kind)) {
      const hint = "A provider plugin's name is a kind once it is among the engine's options.providers"
      const expected = known.map((name) => `'${name}'`).join(', ')
      throw invalidArgument(`instanceGroup[${index}].kind`, `one of ${expected}`, kind, {
        code: 'ERR_MODEL_CONFIG',
        model,
        hint,
      })
    }
    if (gpus === undefined || kind === 'cuda' || kind === 'auto') continue
    throw invalidArgument(`instanceGroup[${index}].gpus`, `to be left out for kind '${kind}'`, gpus, {
      code: 'ERR_MODEL_CONFIG',
      model,
    })
  }
}
