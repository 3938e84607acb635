import { type Arrival, invalidArgument } from 'zerohop/internals'
import { metronome } from '../load/metronome.ts'
import { OpenLoop } from '../load/open-loop.ts'
import { measure, type MeasureHooks } from '../measure.ts'
import type { MeasureSettings } from '../measure-settings.ts'
import type { PerfTarget } from '../perf-target.ts'
import type { LevelResult } from '../result.ts'
import type { ReplaySource } from './replay-source.ts'

/** When the requests of a recording are meant to be sent: as they came, so many times as fast. */
export function* replaySchedule(arrivals: readonly Arrival[], speed: number): Generator<number, void> {
  for (const { atUs } of arrivals) yield atUs / 1000 / speed
}

/**
 * The requests of one model.
 *
 * @param model whose; `null` where all are of one.
 * @throws InferenceError `ERR_INVALID_ARG` where there are none, or of several models.
 */
export function arrivalsOf(arrivals: readonly Arrival[], model: string | null): readonly Arrival[] {
  const names = [...new Set(arrivals.flatMap((arrival) => arrival.model ?? []))]
  if (model === null && names.length <= 1) return arrivals
  const expected = `one of the models that were recorded (${names.join(', ')})`
  if (model === null) throw invalidArgument('--replay-model', expected, undefined)
  const own = arrivals.filter((arrival) => arrival.model === model)
  if (own.length === 0) throw invalidArgument('--replay-model', expected, model)
  // Counted from the first of them, as if nothing else had been recorded.
  const firstUs = own[0]!.atUs
  return own.map((arrival) => ({ ...arrival, atUs: arrival.atUs - firstUs }))
}

/** Sends the requests of a recording once, and measures all of it as one window, from the first to the last answer. */
export function replay(
  target: PerfTarget & { readonly source: ReplaySource },
  speed: number,
  settings: MeasureSettings,
  hooks: MeasureHooks,
): Promise<LevelResult> {
  const { arrivals } = target.source
  const load = new OpenLoop(target.source, replaySchedule(arrivals, speed), { pacer: metronome })
  return measure(
    target,
    { level: speed, load },
    { ...settings, warmupRequestCount: 0, requestCount: arrivals.length },
    hooks,
  )
}
