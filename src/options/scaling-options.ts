import * as v from 'valibot'
import { invalidArgument } from '../errors.ts'
import type { InstanceGroup } from './instance-group.ts'

/** Of all groups of a model: with some execution providers each is a session of its own. */
export const maxInstances = 256

const instances = v.optional(
  v.pipe(v.number(), v.integer('a whole number'), v.minValue(1), v.maxValue(maxInstances)),
)
const durationMs = v.pipe(
  v.number(),
  v.check((ms) => ms > 0 && ms < 2 ** 31, 'milliseconds, more than 0 and less than 2^31'),
)

/** What a group says of how many instances it has. */
export const scalingEntries = {
  count: instances,
  minInstances: instances,
  maxInstances: instances,
  scaleUpAfterMs: v.optional(durationMs, 100),
  scaleDownAfterMs: v.optional(durationMs, 10_000),
}

type Counts = Required<Pick<InstanceGroup, 'count' | 'minInstances' | 'maxInstances'>>
type GivenCounts = { readonly [Key in keyof Counts | 'cpuCount']?: number | undefined }

/** How many instances a group begins with, and between which numbers it scales by itself. */
export function resolveCounts({ count, minInstances, maxInstances }: GivenCounts): Counts {
  const first = count ?? minInstances ?? 1
  return { count: first, minInstances: minInstances ?? first, maxInstances: maxInstances ?? first }
}

/**
 * Checks the counts of each group against each other.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkCounts(model: string, groups: readonly GivenCounts[]): void {
  for (const [index, group] of groups.entries()) {
    const { count, minInstances, maxInstances } = resolveCounts(group)
    const wrong = (name: string, expected: string, received: number) =>
      invalidArgument(`instanceGroup[${index}].${name}`, expected, received, {
        code: 'ERR_MODEL_CONFIG',
        model,
      })
    if (group.minInstances !== undefined && group.maxInstances !== undefined && minInstances > maxInstances)
      throw wrong('minInstances', `at most maxInstances (${maxInstances})`, minInstances)
    if (count < minInstances) throw wrong('count', `at least minInstances (${minInstances})`, count)
    if (count > maxInstances) throw wrong('count', `at most maxInstances (${maxInstances})`, count)
    const { cpuCount = count } = group
    const scales = minInstances < maxInstances
    if (scales && (cpuCount < minInstances || cpuCount > maxInstances))
      throw wrong(
        'cpuCount',
        `from minInstances to maxInstances (${minInstances} to ${maxInstances})`,
        cpuCount,
      )
  }
}
