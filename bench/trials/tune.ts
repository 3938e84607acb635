import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { ModelConfig } from 'zerohop'
import {
  type Configuration,
  keyOf,
  layoutsOf,
  optionsFor,
  saturating,
} from '../../packages/perf/src/tune/configuration.ts'
import { hasShared, sharedPath } from '../../test/support/shared.ts'
import type { TuneResult } from '../../packages/perf/src/tune/outcome.ts'
import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { TunedLoop, TunedLoopResult } from '../programs/tuned-loop.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost, type Target } from '../targets.ts'
import type { Trial, TrialResult } from '../trial.ts'

const program = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const budgetSeconds = 120
/** Of the sweep: those that are measured again, in turns with what the tuner found. */
const finalists = 3
/** The bound of latency, in times of what one row takes alone; a millisecond is what an event loop is late by. */
const runsOfTheBound = 8
const leastBoundMs = 4

interface Tuned {
  readonly result: TuneResult
  readonly config: ModelConfig
  readonly seconds: number
}

/** The tuner against an exhaustive sweep of the same grid, by a loop that has nothing of the tuner. */
export const tuneTrial: Trial = {
  describe:
    'zerohop tune against an exhaustive sweep of its grid: throughput, the time it takes, and p99 under a bound',
  seconds: 4,
  async run({ seconds, rounds, smoke }) {
    const models = [
      {
        name: 'MLP',
        path: benchModel('mlp').path,
        batchSizes: smoke ? [1, 8] : [1, 2, 4, 8, 16, 32, 64, 128],
      },
      ...(smoke || !hasShared
        ? []
        : [
            {
              name: 'SqueezeNet',
              path: sharedPath('models/squeezenet/model.onnx'),
              batchSizes: [1, 2, 4, 8, 16, 32],
            },
          ]),
      ...(smoke
        ? []
        : [{ name: 'ResNet-50', path: benchModel('resnet50').path, batchSizes: [1, 2, 4, 8, 16] }]),
    ]
    const parts = []
    for (const model of models) parts.push(await oneModel(model, seconds, rounds, smoke ? 20 : budgetSeconds))
    const worst = parts.reduce((a, b) => (b.ratio < a.ratio ? b : a))
    const { ours, plain, ratio } = worst
    return {
      ours, plain, ratio, unit: 'rows/s',
      targets: parts.flatMap(({ targets }) => targets),
      rows: parts.flatMap(({ rows }) => rows),
      settings: { budgetSeconds, worst: worst.name, batchSizes: Object.fromEntries(models.map(({ name, batchSizes }) => [name, batchSizes])) },
      details: parts.map(({ details }) => details),
    } // prettier-ignore
  },
}

