import { schedule } from './arrivals.ts'
import { Instances } from './instances.ts'
import type { ModelQueue } from './model-queue.ts'
import { policies } from './policies/by-name.ts'
import { Recorder } from './recorder.ts'
import { makeLevel, SimulatedRequest } from './request.ts'
import { summarise, type Result } from './result.ts'
import { defaultScenario, type Scenario } from './scenario.ts'
import { Estimator } from './service-times.ts'
import { VirtualClock } from './virtual-clock.ts'

/**
 * Runs a scenario to its end in virtual time. What is not given is as in {@link defaultScenario}.
 *
 * @throws {RangeError} when a request has more rows than a batch may have.
 */
export function simulate(given: Partial<Scenario>): Result {
  const wallFromMs = performance.now()
  const scenario: Scenario = { ...defaultScenario, ...given }
  const { maxBatchSize, models, instances: count, service: table, seed } = scenario
  const coming = schedule(scenario)
  const maxRows = coming.rows.reduce((most, rows) => Math.max(most, rows), 1)
  if (maxRows > maxBatchSize) throw new RangeError(`A request has ${maxRows} rows, a batch ${maxBatchSize} at most.`)

  const clock = new VirtualClock()
  const recorder = new Recorder(coming, maxBatchSize, scenario.targetMs, scenario.timelineMs)
  const service = new Estimator(table, maxBatchSize, scenario.jitter, scenario.serviceSteps, seed + 1)
  const calibration = new Estimator(table, maxBatchSize, scenario.jitter, [], seed + 2)
  const instances = new Instances(count, models, clock, service, recorder)
  const levels = Array.from({ length: models }, makeLevel)
  for (let model = 0; model < models; model++) {
    const queue: ModelQueue = policies[scenario.policy]({
      model,
      scenario,
      clock,
      calibrationMs: (rows) => calibration.draw(rows, 0),
      drop: (request) => recorder.dropped(request),
      wake: () => {
        instances.note(queue)
        instances.offer(queue)
      },
      freeInMs: () => instances.freeInMs(),
      sharing: () => instances.contenders(),
    })
    instances.queues.push(queue)
  }

  const reached = new Set<ModelQueue>()
  for (let next = 0; ; ) {
    const arrivalMs = next < coming.count ? coming.timesMs[next]! : Infinity
    if (clock.nextMs <= arrivalMs) {
      if (arrivalMs === Infinity && clock.nextMs === Infinity) break
      clock.fireNext()
      continue
    }
    clock.advanceTo(arrivalMs)
    // Whoever comes at the same moment is taken in before anything is started.
    for (; next < coming.count && coming.timesMs[next] === arrivalMs; next++) {
      const model = coming.models[next]!
      const queue = instances.queues[model]!
      const request = new SimulatedRequest(next, coming.rows[next]!, levels[model]!)
      if (queue.arrive(request)) {
        recorder.accepted()
        instances.note(queue)
        reached.add(queue)
      } else recorder.refused(request)
    }
    for (const queue of reached) queue.flush()
    for (const queue of reached) instances.offer(queue)
    reached.clear()
  }
  return summarise(scenario, recorder, coming.count, instances.busyMs, performance.now() - wallFromMs)
}
