import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { LatencyTargetInput, LatencyTargetResult } from '../programs/latency-target.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost, type Target } from '../targets.ts'
import type { Trial } from '../trial.ts'

const largestBatch = 8
/** The target, in runs of one row, unless it is given. */
const targetRuns = 6
/** No target below this makes sense, in milliseconds: what timers and the way back take. */
const smallestTargetMs = 5
const overload = 1.5
const targetName = 'latencyTargetMs'
const fixedName = (size: number) => `maxBatchSize ${size}`

interface Cell {
  readonly load: number
  readonly what: string
  readonly input: Partial<LatencyTargetInput>
  readonly results: LatencyTargetResult[]
}

/** A latency to be kept under any load, against batch sizes chosen beforehand. */
export const latencyTarget: Trial = {
  describe:
    'ResNet-50, Poisson arrivals at 30, 60, 90, 150 % of capacity: p99 and goodput of a target, against fixed sizes',
  seconds: 25,
  async run({ seconds, rounds, smoke, targetMs }) {
    const fixedSizes = smoke ? [largestBatch] : [1, 2, 4, largestBatch]
    const loads = smoke ? [0.6, overload] : [0.3, 0.6, 0.9, overload]
    const base: LatencyTargetInput = {
      model: benchModel(smoke ? 'mlp' : 'resnet50'),
      maxBatchSize: 1,
      callers: 1,
      closedLoopSeconds: smoke ? 0.2 : Math.min(5, seconds / 2),
      wantedMs: 0,
      ratePerSecond: 0,
      seed: 1,
      seconds,
    }
    const measure = (changes: Partial<LatencyTargetInput>) =>
      run<LatencyTargetResult>('programs/latency-target.ts', {
        ...base,
        ...changes,
      } satisfies LatencyTargetInput)

    const { runMs } = await measure({})
    const wantedMs = targetMs ?? Math.max(smallestTargetMs, Math.round(targetRuns * runMs))
    const saturated = (maxBatchSize: number) => ({ maxBatchSize, callers: 3 * maxBatchSize })
    const capacities: number[] = []
    for (const size of fixedSizes) capacities.push((await measure(saturated(size))).capacityPerSecond)
    const capacity = Math.max(...capacities)

    const cells: Cell[] = loads.flatMap((load) => [
      // Fewer callers than would be refused all the time.
      {
        load,
        what: targetName,
        input: { maxBatchSize: largestBatch, latencyTargetMs: wantedMs, callers: 3 },
        results: [],
      },
      ...fixedSizes.map((size) => ({ load, what: fixedName(size), input: saturated(size), results: [] })),
    ])
    for (let count = 0; count < rounds; count++) {
      for (const { load, input, results } of cells) {
        const closedLoopSeconds = Math.min(2, base.closedLoopSeconds)
        results.push(
          await measure({
            ...input,
            wantedMs,
            closedLoopSeconds,
            ratePerSecond: load * capacity,
            seed: 100 * count + loads.indexOf(load),
          }),
        )
      }
    }

    const largest = cells
      .filter(({ what }) => what === fixedName(largestBatch))
      .flatMap(({ results }) => results)
    const middle = ({ results }: Cell, key: keyof LatencyTargetResult) =>
      median(results.map((result) => result[key]))
    const targets: Target[] = []
    const goodputs = loads.map((load) => {
      const [ours, ...fixed] = cells.filter((cell) => cell.load === load) as [Cell, ...Cell[]]
      const percent = `${round(100 * load, 0)} % load`
      const good = middle(ours, 'goodputPerSecond')
      const best = Math.max(...fixed.map((cell) => middle(cell, 'goodputPerSecond')))
      if (fixed.some((cell) => middle(cell, 'p99Ms') <= wantedMs)) {
        targets.push(atMost(wantedMs, `${percent}: p99, in ms`, round(middle(ours, 'p99Ms'))))
      }
      // Late or not, under the same overload: the machine is no longer what it was when the capacity was measured.
      const worked = Math.max(...fixed.map((cell) => middle(cell, 'answered'))) / (seconds + wantedMs / 1000)
      if (load >= 1) {
        targets.push(atLeast(0.9, `${percent}: goodput, to the capacity before`, round(good / capacity, 3)))
        targets.push(
          atLeast(
            0.9,
            `${percent}: goodput, to what the best fixed size worked off`,
            round(good / worked, 3),
          ),
        )
      } else targets.push(atLeast(0.95, `${percent}: goodput, to the best fixed size`, round(good / best, 3)))
      return { good, best }
    })
    const last = goodputs.at(-1)!
    return {
      ours: round(last.good),
      plain: round(last.best),
      unit: `answers in time per second at ${round(100 * loads.at(-1)!, 0)} % load, to the best fixed size`,
      ratio: round(last.good / last.best),
      targets,
      rows: cells.map((cell) => ({
        'load %': round(100 * cell.load, 0),
        what: cell.what,
        'p50 ms': round(middle(cell, 'p50Ms'), 1),
        'p99 ms': round(middle(cell, 'p99Ms'), 1),
        'in time /s': round(middle(cell, 'goodputPerSecond')),
        sent: middle(cell, 'sent'),
        answered: middle(cell, 'answered'),
        refused: middle(cell, 'refused'),
        late: middle(cell, 'late'),
        'rows per run': round(middle(cell, 'meanBatchRows')),
      })),
      settings: {
        targetMs: wantedMs,
        runMs: round(runMs, 3),
        capacityPerSecond: round(capacity),
        capacityBySize: Object.fromEntries(
          fixedSizes.map((size, index) => [size, round(capacities[index]!)]),
        ),
        // A capacity that was another by then means that the machine was not left alone.
        capacityLaterPerSecond: round(median(largest.map((result) => result.capacityPerSecond))),
        sentLateP99Ms: round(Math.max(...cells.map((cell) => middle(cell, 'sentLateP99Ms')))),
      },
      details: cells,
    }
  },
}
