import { capacityPerSecond, defaultScenario, type Scenario } from '../../bench/simulate/scenario.ts'

/** A model that hardly gains by batching, as ResNet-50 does on a CPU. */
export const linear: Partial<Scenario> = {
  service: [
    { rows: 1, ms: 30 },
    { rows: 2, ms: 55 },
    { rows: 4, ms: 105 },
    { rows: 8, ms: 205 },
  ],
  maxBatchSize: 8,
}

/** One that gains a lot, as on a GPU. */
export const subLinear: Partial<Scenario> = {
  service: [
    { rows: 1, ms: 4 },
    { rows: 2, ms: 4.3 },
    { rows: 4, ms: 5 },
    { rows: 8, ms: 6.5 },
    { rows: 16, ms: 10 },
    { rows: 32, ms: 17 },
    { rows: 64, ms: 32 },
  ],
  maxBatchSize: 64,
}

/** Requests a second that the instances of a scenario can serve at best. */
export function capacity(scenario: Partial<Scenario>): number {
  return capacityPerSecond({ ...defaultScenario, ...scenario })
}

/** Poisson arrivals at a share of the capacity. */
export function atLoad(load: number, scenario: Partial<Scenario>): Partial<Scenario> {
  return {
    maxQueueDelayMs: 0,
    ...scenario,
    arrivals: { kind: 'poisson', ratePerSecond: load * capacity(scenario) },
  }
}
