import { openTraffic, schedule } from '../../packages/perf/src/simulation/traffic.ts'
import { constantDelays, noOverheads } from '../../packages/perf/src/simulation/delays.ts'
import { runSimulation } from '../../packages/perf/src/simulation/run-simulation.ts'
import { ServiceTimes } from '../../packages/perf/src/simulation/service-times.ts'
import { oneLevel } from '../../packages/perf/src/simulation/simulated-queue.ts'
import type { SimulationResult } from '../../packages/perf/src/simulation/simulation-result.ts'
import { policies } from './policies/by-name.ts'
import { defaultScenario, type PolicyName, type Scenario } from './scenario.ts'

/** What a policy made of a scenario. */
export interface PolicyResult extends SimulationResult {
  readonly policy: PolicyName
}

/**
 * Runs a scenario to its end in virtual time. What is not given is as in {@link defaultScenario}.
 *
 * @throws {RangeError} when a request has more rows than a batch may have.
 */
export function simulate(given: Partial<Scenario>): PolicyResult {
  const scenario: Scenario = { ...defaultScenario, ...given }
  const { policy } = scenario
  const makeQueue = policies[policy]
  const { service, jitter, serviceSteps, models, seed, timelineMs } = scenario
  const result = runSimulation({
    traffic: openTraffic(schedule(scenario)),
    models,
    settings: scenario,
    levels: oneLevel,
    durations: new ServiceTimes(service, jitter, serviceSteps, seed + 1),
    calibration: new ServiceTimes(service, jitter, [], seed + 2),
    slowdown: [],
    overheads: noOverheads,
    delays: constantDelays(noOverheads),
    splitOversized: false,
    timelineMs,
    makeQueue,
  })
  return { policy, ...result }
}
