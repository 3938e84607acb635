import { hasShared, sharedPath } from '../../../test/support/shared.ts'
import { run } from '../../child.ts'
import { closedLoops, rate, rateRatio } from '../../closed-loops.ts'
import { benchModel } from '../../models.ts'
import { takeTurns } from '../../rounds.ts'
import { round } from '../../statistics.ts'
import { atLeast, atMost, type Target } from '../../targets.ts'
import { TrialSkipped } from '../../trial.ts'
import type { GpuFound, GpuInput } from '../gpu-question.ts'
import { capabilitiesHere } from '../here.ts'
import type { Part, PartOptions, PartResult } from '../part.ts'
import { photographs } from './webgpu.ts'

/** Of answers by CUDA to those of the CPU: products and convolutions are rounded to 10 bits of fraction there (TF32), as ONNX Runtime has it by default. */
const tolerance = 1e-2
const callers = [1, 8, 64]

/** Models by CUDA: their answers, and what joining requests gives there. */
export const cuda: Part = {
  describe:
    "models by CUDA: their answers against the CPU's, and requests/s of 1, 8 and 64 callers beside onnxruntime-node's own session on CUDA",
  async run(options) {
    const { cuda: found } = await capabilitiesHere()
    if (!found.available) throw new TrialSkipped(` (skipped: ${found.reason.split(';', 1)[0]})`)
    const results = [await answers(options), await throughput(options)]
    return {
      on: found.devices[0]!.name,
      standIn: false,
      rows: results.flatMap(({ rows }) => rows),
      targets: results.flatMap(({ targets }) => targets),
    }
  },
}

type Found = Pick<PartResult, 'rows' | 'targets'>

const row = (model: string, what: string, baseline: number, ours: number, ratio: number) => ({
  model,
  what,
  baseline,
  'zerohop on CUDA': ours,
  ratio,
})

async function answers({ seconds }: PartOptions): Promise<Found> {
  const questions = ['mlp', 'resnet50'].map((name) => ({
    name,
    ...benchModel(name as 'mlp' | 'resnet50'),
    images: [] as string[],
  }))
  if (hasShared)
    questions.push({
      name: 'squeezenet',
      path: sharedPath('models/squeezenet/model.onnx'),
      input: 'data_0',
      rowDims: [3, 224, 224],
      images: photographs.map((image) => sharedPath(`images/${image}`)),
    })
  const rows: Found['rows'][number][] = []
  const targets: Target[] = []
  for (const { name, path, input, rowDims, images } of questions) {
    const question: GpuInput = { kind: 'cuda', path, input, rowDims, images, seconds }
    const found = await run<GpuFound>('gpu/programs/answers.ts', question)
    if (found.ran === null)
      targets.push(atLeast(1, `${name}: models that ran (${found.code}: ${found.reason})`, 0))
    else {
      rows.push(
        row(
          name,
          'ms a request alone, beside zerohop on the CPU',
          round(found.ran.cpuMs, 3),
          round(found.ran.gpuMs, 3),
          round(found.ran.gpuMs / found.ran.cpuMs),
        ),
      )
      targets.push(
        atMost(tolerance, `${name}: largest difference to the largest output`, found.ran.difference),
      )
    }
  }
  return { rows, targets }
}

async function throughput({ seconds, rounds, smoke }: PartOptions): Promise<Found> {
  const rows: Found['rows'][number][] = []
  const targets: Target[] = []
  for (const name of smoke ? (['mlp'] as const) : (['mlp', 'resnet50'] as const)) {
    for (const concurrency of callers) {
      const loop = closedLoops({
        side: 'native',
        model: benchModel(name),
        kind: 'cuda',
        maxBatchSize: 64,
        concurrency,
        warmupSeconds: seconds,
        seconds,
      })
      const { plain, native } = await takeTurns(rounds, {
        plain: () => loop({ side: 'plain' }),
        native: () => loop(),
      })
      const ratio = round(rateRatio(native, plain))
      rows.push(
        row(
          name,
          `requests/s of ${concurrency} callers, beside a plain session on CUDA`,
          Math.round(rate(plain)),
          Math.round(rate(native)),
          ratio,
        ),
      )
      if (concurrency === 64)
        targets.push(atLeast(1, `${name}: requests/s of 64 callers, ours to plain`, ratio))
    }
  }
  return { rows, targets }
}
