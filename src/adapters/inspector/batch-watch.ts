import type { ObservedBatch, ObservedModel, RequestObserver } from '../../observe/request-observer.ts'
import type { EndedBatch, RunningBatch } from './frame.ts'
import { shownName } from './shown-name.ts'

/** As many are told of a window, and of those that run. */
const mostBatches = 40

/** Looks on at batches as they begin and end, however many there are: of those that ended the last are kept. Of requests it sees nothing. */
export class BatchWatch implements RequestObserver {
  readonly #running = new Map<ObservedModel, Map<number, ObservedBatch>>()
  readonly #ended: ObservedBatch[] = []
  #endedCount = 0

  begun(): null {
    return null
  }

  batchBegan(batch: ObservedBatch): void {
    let ofModel = this.#running.get(batch.model)
    if (ofModel === undefined) this.#running.set(batch.model, (ofModel = new Map()))
    ofModel.set(batch.id, batch)
  }

  batchEnded(batch: ObservedBatch): void {
    const ofModel = this.#running.get(batch.model)
    ofModel?.delete(batch.id)
    if (ofModel?.size === 0) this.#running.delete(batch.model)
    this.#ended[this.#endedCount++ % mostBatches] = batch
  }

  /** What runs now. */
  running(): RunningBatch[] {
    const all = [...this.#running.values()].flatMap((ofModel) => [...ofModel.values()])
    return all.slice(0, mostBatches).map(runningBatch)
  }

  /** What has ended since the last call, in that order, and how many more there were. */
  takeEnded(): { readonly ended: EndedBatch[]; readonly leftOut: number } {
    const oldest = Math.max(0, this.#endedCount - mostBatches)
    const ended = Array.from({ length: this.#endedCount - oldest }, (_, index) =>
      endedBatch(this.#ended[(oldest + index) % mostBatches]!),
    )
    this.#ended.length = this.#endedCount = 0
    return { ended, leftOut: oldest }
  }
}

function runningBatch({
  model,
  id,
  rows,
  requestCount,
  reason,
  isRerun,
  instance,
}: ObservedBatch): RunningBatch {
  return {
    model: shownName(model.name),
    version: model.version,
    id,
    rows,
    requests: requestCount,
    reason,
    isRerun,
    instance: shownName(instance),
  }
}

/** Not with its error: what a run says may have something of what it was run for. */
function endedBatch(batch: ObservedBatch): EndedBatch {
  const { moments, inline } = batch
  const us = (from: number, to: number) => 1000 * (to - from)
  return {
    ...runningBatch(batch),
    inline,
    endedAtMs: moments === null ? null : performance.timeOrigin + moments.doneAtMs,
    inferUs: moments === null ? null : us(moments.inferStartMs, moments.inferEndMs),
    wholeUs: moments === null ? null : us(moments.takenAtMs, moments.doneAtMs),
  }
}