async function oneModel(
  { name, path, batchSizes }: { name: string; path: string; batchSizes: readonly number[] },
  seconds: number,
  rounds: number,
  budget: number,
) {
  const grid = layoutsOf({}, availableParallelism()).flatMap((layout) =>
    batchSizes.map((maxBatchSize): Configuration => ({ ...layout, maxBatchSize, maxQueueDelayMs: 0 })),
  )
  const measure = (config: ModelConfig, concurrency: number) =>
    run<TunedLoopResult>('programs/tuned-loop.ts', {
      config,
      concurrency,
      warmupSeconds: Math.min(1, seconds / 2),
      seconds,
    } satisfies TunedLoop)
  const measureAt = (configuration: Configuration, concurrency = saturating(configuration, 1)) =>
    measure({ ...optionsFor(configuration, {}, 'cpu'), path, checkRows: false }, concurrency)
  const sweep = []
  for (const configuration of grid) sweep.push({ configuration, found: await measureAt(configuration) })
  const best = sweep.toSorted((a, b) => b.found.rowsPerSecond - a.found.rowsPerSecond).slice(0, finalists)

  const folder = mkdtempSync(join(tmpdir(), 'zerohop-bench-'))
  try {
    const tuned = await tune(path, batchSizes, budget, folder, [])
    const single = sweep.find(
      ({ configuration: { instances, maxBatchSize } }) => instances === 1 && maxBatchSize === 1,
    )!
    const boundMs = round(Math.max(leastBoundMs, (runsOfTheBound * 1000) / single.found.rowsPerSecond))
    const bound = await tune(path, batchSizes, budget, folder, ['--latency-p99', String(boundMs)])
    const sides = Object.fromEntries(
      best.map(({ configuration }, place) => [`sweep ${place + 1}`, () => measureAt(configuration)]),
    )
    // What the sweep has found as well is measured once: beside itself it would be better or worse by what the machine does.
    const same = best.findIndex(
      ({ configuration }) =>
        keyOf({ configuration, load: { concurrency: saturating(configuration, 1) } }) ===
        keyOf(tuned.result.best!.candidate),
    )
    const tunedSide = same === -1 ? 'tuned' : `sweep ${same + 1}`
    const turns = await takeTurns(rounds, {
      ...sides,
      [tunedSide]: () => measure(tuned.config, loadOf(tuned)),
      bound: () => measure(bound.config, loadOf(bound)),
    } as Record<string, () => Promise<TunedLoopResult>>)
    const rate = (side: string) => median(turns[side]!.map(({ rowsPerSecond }) => rowsPerSecond))
    const p99Ms = (side: string) => median(turns[side]!.map((each) => each.p99Ms))
    const bestSide = best
      .map((_, place) => `sweep ${place + 1}`)
      .reduce((a, b) => (rate(b) > rate(a) ? b : a))
    // Each round met the machine with all of them.
    const toBest = (side: string) =>
      round(
        median(
          turns[side]!.map(
            ({ rowsPerSecond }, index) => rowsPerSecond / turns[bestSide]![index]!.rowsPerSecond,
          ),
        ),
        3,
      )
    const ratio = toBest(tunedSide)
    const row = (what: string, { instances, threads, maxBatchSize }: Configuration, concurrency: number, side: string, took: number | '') =>
      ({ model: name, what, configuration: `${instances} x ${threads}, batch ${maxBatchSize}, ${concurrency} callers`, 'rows/s': round(rate(side), 1), 'to the best': toBest(side), 'p99 ms': round(p99Ms(side)), 'tuned in s': took === '' ? '-' : String(round(took, 1)) }) // prettier-ignore
    const rows: TrialResult['rows'] = [
      ...best.map(({ configuration }, place) =>
        row(
          `${place + 1}. of ${grid.length}`,
          configuration,
          saturating(configuration, 1),
          `sweep ${place + 1}`,
          '',
        ),
      ),
      row('tuned', configurationOf(tuned), loadOf(tuned), tunedSide, tuned.seconds),
      row(`tuned, p99 <= ${boundMs} ms`, configurationOf(bound), loadOf(bound), 'bound', bound.seconds),
    ]
    const targets: Target[] = [
      atLeast(0.97, `${name}, tuned to the best of the sweep`, ratio),
      atMost(budget, `${name}, seconds of tuning`, round(Math.max(tuned.seconds, bound.seconds), 1)),
      atMost(boundMs, `${name}, p99 in ms under a bound`, round(p99Ms('bound'))),
    ]
    return {
      name,
      ours: round(rate(tunedSide), 1),
      plain: round(rate(bestSide), 1),
      ratio,
      rows,
      targets,
      details: { name, sweep, turns, tuned, bound },
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const configurationOf = ({ result }: Tuned): Configuration => result.best!.candidate.configuration
const loadOf = ({ result }: Tuned): number => result.best!.candidate.load.concurrency!

/** Runs the command as a user does. */
async function tune(
  path: string,
  batchSizes: readonly number[],
  budget: number,
  folder: string,
  more: readonly string[],
): Promise<Tuned> {
  const output = join(folder, 'zerohop-config.json')
  const startMs = performance.now()
  const line = [
    'tune',
    path,
    '--fresh',
    '--json',
    '--budget',
    String(budget),
    '--max-batch-sizes',
    batchSizes.join(),
    '--max-queue-delays-us',
    '0',
    '-o',
    output,
    ...more,
  ]
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...line], {
    env: { ...process.env, ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' },
    maxBuffer: 2 ** 26,
  })
  const seconds = (performance.now() - startMs) / 1000
  return {
    result: JSON.parse(stdout) as TuneResult,
    config: JSON.parse(readFileSync(output, 'utf8')) as ModelConfig,
    seconds,
  }
}
