import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { openVinoPlugin, openVinoPython } from '../../test/providers/libraries.ts'
import { closedLoops } from '../closed-loops.ts'
import { benchModel, type BenchModel } from '../models.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atLeast } from '../targets.ts'
import { TrialSkipped, type Trial } from '../trial.ts'

const callers = 32
const maxBatchSize = 8
const precision = 'bfloat16'

interface Queued {
  readonly rows: number
  readonly streams: number
  readonly perSecond: number
}

/** The load of the trial `saturation` on OpenVINO's plugin: beside the CPU provider, and beside OpenVINO by itself. */
export const openVino: Trial = {
  describe:
    "ResNet-50 on OpenVINO's plugin, images/s with 32 callers, against plain ONNX Runtime and OpenVINO's AsyncInferQueue",
  seconds: 8,
  async run({ seconds, rounds, smoke }) {
    const { library, missing } = openVinoPlugin()
    if (library === null) throw new TrialSkipped(missing)
    const model = benchModel(smoke ? 'mlp' : 'resnet50')
    const warmupSeconds = Math.min(2, seconds / 2)
    const measure = closedLoops({
      side: 'native',
      model,
      concurrency: callers,
      maxBatchSize,
      warmupSeconds,
      seconds,
      plugin: { library, precision },
    })
    const perSecond = async (changes?: Parameters<typeof measure>[0]) =>
      (await measure(changes)).rowsPerSecond
    const cores = availableParallelism()
    const queue = (batches: number[], streams: number[]) =>
      asyncInferQueue(model, { batches, streams, seconds, warmupSeconds })

    const sweep = await queue([1, maxBatchSize], [...new Set([1, cores])])
    const best = sweep.reduce((a, b) => (b.perSecond > a.perSecond ? b : a))
    const found = await takeTurns(rounds, {
      plain: () =>
        perSecond({
          side: 'plain',
          concurrency: 1,
          rows: maxBatchSize,
          intraOpNumThreads: cores,
          plugin: undefined,
        }),
      queue: async () => (await queue([best.rows], [best.streams]))[0]!.perSecond,
      mixed: () => perSecond({ mixedRows: 5 }),
      ours: () => perSecond(),
    })
    const [cpu, own, mix, ours] = [
      median(found.plain),
      median(found.queue),
      median(found.mixed),
      median(found.ours),
    ]
    // Within a round, which the machine met with all sides.
    const ratio = (side: readonly number[], base: readonly number[]) =>
      round(median(side.map((each, index) => each / base[index]!)), 3)
    return {
      ours: round(ours),
      plain: round(cpu),
      unit: 'images/s',
      ratio: ratio(found.ours, found.plain),
      targets: [
        atLeast(4, 'ours to plain on the CPU provider', ratio(found.ours, found.plain)),
        atLeast(0.95, "ours to OpenVINO's AsyncInferQueue", ratio(found.ours, found.queue)),
        atLeast(0.9, 'batches of mixed sizes to full ones', ratio(found.mixed, found.ours)),
      ],
      rows: [
        ...sweep.map(({ rows, streams, perSecond }) => ({
          what: `AsyncInferQueue, batch ${rows}, ${streams} streams (sweep)`,
          'images/s': round(perSecond),
        })),
        {
          what: `plain on the CPU provider, batch ${maxBatchSize}, ${cores} threads`,
          'images/s': round(cpu),
        },
        { what: `AsyncInferQueue, batch ${best.rows}, ${best.streams} streams`, 'images/s': round(own) },
        { what: `ours, requests of 1 to 5 rows`, 'images/s': round(mix) },
        { what: `ours, ${callers} callers, maxBatchSize ${maxBatchSize}`, 'images/s': round(ours) },
      ],
      settings: { callers, maxBatchSize, precision, queue: { rows: best.rows, streams: best.streams } },
      details: found,
    }
  },
}

async function asyncInferQueue(
  { path, input, rowDims }: BenchModel,
  settings: { batches: number[]; streams: number[]; seconds: number; warmupSeconds: number },
): Promise<Queued[]> {
  if (!existsSync(openVinoPython))
    throw new TrialSkipped(' (skipped: OpenVINO was not installed by its script)')
  const program = fileURLToPath(new URL('../baselines/openvino-async.py', import.meta.url))
  const line = JSON.stringify({ path, input, rowDims, precision: 'bf16', ...settings })
  const { stdout } = await promisify(execFile)(openVinoPython, [program, line])
  return JSON.parse(stdout) as Queued[]
}
