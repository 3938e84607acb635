import type { Trial } from './trial.ts'
import { batchers } from './trials/batchers.ts'
import { besideLoad } from './trials/beside-load.ts'
import { bursts } from './trials/bursts.ts'
import { centralised } from './trials/centralised.ts'
import { cost } from './trials/cost.ts'
import { decoding } from './trials/decoding.ts'
import { eventLoop } from './trials/event-loop.ts'
import { fairness } from './trials/fairness.ts'
import { firstLoad } from './trials/first-load.ts'
import { idle } from './trials/idle.ts'
import { imageOverload } from './trials/image-overload.ts'
import { inspectorTrial } from './trials/inspector.ts'
import { instances } from './trials/instances.ts'
import { jobsTrial } from './trials/jobs.ts'
import { keptMemory } from './trials/kept-memory.ts'
import { latency } from './trials/latency.ts'
import { latencyTarget } from './trials/latency-target.ts'
import { leases } from './trials/leases.ts'
import { mixedLengths } from './trials/mixed-lengths.ts'
import { openVino } from './trials/openvino.ts'
import { optimisationWalk } from './trials/optimisation-walk.ts'
import { perf } from './trials/perf.ts'
import { pipelines } from './trials/pipelines.ts'
import { postprocessing } from './trials/postprocessing.ts'
import { prediction } from './trials/prediction.ts'
import { processes } from './trials/processes.ts'
import { responses } from './trials/responses.ts'
import { saturation } from './trials/saturation.ts'
import { scheduler } from './trials/scheduler.ts'
import { sequences } from './trials/sequences.ts'
import { sessions } from './trials/sessions.ts'
import { soak } from './trials/soak.ts'
import { start } from './trials/start.ts'
import { swaps } from './trials/swaps.ts'
import { throughput } from './trials/throughput.ts'
import { timeouts } from './trials/timeouts.ts'
import { tokenBudget } from './trials/token-budget.ts'
import { tracing } from './trials/tracing.ts'
import { transformers } from './trials/transformers.ts'
import { twoSoaks } from './trials/two-soaks.ts'
import { tuneTrial } from './trials/tune.ts'
import { warmLoad } from './trials/warm-load.ts'

/** All that there are, by the names by which they are run, in the order of the help. */
export const trials: Readonly<Record<string, Trial>> = {
  throughput,
  latency,
  batchers,
  cost,
  saturation,
  openvino: openVino,
  'event-loop': eventLoop,
  jobs: jobsTrial,
  sessions,
  instances,
  start,
  'first-load': firstLoad,
  'warm-load': warmLoad,
  'beside-load': besideLoad,
  'kept-memory': keptMemory,
  idle,
  'mixed-lengths': mixedLengths,
  'token-budget': tokenBudget,
  responses,
  processes,
  pipelines,
  postprocessing,
  decoding,
  'image-overload': imageOverload,
  perf,
  prediction,
  sequences,
  leases,
  timeouts,
  tracing,
  inspector: inspectorTrial,
  transformers,
  fairness,
  'latency-target': latencyTarget,
  scheduler,
  swaps,
  tune: tuneTrial,
  soak,
  centralised,
  'optimisation-walk': optimisationWalk,
  bursts,
  'two-soaks': twoSoaks,
}
