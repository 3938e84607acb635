import type { Metric, Registry } from 'prom-client'
import { invalidArgument } from '../../errors.ts'
import { requireFromPackage } from '../../base/own-package.ts'

/** What metrics are registered with: a registry of prom-client. */
export type MetricRegistry = Pick<Registry, 'getSingleMetric' | 'registerMetric' | 'removeSingleMetric'>

export type PromMetric = Metric

/**
 * The registry that prom-client has for the process. It is loaded here and nowhere else, when nobody has given a registry of theirs.
 *
 * @throws InferenceError `ERR_INVALID_ARG` where it is not installed.
 */
export function processRegistry(): MetricRegistry {
  try {
    return (requireFromPackage('prom-client') as { readonly register: MetricRegistry }).register
  } catch (cause) {
    throw invalidArgument('options.register', 'a Registry of prom-client', undefined, {
      hint: 'prom-client is not installed, which has one for the process. Install it: npm install prom-client',
      cause,
    })
  }
}

/** Whether something is a registry of prom-client, of whichever version. */
export function isRegistry(value: unknown): value is MetricRegistry {
  const methods: readonly (keyof MetricRegistry)[] = [
    'getSingleMetric',
    'registerMetric',
    'removeSingleMetric',
  ]
  return (
    typeof value === 'object' &&
    value !== null &&
    methods.every((method) => typeof (value as Record<string, unknown>)[method] === 'function')
  )
}
