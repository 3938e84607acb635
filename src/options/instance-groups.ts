import * as v from 'valibot'
import { checkRules, declares, durationMs, optionsOf, wholeNumber } from './options-schema.ts'

/** Where instances of a model run. The name of a provider plugin (`EngineOptions.providers`) is also a kind. */
export type InstanceKind = 'auto' | 'cpu' | 'cuda' | 'webgpu' | (string & {})

/** A group of identical instances; Triton's `instance_group`. */
export interface InstanceGroup {
  /**
   * Default `'auto'`: CUDA if driver and provider are found, else the CPU. With `'cuda'` or `'webgpu'` the load fails
   * if it is not available. The kind of a plugin falls back to the CPU, with a warning.
   */
  kind?: InstanceKind
  /**
   * Instances opened at load (per GPU for `cuda`); `model.scale()` changes the number. Default: `minInstances`, else 1.
   */
  count?: number
  /**
   * Replaces `count` where `'auto'` falls back to the CPU. In a group that autoscales it must be within its limits.
   * Default: `count`.
   */
  cpuCount?: number
  /** Fewest instances (per GPU for `cuda`) when autoscaling. Default: `count`. */
  minInstances?: number
  /**
   * Most instances (per GPU for `cuda`) when autoscaling. Instances beyond the number of workers (`cpuWorkers`) share
   * them. Default: `count`. Without this and `minInstances` the group does not autoscale.
   */
  maxInstances?: number
  /**
   * Milliseconds of waiting that make the group grow. It adds an instance when requests have waited longer than this,
   * with no idle instance and without the wait shrinking, for three times as long. Set it to several times the duration
   * of a run. Default 100.
   */
  scaleUpAfterMs?: number
  /**
   * Milliseconds after which an instance is removed: either one instance was idle for that long, or the remaining ones
   * would have been busy for less than half of that time. Whenever a removed instance was soon needed again the time
   * doubles, to at most 16 times this value. Default 10 000.
   */
  scaleDownAfterMs?: number
  /**
   * CUDA device ordinals, or all devices. For `cuda`, and for `auto`, which uses the CPU if one of them is missing.
   * Default `[0]`.
   */
  gpus?: readonly number[] | 'all'
}

/** Most instances over all groups of a model: with some execution providers each has its own session. */
export const maxInstances = 256

const instances = v.optional(wholeNumber(1, maxInstances))

/** Schema of a group's instance counts. */
export const scalingEntries = {
  count: instances,
  minInstances: instances,
  maxInstances: instances,
  scaleUpAfterMs: v.optional(durationMs, 100),
  scaleDownAfterMs: v.optional(durationMs, 10_000),
}

/** Schema of an entry of `instanceGroup`. */
export const groupSchema = declares<InstanceGroup>()({
  kind: v.optional(v.string(), 'auto'),
  ...scalingEntries,
  cpuCount: instances,
  gpus: v.optional(v.union([v.literal('all'), v.pipe(v.array(wholeNumber(0)), v.minLength(1))])),
})

type Counts = Required<Pick<InstanceGroup, 'count' | 'minInstances' | 'maxInstances'>>
type GivenCounts = { readonly [Key in keyof Counts]?: number | undefined }

/** The initial number of instances of a group, and its limits for autoscaling. */
export function resolveCounts({ count, minInstances, maxInstances }: GivenCounts): Counts {
  const first = count ?? minInstances ?? 1
  return { count: first, minInstances: minInstances ?? first, maxInstances: maxInstances ?? first }
}

/** Kinds that need no plugin. */
const kinds: readonly InstanceKind[] = ['auto', 'cpu', 'cuda', 'webgpu']

