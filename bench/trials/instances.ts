import { mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { closedLoops, rate, rateRatio } from '../closed-loops.ts'
import { benchModel, type BenchModel } from '../models.ts'
import { hasShared, sharedPath } from '../../test/support/shared.ts'
import type { ClosedLoopResult } from '../programs/closed-loop.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import type { Trial, TrialOptions, TrialResult } from '../trial.ts'

const levels = [1, 8, 64]

/** What a lone caller gets of a model whose instances divide the cores. */
export const instances: Trial = {
  describe:
    'SqueezeNet and ResNet-50 with two instances, beside one instance, and beside two whose batches have their own cores only; 1, 8 and 64 callers',
  reading:
    'Models are opened from a folder of compiled ones. With `intraOpNumThreads` given, an instance has these threads, and no batch has all cores. Memory is the PSS of the process, with its callers.',
  seconds: 5,
  async run({ seconds, rounds, smoke }) {
    const cache = mkdtempSync(join(tmpdir(), 'zerohop-bench-'))
    try {
      return await measured(cache, { seconds, rounds, smoke })
    } finally {
      rmSync(cache, { recursive: true })
    }
  },
}

async function measured(
  cache: string,
  { seconds, rounds, smoke }: Pick<TrialOptions, 'seconds' | 'rounds' | 'smoke'>,
): Promise<TrialResult> {
  const squeezeNet = {
    path: sharedPath('models/squeezenet/model.onnx'),
    input: 'data_0',
    rowDims: [3, 224, 224],
  }
  const models: Record<string, BenchModel> = smoke
    ? { MLP: benchModel('mlp') }
    : { ...(hasShared && { SqueezeNet: squeezeNet }), 'ResNet-50': benchModel('resnet50') }
  const share = Math.max(1, Math.floor(availableParallelism() / 2))
  const rows: TrialResult['rows'][number][] = []
  const targets: TrialResult['targets'][number][] = []
  const details: Record<string, unknown> = {}
  let lone: { one: number; two: number; ratio: number } | null = null
  for (const [name, model] of Object.entries(models)) {
    const measure = closedLoops(
      { side: 'native', model, concurrency: 1, warmupSeconds: Math.min(3, seconds), seconds },
      { ZEROHOP_CACHE: cache, ZEROHOP_VERIFY: undefined },
    )
    for (const concurrency of smoke ? [1] : levels) {
      const found = await takeTurns(rounds, {
        one: () => measure({ concurrency }),
        two: () => measure({ concurrency, instances: 2 }),
        divided: () => measure({ concurrency, instances: 2, intraOpNumThreads: share }),
      })
      details[`${name}, ${concurrency}`] = found
      const toOne = round(rateRatio(found.two, found.one))
      const toDivided = round(rateRatio(found.two, found.divided))
      const memory = round(
        median(found.two.map(({ pssBytes }, at) => pssBytes! / found.divided[at]!.pssBytes!)),
        3,
      )
      const megabytes = (results: readonly ClosedLoopResult[]) =>
        round(median(results.map(({ pssBytes }) => pssBytes!)) / 2 ** 20, 0)
      const told = `${name}, ${concurrency === 1 ? '1 caller' : `${concurrency} callers`}`
      rows.push({
        load: told,
        'one /s': round(rate(found.one), 1),
        'two /s': round(rate(found.two), 1),
        'two, own cores only, /s': round(rate(found.divided), 1),
        'two to one': toOne,
        'to own cores only': toDivided,
        'two MiB': megabytes(found.two),
        'to own cores only ': memory,
      })
      if (concurrency === 1) {
        lone ??= { one: rate(found.one), two: rate(found.two), ratio: toOne }
        targets.push(atLeast(0.95, `${told}: two instances to one`, toOne))
      } else targets.push(atLeast(0.97, `${told}: to two with their own cores only`, toDivided))
      targets.push(atMost(1.05, `${told}: memory to two with their own cores only`, memory))
    }
  }
  return {
    ours: round(lone!.two, 1),
    plain: round(lone!.one, 1),
    unit: 'requests/s of one caller, two instances against one',
    ratio: lone!.ratio,
    targets,
    rows,
    settings: { seconds, rounds, intraOpNumThreads: share },
    details,
  }
}
