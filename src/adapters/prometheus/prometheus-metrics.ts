import type { Metric, Registry } from 'prom-client'
import { requireFromPackage } from '../../base/own-package.ts'
import type { EngineStatistics } from '../../engine/engine-resources.ts'
import { invalidArgument } from '../../errors.ts'
import {
  metricFamilies,
  type Labels,
  type MetricFamily,
  type Sample,
  type Scraped,
} from './metric-families.ts'
import { unknownOption } from '../../options/plain-options.ts'

/** Options of {@link prometheusMetrics}. */
export interface PrometheusOptions {
  /** The registry for the metrics. Default: prom-client's registry of the process. */
  readonly register?: MetricRegistry
  /**
   * Labels of all metrics, such as `{ engine: 'vision' }`. They tell apart engines in one registry. Default:
   * none.
   */
  readonly labels?: Readonly<Record<string, string>>
  /**
   * Upper bounds of the duration histograms, in seconds, ascending. Default: 17 bounds, from 100 us to 10 s.
   */
  readonly durationBuckets?: readonly number[]
  /** Upper bounds of the batch size histogram, in rows, ascending. Default: the powers of two to 256. */
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
/** Labels that the metrics set themselves. */
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
 * Registers metrics of an engine for Prometheus: Triton's, under their names, where the meaning is the same,
 * and `zerohop_...` for the rest. They are read at a scrape, and cost nothing between scrapes.
 *
 * Counts of a version restart when it is loaded again. Its series are removed when it is unloaded, or the
 * engine is closed.
 *
 * @param engine an engine of this process, or a connected one.
 * @returns a function that removes the metrics from the registry; may be called more than once.
 * @throws InferenceError `ERR_INVALID_ARG` for an invalid option; for labels that another engine of the
 * registry has; for a registry that has other metrics of these names; without `register` if prom-client is
 * not installed.
 */
export function prometheusMetrics(engine: MeasuredEngine, options: PrometheusOptions = {}): () => void {
  if (typeof engine?.stats !== 'function')
    throw invalidArgument('engine', 'an InferenceEngine, or what connect() gives', engine)
  if (typeof options !== 'object' || options === null) throw invalidArgument('options', 'an object', options)
  for (const name of Object.keys(options))
    if (!optionNames.includes(name)) throw unknownOption(`options.${name}`, name, optionNames)
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
        `names other than ${ownLabels.join(', ')}, which are labels of the metrics`,
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

/** An engine of this process or another. */
export interface MeasuredEngine {
  /** Called once per scrape. */
  stats(): EngineStatistics | Promise<EngineStatistics>
}

/** An engine with metrics in a registry, and how they are presented. */
interface RegisteredEngine extends Pick<Scraped, 'labels' | 'durationBuckets' | 'batchSizeBuckets'> {
  readonly engine: MeasuredEngine
}

/**
 * How long a scrape waits for an engine of another process. A scrape may take 10 s by default, and the other
 * engines must be reported in time.
 */
const answerLimitMs = 5000

/** The engines of one registry. They share one metric of each name. */
class RegisteredEngines {
  static readonly #of = new WeakMap<MetricRegistry, RegisteredEngines>()
  readonly #registry: MetricRegistry
  readonly #engines = new Set<RegisteredEngine>()
  readonly #metrics: readonly ReturnType<typeof registeredMetric>[]
  readonly #names = metricFamilies.map(({ name }) => name)
  /** Pending reads of engines. An engine is not asked again while one is pending. */
  readonly #asked = new Map<RegisteredEngine, Promise<Scraped | null>>()
  /** The statistics of the current scrape; the metric that is read first fetches them. */
  #scraped: Promise<readonly Scraped[]> | null = null

  private constructor(registry: MetricRegistry) {
    this.#registry = registry
    this.#metrics = metricFamilies.map((family) => registeredMetric(family, () => this.#scrape()))
  }

  static in(registry: MetricRegistry): RegisteredEngines {
    let engines = this.#of.get(registry)
    if (engines === undefined) this.#of.set(registry, (engines = new RegisteredEngines(registry)))
    return engines
  }

  /**
   * @throws InferenceError `ERR_INVALID_ARG` for labels that do not distinguish the engine from another one,
   * and if other metrics of these names are registered.
   */
  add(added: RegisteredEngine): void {
    for (const { labels } of this.#engines) checkDistinct(labels, added.labels)
    // A registry that was cleared meanwhile has none of them.
    const missing = this.#metrics.filter((metric, index) => this.#registered(index) !== metric)
    const taken = missing.find((metric) => this.#registered(this.#metrics.indexOf(metric)) !== undefined)
    if (taken !== undefined)
      throw invalidArgument(
        'options.register',
        `a registry without a metric '${taken.name}' of others`,
        'one with it',
      )
    for (const metric of missing) this.#registry.registerMetric(metric as unknown as Metric)
    this.#engines.add(added)
  }

  remove(removed: RegisteredEngine): void {
    if (!this.#engines.delete(removed) || this.#engines.size > 0) return
    for (const [index, name] of this.#names.entries())
      if (this.#registered(index) === this.#metrics[index]) this.#registry.removeSingleMetric(name)
  }

  #registered(index: number): unknown {
    return this.#registry.getSingleMetric(this.#names[index]!)
  }

  #scrape(): Promise<readonly Scraped[]> {
    if (this.#scraped === null) {
      this.#scraped = Promise.all([...this.#engines].map((engine) => this.#ask(engine))).then((all) =>
        all.filter((each) => each !== null),
      )
      queueMicrotask(() => (this.#scraped = null)) // a registry reads all metrics in one turn
    }
    return this.#scraped
  }

  async #ask(engine: RegisteredEngine): Promise<Scraped | null> {
    let answer = this.#asked.get(engine)
    if (answer === undefined)
      this.#asked.set(engine, (answer = scrapedOf(engine).finally(() => this.#asked.delete(engine))))
    let timer: NodeJS.Timeout
    const limit = new Promise<null>((resolve) => (timer = setTimeout(resolve, answerLimitMs, null)))
    return Promise.race([answer, limit]).finally(() => clearTimeout(timer))
  }
}

/**
 * The statistics of an engine; `null` if it is closed, has loaded nothing yet, or is in another process that
 * cannot be reached. It never rejects.
 */
async function scrapedOf({ engine, ...shown }: RegisteredEngine): Promise<Scraped | null> {
  try {
    const statistics = await engine.stats()
    if (statistics.workers.length === 0) return null
    const versions = Object.entries(statistics.models).flatMap(([model, named]) =>
      Object.entries(named.versions).map(([version, of]) => ({
        labels: { model, version, ...shown.labels },
        statistics: of,
        state: of.state,
      })),
    )
    return { ...shown, statistics, versions: versions.filter(({ state }) => state !== 'closed') }
  } catch {
    return null
  }
}

/**
 * The series of two engines must differ in values and have the same label names, so that they can be summed.
 */
function checkDistinct(one: Labels, other: Labels): void {
  const names = Object.keys(one)
  const same = (a: readonly string[], b: readonly string[]) =>
    a.length === b.length && a.every((name) => b.includes(name))
  const shown = JSON.stringify(one)
  const hint = `Another engine is in this registry with the labels ${shown}`
  if (!same(names, Object.keys(other)))
    throw invalidArgument('options.labels', `labels of the names ${JSON.stringify(names)}`, other, { hint })
  if (names.every((name) => one[name] === other[name]))
    throw invalidArgument(
      'options.labels',
      "labels that no other engine of this registry has, such as { engine: 'second' }",
      other,
      { hint },
    )
}

/** A metric for prom-client that stores no values: it reads them on demand, and none can be set. */
function registeredMetric(family: MetricFamily, scrape: () => Promise<readonly Scraped[]>) {
  const { name, help, type, aggregator = 'sum' } = family
  return {
    /** An OpenMetrics registry renames it. */
    name,
    help,
    type,
    aggregator,
    /** The fields that a registry reads for its text. */
    async get() {
      const values = (await scrape()).flatMap((scraped) => samplesOf(family, scraped))
      return { name: this.name, help, type, aggregator, values }
    },
    /** Called by a registry's `resetMetrics()`. The counts belong to the engine, and continue. */
    reset() {},
  }
}

/** Empty if the engine lacks the statistics: another process may have another version of this library. */
function samplesOf(family: MetricFamily, scraped: Scraped): Sample[] {
  try {
    return family.samples(scraped)
  } catch {
    return []
  }
}

/** A registry of prom-client. */
type MetricRegistry = Pick<Registry, 'getSingleMetric' | 'registerMetric' | 'removeSingleMetric'>

/**
 * prom-client's registry of the process. The package is loaded only here, and only if no registry was given.
 *
 * @throws InferenceError `ERR_INVALID_ARG` if it is not installed.
 */
function processRegistry(): MetricRegistry {
  try {
    return (requireFromPackage('prom-client') as { readonly register: MetricRegistry }).register
  } catch (cause) {
    throw invalidArgument('options.register', 'a Registry of prom-client', undefined, {
      hint: 'The default registry needs prom-client. Install it: npm install prom-client',
      cause,
    })
  }
}

/** Whether a value is a registry of prom-client, of any version. */
function isRegistry(value: unknown): value is MetricRegistry {
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
