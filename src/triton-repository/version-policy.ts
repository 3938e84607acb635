import { invalidArgument } from '../errors.ts'
import type { ConfigFields } from './config-fields.ts'

/** Which versions of a model Triton would serve; an engine serves the newest of them. */
export type VersionPolicy =
  | { readonly kind: 'latest'; readonly count: number }
  | { readonly kind: 'all' }
  | { readonly kind: 'specific'; readonly versions: readonly string[] }

/** How many versions a message names. */
const versionsShown = 10

/** Reads `version_policy`; without one only the latest version is served. */
export function readVersionPolicy(config: ConfigFields): VersionPolicy {
  const policy = config.message('version_policy')
  if (policy === undefined) return { kind: 'latest', count: 1 }
  const latest = policy.message('latest')
  const all = policy.message('all')
  const specific = policy.message('specific')
  const given = ['latest', 'all', 'specific'].filter((name) => policy.has(name))
  policy.finish()
  if (given.length !== 1) config.fail('version_policy', 'one of latest, all and specific', given)
  if (latest !== undefined) {
    const count = latest.integer('num_versions', 0) || 1
    latest.finish()
    return { kind: 'latest', count }
  }
  if (specific !== undefined) {
    const versions = specific.bigIntegers('versions').map(String)
    specific.finish()
    return { kind: 'specific', versions }
  }
  all!.finish()
  return { kind: 'all' }
}

/** Whether a folder of this name holds a version, as Triton sees it: a positive number without leading zeros. */
export function isVersion(folder: string): boolean {
  return /^[1-9]\d*$/.test(folder)
}

/**
 * The version to serve under the model's plain name: the newest that the policy allows.
 *
 * @param present names of the version folders there are.
 * @param note called when the policy asks for more than that one version.
 * @throws InferenceError `ERR_MODEL_NOT_FOUND` when there is no such version.
 */
export function chooseVersion(
  model: string,
  policy: VersionPolicy,
  present: readonly string[],
  note: (text: string) => void,
): string {
  const newestFirst = present.toSorted((a, b) => Number(BigInt(b) - BigInt(a)))
  const chosen = newestFirst.find((version) => policy.kind !== 'specific' || policy.versions.includes(version))
  if (chosen === undefined) {
    const expected = policy.kind === 'specific' ? policy.versions.slice(0, versionsShown).join(' or ') : 'a version folder, such as 1'
    throw invalidArgument('version', expected, present.length === 0 ? 'none' : present, {
      code: 'ERR_MODEL_NOT_FOUND',
      model,
      hint: 'A repository is laid out as <model>/<version>/model.onnx',
    })
  }
  const wanted = policy.kind === 'specific' ? policy.versions : newestFirst
  const others = (policy.kind === 'latest' ? wanted.slice(0, policy.count) : wanted).filter((version) => version !== chosen)
  if (others.length > 0) note(`version ${chosen} is served, and not ${others.slice(0, versionsShown).join(', ')}${others.length > versionsShown ? ', ...' : ''}`)
  return chosen
}
