import type { EngineStatistics } from '../../engine/engine-statistics.ts'
import { invalidArgument } from '../../errors.ts'
import { engineFamilies } from './engine-families.ts'
import type { Labels, Scraped } from './metric-family.ts'
import { modelFamilies } from './model-families.ts'
import type { MetricRegistry, PromMetric } from './prom-client.ts'
import { RegisteredMetric } from './registered-metric.ts'
import { tritonFamilies } from './triton-families.ts'

const families = [...tritonFamilies, ...modelFamilies, ...engineFamilies]

/** An engine, of this process or another. */
export interface MeasuredEngine {
  /** Asked once for each scrape. */
  stats(): EngineStatistics | Promise<EngineStatistics>
}

/** An engine whose metrics are in a registry, and how they are shown there. */
export interface RegisteredEngine extends Pick<Scraped, 'labels' | 'durationBuckets' | 'batchSizeBuckets'> {
  readonly engine: MeasuredEngine
}

/** For how long an engine of another process may think about it: a scrape has 10 s by default, and others are to be told of in time. */
const answerLimitMs = 5000

/** The engines of one registry: their metrics have the same names, so that each is there once for all of them. */
export class RegisteredEngines {
  static readonly #of = new WeakMap<MetricRegistry, RegisteredEngines>()
  readonly #registry: MetricRegistry
  readonly #engines = new Set<RegisteredEngine>()
  readonly #metrics: readonly RegisteredMetric[]
  readonly #names = families.map(({ name }) => name)
  /** What engines were asked for and have not said yet: they are not asked again meanwhile. */
  readonly #asked = new Map<RegisteredEngine, Promise<Scraped | null>>()
  /** What one scrape reads, whichever metric asks first. */
  #scraped: Promise<readonly Scraped[]> | null = null

  private constructor(registry: MetricRegistry) {
    this.#registry = registry
    this.#metrics = families.map((family) => new RegisteredMetric(family, () => this.#scrape()))
  }

  static in(registry: MetricRegistry): RegisteredEngines {
    let engines = this.#of.get(registry)
    if (engines === undefined) this.#of.set(registry, (engines = new RegisteredEngines(registry)))
    return engines
  }

  /** @throws InferenceError `ERR_INVALID_ARG` for labels with which nobody could tell it from another, and where others have registered metrics of these names. */
  add(added: RegisteredEngine): void {
    for (const { labels } of this.#engines) checkLabels(labels, added.labels)
    // A registry that was cleared meanwhile has none of them.
    const missing = this.#metrics.filter((metric, index) => this.#registered(index) !== metric)
    const taken = missing.find((metric) => this.#registered(this.#metrics.indexOf(metric)) !== undefined)
    if (taken !== undefined)
      throw invalidArgument(
        'options.register',
        `a registry without a metric '${taken.name}' of others`,
        'one with it',
      )
    for (const metric of missing) this.#registry.registerMetric(metric as unknown as PromMetric)
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
      queueMicrotask(() => (this.#scraped = null)) // a registry asks all metrics at once
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

/** What an engine says; `null` for one that is closed or has loaded nothing yet, and for one of another process that cannot be reached. It never rejects. */
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

/** Series of two engines have to differ, and to be of the same labels, so that they can be summed up. */
function checkLabels(one: Labels, other: Labels): void {
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
