import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { promisify } from 'node:util'
import type { Random } from '../../../src/base/numbers.ts'
import { manyPictures } from './pictures.ts'
import { startRedis } from './redis.ts'
import { watchQueue, type WatchedQueue } from './watched-queue.ts'
import { killWorker, startWorker, stopWorker, type RunningWorker, type WorkerSettings } from './workers.ts'

export interface RoundOptions {
  /** Of the example; see `packedExample`. */
  readonly folder: string
  /** A folder of pictures, of which each is many jobs. */
  readonly pictures: string
  readonly jobs: number
  readonly workers: number
  readonly kills: number
  readonly random: Random
  readonly settings: WorkerSettings
}

/** What came of the jobs of a round. */
export interface RoundResult {
  readonly jobs: number
  readonly kills: number
  /** Neither answered nor failed: there must be none. */
  readonly lost: number
  readonly failed: number
  /** Held by a worker when that was killed. */
  readonly cutOff: number
  /** Of those, how many were begun more than once, and whose answer was stored more than once. */
  readonly redone: number
  readonly duplicates: number
  /** Begun or stored more than once although no worker was killed that held them: a lock was lost on a busy machine. */
  readonly redoneOfLiving: number
  readonly duplicatesOfLiving: number
  /** Workers that did not end by themselves, with code 0, when they were told to at the end. */
  readonly notEnded: number
  readonly seconds: number
}

/** Has the jobs done by workers of which some are killed, at any moment, each followed by a new one. */
export async function killRound(options: RoundOptions): Promise<RoundResult> {
  const pictures = manyPictures(options.pictures, options.jobs)
  const redis = await startRedis()
  try {
    const watched = await watchQueue(redis.port)
    const settings = { ...options.settings, PICTURES: pictures, REDIS_URL: `redis://127.0.0.1:${redis.port}` }
    return await watchedRound(watched, { ...options, settings }).finally(watched.close)
  } finally {
    await redis.close()
    rmSync(pictures, { recursive: true })
  }
}

async function watchedRound(watched: WatchedQueue, options: RoundOptions): Promise<RoundResult> {
  const { folder, jobs, kills, random, settings } = options
  const workers: RunningWorker[] = []
  const start = async () => void workers.push(await startWorker(folder, settings))
  const cutOff = new Set<string>()
  const killOne = async () => {
    const [victim] = workers.splice(Math.floor(random() * workers.length), 1)
    await killWorker(victim!)
    for (const id of await watched.heldBy(victim!.name)) cutOff.add(id)
    await start()
  }
  try {
    await Promise.all(Array.from({ length: options.workers }, start))
    const killed = killAtRandom(watched, options, killOne)
    const startedAt = performance.now()
    await promisify(execFile)(process.execPath, ['--preserve-symlinks', 'enqueue.js'], {
      cwd: folder,
      env: { ...process.env, ...settings },
    })
    await Promise.all([watched.ended(jobs), killed])
    const seconds = (performance.now() - startedAt) / 1000
    const codes = await Promise.all(workers.map(async (worker) => (await stopWorker(worker)).code))
    return {
      jobs,
      kills,
      ...(await outcome(watched, jobs, cutOff)),
      notEnded: codes.filter((code) => code !== 0).length,
      seconds,
    }
  } finally {
    for (const { running } of workers) running.child.kill('SIGKILL')
  }
}

/** Kills after an answer that is drawn, and then some commands further: between any two that a worker gives. */
function killAtRandom(
  { onCommand }: WatchedQueue,
  { jobs, kills, random }: Pick<RoundOptions, 'jobs' | 'kills' | 'random'>,
  kill: () => Promise<void>,
): Promise<void> {
  const afterAnswers = Array.from({ length: kills }, () => Math.ceil(random() * jobs * 0.9)).sort(
    (first, second) => first - second,
  )
  let answers = 0
  let commandsLeft = Math.floor(random() * 50)
  let killed = Promise.resolve()
  return new Promise((resolve, reject) => {
    if (kills === 0) resolve()
    onCommand((isStore) => {
      if (isStore) answers++
      if (afterAnswers.length === 0 || answers < afterAnswers[0]! || commandsLeft-- > 0) return
      afterAnswers.shift()
      commandsLeft = Math.floor(random() * 50)
      killed = killed.then(kill)
      killed.catch(reject)
      if (afterAnswers.length === 0) killed.then(resolve, reject)
    })
  })
}

async function outcome(
  watched: WatchedQueue,
  jobs: number,
  cutOff: ReadonlySet<string>,
): Promise<Omit<RoundResult, 'jobs' | 'kills' | 'notEnded' | 'seconds'>> {
  const { completed, failed } = await watched.queue.getJobCounts('completed', 'failed')
  const answers = await watched.answers()
  const begunTwice = (await watched.jobs())
    .filter(({ attemptsStarted }) => attemptsStarted > 1)
    .map(({ id }) => id!)
  const storedTwice = [...watched.stores].filter(([, times]) => times > 1).map(([id]) => id)
  const [redone, duplicates] = [begunTwice, storedTwice].map(
    (ids) => ids.filter((id) => cutOff.has(id)).length,
  )
  return {
    lost: jobs - Math.min(completed!, answers.size) - failed!,
    failed: failed!,
    cutOff: cutOff.size,
    redone: redone!,
    duplicates: duplicates!,
    redoneOfLiving: begunTwice.length - redone!,
    duplicatesOfLiving: storedTwice.length - duplicates!,
  }
}
