import { invalidArgument } from '../../errors.ts'
import type { ConfigFields } from './config-fields.ts'

/** Which versions of a model to serve. */
export type VersionPolicy =
  | { readonly kind: 'latest'; readonly count: number }
  | { readonly kind: 'all' }
  | { readonly kind: 'specific'; readonly versions: readonly string[] }

/** How many versions a message lists. */
const versionsShown = 10

/** Reads `version_policy`. Default: the latest version only. */
export function readVersionPolicy(config: ConfigFields): VersionPolicy {
  const policy = config.message('version_policy')
  if (policy === undefined) return { kind: 'latest', count: 1 }
  const latest = policy.message('latest')
  const all = policy.message('all')
  const specific = policy.message('specific')
  policy.finish()
  all?.finish()
  if (latest !== undefined) {
    const count = latest.integer('num_versions') || 1
    latest.finish()
    return { kind: 'latest', count }
  }
  if (specific !== undefined) {
    const versions = specific.bigIntegers('versions').map(String)
    specific.finish()
    const strange = versions.find((version) => !isVersion(version))
    if (strange !== undefined) specific.fail('versions', 'whole numbers of at least 1', versions)
    if (versions.length === 0) policy.fail('specific', 'at least one of versions', versions)
    return { kind: 'specific', versions }
  }
  if (all === undefined) config.fail('version_policy', 'one of latest, all and specific', [])
  return { kind: 'all' }
}

/** Whether a folder of this name is a version, as in Triton: a positive number without leading zeros. */
export function isVersion(folder: string): boolean {
  return /^[1-9]\d*$/.test(folder)
}

/**
 * The versions to serve, the newest first.
 *
 * @param folder of the model, for errors.
 * @param present names of the existing version folders.
 * @param note called for versions that the policy names but that do not exist.
 * @throws InferenceError `ERR_MODEL_NOT_FOUND` if there is no version to serve.
 */
export function chooseVersions(
  model: string,
  folder: string,
  policy: VersionPolicy,
  present: readonly string[],
  note: (text: string) => void,
): string[] {
  const newestFirst = present.toSorted((a, b) => (BigInt(b) > BigInt(a) ? 1 : -1))
  const allowed =
    policy.kind === 'specific'
      ? newestFirst.filter((version) => policy.versions.includes(version))
      : newestFirst
  const chosen = policy.kind === 'latest' ? allowed.slice(0, policy.count) : allowed
  if (chosen.length === 0) {
    const expected =
      policy.kind === 'specific'
        ? policy.versions.slice(0, versionsShown).join(' or ')
        : 'a version folder, such as 1'
    throw invalidArgument('version', expected, present.length === 0 ? 'none' : present, {
      code: 'ERR_MODEL_NOT_FOUND',
      model,
      hint: `A repository is laid out as <model>/<version>/model.onnx. In ${folder}`,
    })
  }
  const absent =
    policy.kind === 'specific' ? policy.versions.filter((version) => !present.includes(version)) : []
  if (absent.length > 0)
    note(
      `there is no version ${absent.slice(0, versionsShown).join(', ')}${absent.length > versionsShown ? ', ...' : ''}`,
    )
  return chosen
}
