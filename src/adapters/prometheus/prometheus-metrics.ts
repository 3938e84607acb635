import { invalidArgument } from '../../errors.ts'
import { isRegistry, processRegistry, type MetricRegistry } from './prom-client.ts'
import { RegisteredEngines, type MeasuredEngine } from './registered-engines.ts'

/** How the metrics of an engine are shown. */
export interface PrometheusOptions {
  /** The registry that they go to. Default: the one that prom-client has for the process. */
  readonly register?: MetricRegistry
  /** Labels of all of them, such as `{ engine: 'vision' }`: by these engines in one registry differ. Default: none. */
  readonly labels?: Readonly<Record<string, string>>
  /** Upper bounds of the histograms of durations, in seconds, ascending. Default: 17 bounds, from 100 us to 10 s. */
  readonly durationBuckets?: readonly number[]
  /** Upper bounds of the histogram of batch sizes, in rows, ascending. Default: the powers of two to 256. */
  readonly batchSizeBuckets?: readonly number[]
}

const defaultDurations = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]
const defaultBatchSizes = [1, 2, 4, 8, 16, 32, 64, 128, 256]
const optionNames: readonly string[] = [
  'register',
  'labels',
  'durationBuckets',
  'batchSizeBuckets',
] satisfies (keyof PrometheusOptions)[]
/** Labels that the metrics have by themselves. */
const ownLabels: readonly string[] = [
  'model',
  'version',
  'reason',
  'model_instance',
  'worker',
  'step',
  'outcome',
  'pool',
  'kind',
  'le',
]

/**
 * Registers metrics of an engine for Prometheus: Triton's, under their names, where the same is meant, and `zerohop_...` for what Triton
 * does not have. They are read when the registry is asked for its text; between that nothing is done for them.
 *
 * What is counted of a version begins anew when it is loaded again, and its series go when it is unloaded, or the engine is closed.
 *
 * @param engine of this process, or one that was connected to.
 * @returns takes the metrics out of the registry again; may be called more than once.
 * @throws InferenceError `ERR_INVALID_ARG` for an option that is wrong, for labels that another engine of the registry has, for a registry in
 * which others have metrics of these names, and without `register` where prom-client is not installed.
 */
export function prometheusMetrics(engine: MeasuredEngine, options: PrometheusOptions = {}): () => void {
  if (typeof engine?.stats !== 'function')
    throw invalidArgument('engine', 'an InferenceEngine, or what connect() gives', engine)
  if (typeof options !== 'object' || options === null) throw invalidArgument('options', 'an object', options)
  for (const name of Object.keys(options))
    if (!optionNames.includes(name))
      throw invalidArgument(`options.${name}`, `one of ${optionNames.join(', ')}`, name)
  const {
    register,
    labels = {},
    durationBuckets = defaultDurations,
    batchSizeBuckets = defaultBatchSizes,
  } = options
  if (register !== undefined && !isRegistry(register))
    throw invalidArgument('options.register', 'a Registry of prom-client', register)
  checkLabels(labels)
  checkBuckets('durationBuckets', durationBuckets)
  checkBuckets('batchSizeBuckets', batchSizeBuckets)
  const engines = RegisteredEngines.in(register ?? processRegistry())
  const added = {
    engine,
    labels: { ...labels },
    durationBuckets: [...durationBuckets],
    batchSizeBuckets: [...batchSizeBuckets],
  }
  engines.add(added)
  return () => engines.remove(added)
}

function checkLabels(labels: unknown): void {
  if (typeof labels !== 'object' || labels === null || Array.isArray(labels))
    throw invalidArgument('options.labels', 'an object of strings', labels)
  for (const [name, value] of Object.entries(labels)) {
    if (!/^[a-zA-Z_]\w*$/.test(name) || name.startsWith('__'))
      throw invalidArgument(
        'options.labels',
        'names of letters, digits and _, without a digit or __ at the beginning',
        name,
      )
    if (ownLabels.includes(name))
      throw invalidArgument(
        'options.labels',
        `other names than ${ownLabels.join(', ')}, which the metrics have themselves`,
        name,
      )
    if (typeof value !== 'string') throw invalidArgument(`options.labels.${name}`, 'a string', value)
  }
}

function checkBuckets(name: string, bounds: unknown): void {
  const isGood =
    Array.isArray(bounds) &&
    bounds.length > 0 &&
    bounds.every((bound, at) => Number.isFinite(bound) && bound > (at === 0 ? 0 : bounds[at - 1]))
  if (!isGood) throw invalidArgument(`options.${name}`, 'ascending numbers above 0', bounds)
}
