import * as v from 'valibot'
import { invalidArgument } from '../errors.ts'
import { optionsOf, wholeNumber, durationMs } from './options-schema.ts'

/** Where instances of a model run: the name of a provider plugin (`EngineOptions.providers`) is a kind, too. */
export type InstanceKind = 'auto' | 'cpu' | 'cuda' | 'webgpu' | (string & {})

/** A group of like instances; Triton's `instance_group`. */
export interface InstanceGroup {
  /**
   * Default `'auto'`: CUDA where driver and provider are found, else the CPU. `'cuda'` and `'webgpu'` mean just that: where they cannot
   * be had the load fails. The kind of a plugin falls back to the CPU, with a warning.
   */
  kind?: InstanceKind
  /** Instances (per GPU for `cuda`) that a load opens; `model.scale()` changes them. Default `minInstances`, else 1. */
  count?: number
  /** Instead of `count` where `'auto'` has turned out to be the CPU; of a group that scales by itself within its limits. Default: `count`. */
  cpuCount?: number
  /** Fewest instances (per GPU for `cuda`) that it scales down to by itself. Default `count`. */
  minInstances?: number
  /**
   * Most instances (per GPU for `cuda`) that it scales up to by itself. Instances beyond the workers there are (`cpuWorkers`)
   * share them. Default `count`: with neither this nor `minInstances` it does not scale by itself.
   */
  maxInstances?: number
  /**
   * One instance is added when requests go on waiting for more than so many milliseconds although none is idle: for three times
   * as long, and without being worked off. Several times what a run takes. Default 100.
   */
  scaleUpAfterMs?: number
  /**
   * One instance is taken out when for so many milliseconds one had nothing to do, or all had so little that those left would
   * have been busy for less than half of the time. Twice as long, and again, up to 16 times, each time that it was soon missed.
   * Default 10 000.
   */
  scaleDownAfterMs?: number
  /** CUDA device ordinals, or all there are; for `cuda`, and for `auto`, which is the CPU where one of them is missing. Default `[0]`. */
  gpus?: readonly number[] | 'all'
}

/** Of all groups of a model: with some execution providers each is a session of its own. */
export const maxInstances = 256

const instances = v.optional(
  v.pipe(v.number(), v.integer('a whole number'), v.minValue(1), v.maxValue(maxInstances)),
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

/** What a model may take while it looks for the settings with which it gives most rows a second. */
export interface AutoTuneOptions {
  /** Most instances. Default: as many as have a worker each. */
  maxInstances?: number
  /**
   * By how many bytes the memory of the process may grow over what it is when the first search begins; settings that take more are
   * left out, those that are expected to by what fewer instances took, before they are tried. Default: no limit.
   */
  maxMemoryBytes?: number
}

/** The same, checked. */
export interface ResolvedAutoTune {
  readonly maxInstances: number
  readonly maxMemoryBytes: number
}

const optionsSchema = optionsOf({
  maxInstances: v.optional(wholeNumber(1, maxInstances)),
  maxMemoryBytes: v.optional(wholeNumber(0)),
})

/** Schema of the option. */
export const autoTuneSchema = v.optional(v.union([v.boolean(), optionsSchema]), false)

/** What else decides about batches and instances. */
interface Deciding {
  readonly latencyTargetMs: number
  readonly sequence: unknown
  readonly instanceGroup: readonly { readonly minInstances: number; readonly maxInstances: number }[]
}

/**
 * The option in full; `null` where nothing is to be tuned.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` beside an option that decides about the same.
 */
export function resolveAutoTune(
  model: string,
  given: v.InferOutput<typeof autoTuneSchema>,
  { latencyTargetMs, sequence, instanceGroup }: Deciding,
): ResolvedAutoTune | null {
  if (given === false) return null
  const options = given === true ? {} : given
  const beside = (option: string) =>
    invalidArgument('autoTune', `to be left out beside ${option}, which decides about the same`, given, {
      code: 'ERR_MODEL_CONFIG',
      model,
      hint: 'Remove one of them',
    })
  if (latencyTargetMs > 0) throw beside('latencyTargetMs')
  if (sequence !== null) throw beside('sequence')
  if (instanceGroup.length > 1) throw beside('several groups of instances')
  if (instanceGroup.some((group) => group.minInstances < group.maxInstances))
    throw beside('instanceGroup.minInstances and maxInstances')
  return {
    maxInstances: options.maxInstances ?? maxInstances,
    maxMemoryBytes: options.maxMemoryBytes ?? Infinity,
  }
}
