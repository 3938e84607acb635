import { availableParallelism } from 'node:os'
import { start } from '../child.ts'
import { MemoryWatch } from '../memory.ts'
import { benchModel, type BenchModel } from '../models.ts'
import { takeTurns } from '../rounds.ts'
import { round } from '../statistics.ts'
import type { Trial } from '../trial.ts'

interface JobsResult {
  readonly imagesPerSecond: number
  readonly peakMb: number
}

const jobs = 100
const maxBatchSize = 4

async function timed(images: number, work: (watch: MemoryWatch) => Promise<void>): Promise<JobsResult> {
  const watch = new MemoryWatch()
  const startMs = performance.now()
  await work(watch)
  const imagesPerSecond = (images / (performance.now() - startMs)) * 1000
  return { imagesPerSecond, peakMb: watch.stop() / 2 ** 20 }
}

async function watched(watch: MemoryWatch, program: string, input: unknown): Promise<void> {
  const { child, result } = start(program, input)
  watch.pids.add(child.pid!)
  await result.finally(() => watch.pids.delete(child.pid!))
}

/** A process per image that loads the model itself, as many at a time as there are cores. */
function processPerImage(model: BenchModel, images: number): Promise<JobsResult> {
  return timed(images, async (watch) => {
    let next = 0
    const lanes = Array.from({ length: availableParallelism() }, async () => {
      while (next < images) await watched(watch, 'job-plain.mjs', { model, image: next++ })
    })
    await Promise.all(lanes)
  })
}

/** Jobs over a heavy model: loading it once instead of in every job. */
export const jobsTrial: Trial = {
  describe: 'ResNet-152, every image a job: a process each that loads the model, against 100 jobs on one engine',
  seconds: 0,
  async run({ images, rounds, smoke }) {
    const model = benchModel('resnet152')
    const count = smoke ? 4 : images
    const { all } = await takeTurns(
      smoke ? 1 : Math.min(rounds, 2),
      {
        ours: () => timed(count, (watch) => watched(watch, 'jobs-ours.mjs', { model, images: count, jobs, maxBatchSize })),
        plain: () => processPerImage(model, count),
      },
      ({ imagesPerSecond }) => imagesPerSecond,
    )
    const mean = (results: JobsResult[], key: keyof JobsResult) => results.reduce((sum, result) => sum + result[key], 0) / results.length
    const [ours, plain] = [mean(all.ours, 'imagesPerSecond'), mean(all.plain, 'imagesPerSecond')]
    const [oursMb, plainMb] = [mean(all.ours, 'peakMb'), mean(all.plain, 'peakMb')]
    const row = (what: string, perSecond: number, peakMb: number) => ({ what, 'images/s': round(perSecond), 'peak PSS MB': round(peakMb, 0) })
    return {
      ours: round(ours),
      plain: round(plain),
      unit: `images/s over ${count} images, start and load included`,
      ratio: round(ours / plain),
      target: `>= 5 times the images/s, peak memory <= 0.8 (found ${round(oursMb / plainMb)})`,
      met: ours / plain >= 5 && oursMb / plainMb <= 0.8,
      rows: [row('a process per image', plain, plainMb), row(`one engine, ${jobs} jobs`, ours, oursMb)],
      settings: { images: count, maxBatchSize, processes: availableParallelism() },
    }
  },
}
