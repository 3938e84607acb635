import { availableParallelism } from 'node:os'
import { run, start } from '../child.ts'
import { MemoryWatch } from '../memory.ts'
import { benchModel, type BenchModel } from '../models.ts'
import { takeTurns } from '../rounds.ts'
import { shown } from '../shown.ts'
import { executors, ourSides, type OurSide } from '../side.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const jobs = 100
const maxBatchSize = 4
const processes = availableParallelism()

/** Runs a program to its end, its memory watched if there is a watch. */
async function runWatched(watch: MemoryWatch | null, program: string, input: unknown): Promise<void> {
  const { child, result } = start(program, input)
  watch?.pids.add(child.pid!)
  await result.finally(() => watch?.pids.delete(child.pid!))
}

type Work = (watch: MemoryWatch | null) => Promise<void>

/** A process per image that loads the model itself, as many at a time as there are cores. */
function processPerImage(model: BenchModel, images: number): Work {
  return async (watch) => {
    let next = 0
    const lanes = Array.from({ length: processes }, async () => {
      while (next < images) await runWatched(watch, 'baselines/job.mjs', { model, image: next++ })
    })
    await Promise.all(lanes)
  }
}

function oneEngine(side: OurSide, model: BenchModel, images: number): Work {
  return (watch) =>
    runWatched(watch, 'programs/jobs-ours.mjs', {
      engine: ourSides[side],
      model,
      images,
      jobs,
      config: { maxBatchSize },
    })
}

async function seconds(work: Work): Promise<number> {
  const startMs = performance.now()
  await work(null)
  return (performance.now() - startMs) / 1000
}

async function peakMb(work: Work): Promise<number> {
  const watch = new MemoryWatch()
  try {
    await work(watch)
    return watch.peakBytes / 2 ** 20
  } finally {
    watch.stop()
  }
}

/** Jobs over a heavy model: loading it once instead of in every job. */
export const jobsTrial: Trial = {
  describe:
    'ResNet-152, every image a job: a process each that loads the model, against 100 jobs on one engine, with both executors',
  async run({ images, rounds, smoke }) {
    const model = benchModel(smoke ? 'mlp' : 'resnet152')
    const count = smoke ? 4 : images
    // Files that were never read would make the first side slow.
    await run('baselines/job.mjs', { model, image: 0 })
    await oneEngine('native', model, 1)(null)
    const sides = {
      plain: processPerImage(model, count),
      native: oneEngine('native', model, count),
      binding: oneEngine('binding', model, count),
    }
    const found = await takeTurns(rounds, {
      plain: () => seconds(sides.plain),
      native: () => seconds(sides.native),
      binding: () => seconds(sides.binding),
    })
    // Watched apart, because the looks at a large process are a load of their own.
    const watched = {
      plain: await peakMb(sides.plain),
      native: await peakMb(sides.native),
      binding: await peakMb(sides.binding),
    }
    const ratio = (side: keyof typeof found) =>
      round(median(found.plain.map((plain, index) => plain / found[side][index]!)))
    const perSecond = (side: keyof typeof found) => round(count / median(found[side]))
    const row = (what: string, side: keyof typeof found) => ({
      what,
      'images/s': perSecond(side),
      'to a process each': ratio(side),
      'peak PSS MB': round(watched[side], 0),
    })
    return {
      ours: perSecond('native'),
      plain: perSecond('plain'),
      unit: `images/s over ${count} images, start and load included`,
      ratio: ratio('native'),
      targets: [
        atLeast(5.5, 'images/s, native to plain', ratio('native')),
        atMost(0.8, 'peak memory, native to plain', round(watched.native / watched.plain)),
      ],
      numbers: [
        {
          question: `ResNet-152, ${count} images as jobs: a process each, or one engine`,
          plain: `${shown(perSecond('plain'))} images/s`, zerohop: `${shown(perSecond('native'))} images/s`, note: `${ratio('native')} x`,
        },
        { question: 'the same, peak memory (PSS)', plain: `${shown(watched.plain)} MB`, zerohop: `${shown(watched.native)} MB`, note: `${round(watched.native / watched.plain)} x` },
      ], // prettier-ignore
      rows: [
        row(`${processes} processes at a time, one per image`, 'plain'),
        ...executors.map((side) => row(`one engine, ${jobs} jobs, ${side}`, side)),
      ],
      settings: { images: count, jobs, maxBatchSize, processes },
      details: { seconds: found },
    }
  },
}