/**
 * Checks the counts and the kind of each group, and groups against each other.
 *
 * @param plugins names of provider plugins, which are kinds as well.
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkGroups(
  model: string,
  groups: readonly v.InferOutput<typeof groupSchema>[],
  plugins: readonly string[],
): void {
  for (const [index, group] of groups.entries()) {
    const at = `instanceGroup[${index}]`
    const { count, minInstances: least, maxInstances: most } = resolveCounts(group)
    const { cpuCount = count } = group
    const isReversed = group.minInstances !== undefined && group.maxInstances !== undefined && least > most
    const isOutside = least < most && (cpuCount < least || cpuCount > most)
    checkRules(model, [
      [isReversed, `${at}.minInstances`, `at most maxInstances (${most})`, least],
      [count < least, `${at}.count`, `at least minInstances (${least})`, count],
      [count > most, `${at}.count`, `at most maxInstances (${most})`, count],
      [isOutside, `${at}.cpuCount`, `from minInstances to maxInstances (${least} to ${most})`, cpuCount],
    ])
  }
  const instances = groups.reduce((sum, { cpuCount = 0, gpus = [0], ...counts }) => {
    const { maxInstances: most } = resolveCounts(counts)
    return sum + Math.max(cpuCount, most * (gpus === 'all' ? 1 : gpus.length))
  }, 0)
  const tooMany = instances > maxInstances
  checkRules(model, [[tooMany, 'instanceGroup', `at most ${maxInstances} instances in all`, instances]])
  const known = [...kinds, ...plugins]
  const oneOf = `one of ${known.map((name) => `'${name}'`).join(', ')}`
  const hint = "A provider plugin's name is a kind once it is among the engine's options.providers"
  for (const [index, { kind, gpus }] of groups.entries()) {
    const at = `instanceGroup[${index}]`
    const strayGpus = gpus !== undefined && kind !== 'cuda' && kind !== 'auto'
    checkRules(model, [
      [!known.includes(kind), `${at}.kind`, oneOf, kind, hint],
      [strayGpus, `${at}.gpus`, `to be omitted for kind '${kind}'`, gpus],
    ])
  }
}

/** Limits of the search for the settings with the highest throughput. */
export interface AutoTuneOptions {
  /** Most instances. Default: one per worker. */
  maxInstances?: number
  /**
   * Bytes by which the memory of the process may grow from the start of the first search. Settings that exceed it are
   * rejected, or skipped if smaller trials predict that they would. Default: no limit.
   */
  maxMemoryBytes?: number
}

/** Schema of `autoTune`. */
export const autoTuneSchema = v.optional(
  v.union([v.boolean(), optionsOf({ maxInstances: instances, maxMemoryBytes: v.optional(wholeNumber(0)) })]),
  false,
)

/** Other options that affect batches and instances. */
interface Deciding {
  readonly latencyTargetMs: number
  readonly sequence: unknown
  readonly instanceGroup: readonly { readonly minInstances: number; readonly maxInstances: number }[]
}

/**
 * The `autoTune` option with defaults; `null` without tuning.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` together with an option that controls the same settings.
 */
export function resolveAutoTune(
  model: string,
  given: v.InferOutput<typeof autoTuneSchema>,
  { latencyTargetMs, sequence, instanceGroup }: Deciding,
): Required<AutoTuneOptions> | null {
  if (given === false) return null
  const options = given === true ? {} : given
  const scales = instanceGroup.some((group) => group.minInstances < group.maxInstances)
  const deciding: readonly (readonly [isGiven: boolean, option: string])[] = [
    [latencyTargetMs > 0, 'latencyTargetMs'],
    [sequence !== null, 'sequence'],
    [instanceGroup.length > 1, 'several groups of instances'],
    [scales, 'instanceGroup.minInstances and maxInstances'],
  ]
  for (const [isGiven, option] of deciding) {
    const expected = `to be omitted beside ${option}, which decides about the same`
    checkRules(model, [[isGiven, 'autoTune', expected, given, 'Remove one of them']])
  }
  return {
    maxInstances: options.maxInstances ?? maxInstances,
    maxMemoryBytes: options.maxMemoryBytes ?? Infinity,
  }
}
