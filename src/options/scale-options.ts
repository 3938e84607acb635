import { invalidArgument } from '../errors.ts'
import type { InstanceKind } from './instance-group.ts'
import { readOptions } from './plain-options.ts'

/** What `model.scale()` is to come to. */
export interface ScaleOptions {
  /** Which instances are meant, by the kind of their group, or of what `'auto'` has become. Default: the only kind there is. */
  kind?: InstanceKind
  /** How many there are to be (per GPU for `cuda`), 1 or more. */
  count: number
}

/**
 * Checks the options of a scaling, but for what depends on the model.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkScaleOptions(
  model: string,
  options: unknown,
): { readonly kind: string | undefined; readonly count: number } {
  const { kind, count } = readOptions('options', options, ['kind', 'count'], { model })
  if (kind !== undefined && typeof kind !== 'string')
    throw invalidArgument('options.kind', 'a kind of instances', kind, { model })
  if (Number.isInteger(count) && (count as number) > 0) return { kind, count: count as number }
  throw invalidArgument('options.count', 'a whole number of instances, at least 1', count, {
    model,
    hint: 'unload() takes the last one out',
  })
}
