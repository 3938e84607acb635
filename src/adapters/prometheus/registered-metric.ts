import type { MetricFamily, Sample, Scraped } from './metric-family.ts'

/** What a registry asks for its text. */
interface MetricObject extends Pick<MetricFamily, 'name' | 'help' | 'type'> {
  readonly aggregator: string
  readonly values: Sample[]
}

/** A metric as prom-client has it, without values of its own: they are read whenever it is asked for them, and it takes no others. */
export class RegisteredMetric {
  /** A registry of OpenMetrics gives it another. */
  name: string
  readonly help: string
  readonly type: MetricFamily['type']
  readonly aggregator: string
  readonly #family: MetricFamily
  readonly #scrape: () => Promise<readonly Scraped[]>

  constructor(family: MetricFamily, scrape: () => Promise<readonly Scraped[]>) {
    const { name, help, type, aggregator = 'sum' } = family
    this.name = name
    this.help = help
    this.type = type
    this.aggregator = aggregator
    this.#family = family
    this.#scrape = scrape
  }

  async get(): Promise<MetricObject> {
    const { name, help, type, aggregator } = this
    const values = (await this.#scrape()).flatMap((scraped) => samplesOf(this.#family, scraped))
    return { name, help, type, aggregator, values }
  }

  /** As of a registry's `resetMetrics()`: what is counted is the engine's, and goes on. */
  reset(): void {}
}

/** None of an engine that does not have what is asked for: another process may have another version of this library. */
function samplesOf(family: MetricFamily, scraped: Scraped): Sample[] {
  try {
    return family.samples(scraped)
  } catch {
    return []
  }
}
