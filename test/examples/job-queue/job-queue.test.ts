// Full: it packs and installs an example, and starts servers.
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { mulberry32 } from '../../../src/base/numbers.ts'
import { hasShared, missingShared, sharedPath } from '../../support/shared.ts'
import { packedExample, startExample } from '../packed-example.ts'
import { createHost, missingHosts } from './hosts.ts'
import { killRound } from './kill-round.ts'
import { manyPictures } from './pictures.ts'
import { hasRedis, missingRedis, startRedis } from './redis.ts'
import { slowCable } from './slow-cable.ts'
import { threadsThatEnd } from './threads-that-end.ts'
import { watchQueue } from './watched-queue.ts'
import { startWorker, stopWorker, type RunningWorker, type WorkerSettings } from './workers.ts'

const digits = fileURLToPath(new URL('../../../examples/digits', import.meta.url))
const digitsModel = {
  MODEL: join(digits, 'model.onnx'),
  LABELS: join(digits, 'labels.txt'),
  IMAGE: '{"scale":1}',
}
const squeezenet = {
  MODEL: sharedPath('models/squeezenet/model.onnx'),
  LABELS: sharedPath('models/squeezenet/labels.txt'),
  IMAGE: '{"channels":"bgr"}',
}

describe.skipIf(!hasRedis)(`the job queue${missingRedis}`, () => {
  let folder = ''
  beforeAll(() => {
    folder = packedExample('job-queue')
  })
  afterAll(() => {
    if (folder !== '') rmSync(folder, { recursive: true, force: true })
  })

  const program = (module: string, settings: WorkerSettings) =>
    promisify(execFile)(process.execPath, ['--preserve-symlinks', module], {
      cwd: folder,
      env: { ...process.env, ...settings },
    })
  /** A Redis of its own, watched, and what workers are told of it. */
  const ownQueue = async (pictures: string, addresses?: readonly string[]) => {
    const redis = await startRedis(addresses)
    onTestFinished(() => redis.close())
    const watched = await watchQueue(redis.port)
    onTestFinished(() => watched.close())
    return {
      redis,
      watched,
      settings: { ...digitsModel, PICTURES: pictures, REDIS_URL: `redis://127.0.0.1:${redis.port}` },
    }
  }
  const ownWorker = async (settings: WorkerSettings, within?: readonly string[]): Promise<RunningWorker> => {
    const worker = await startWorker(folder, settings, within)
    onTestFinished(() => void worker.running.child.kill('SIGKILL'))
    return worker
  }
  const ownPictures = (count: number) => {
    const pictures = manyPictures(join(digits, 'images'), count)
    onTestFinished(() => rmSync(pictures, { recursive: true }))
    return pictures
  }

  it.skipIf(!hasShared)(
    `says what is in each picture, once, however often it is asked${missingShared}`,
    async () => {
      const { watched, settings: own } = await ownQueue(sharedPath('images'))
      const settings = { ...own, ...squeezenet }
      const worker = await ownWorker(settings)
      await Promise.all([program('enqueue.js', settings), program('enqueue.js', settings)])
      await watched.ended(9)
      await program('enqueue.js', settings)
      const { stdout, stderr } = await program('answers.js', settings)
      const labels = new Map(stdout.trim().split('\n').map((line) => JSON.parse(line) as { picture: string; label: string }).map(({ picture, label }) => [picture, label])) // prettier-ignore
      expect(labels.size).toBe(9)
      for (const [picture, label] of [
        ['goldfish.jpg', 'goldfish'],
        ['mug.jpg', 'coffee mug'],
        ['wolves.jpg', 'white wolf'],
        ['fish.png', 'tench'],
      ])
        expect(labels.get(picture!)).toContain(label)
      expect(stderr).toMatch(/waiting: 0, active: 0, delayed: 0, completed: 9, failed: 0/)
      expect([...watched.stores.values()]).toEqual(Array(9).fill(1))
      expect(await stopWorker(worker)).toMatchObject({ code: 0 })
    },
  )

  it('fails what is no picture at once, and goes on', async () => {
    const pictures = mkdtempSync(join(tmpdir(), 'zerohop-pictures-'))
    onTestFinished(() => rmSync(pictures, { recursive: true }))
    writeFileSync(join(pictures, 'notes.jpg'), 'no picture')
    symlinkSync(join(pictures, 'nowhere.png'), join(pictures, 'gone: 1.png'))
    symlinkSync(join(digits, 'images/0-0000.png'), join(pictures, '0.png'))
    writeFileSync(join(pictures, 'large.png'), '')
    truncateSync(join(pictures, 'large.png'), 2 ** 30)
    execFileSync('mkfifo', [join(pictures, 'pipe.png')])
    const { watched, settings } = await ownQueue(pictures)
    const worker = await ownWorker(settings)
    await program('enqueue.js', settings)
    await watched.ended(5)
    const failed = await watched.queue.getFailed()
    expect(
      failed.map(({ id, attemptsMade, failedReason }) => [id, attemptsMade, failedReason]).sort(),
    ).toEqual([
      ['gone%3A%201.png', 1, 'there is no such file'],
      ['large.png', 1, `it has ${2 ** 30} bytes, and ${2 ** 26} at most are read`],
      ['notes.jpg', 1, expect.stringContaining('expected an image')],
      ['pipe.png', 1, 'it is no file'],
    ])
    expect(await stopWorker(worker)).toMatchObject({ code: 0 })
    expect([...(await watched.answers()).values()]).toMatchObject([{ picture: '0.png', label: '0' }])
  })

  it('leaves jobs to workers that can do them where one cannot, as its folder is not mounted', async () => {
    const { watched, settings } = await ownQueue(ownPictures(100))
    const empty = mkdtempSync(join(tmpdir(), 'zerohop-pictures-'))
    onTestFinished(() => rmSync(empty, { recursive: true }))
    const unable = await ownWorker({ ...settings, PICTURES: empty })
    await program('enqueue.js', settings)
    await unable.running.said(/: ENOENT/)
    const able = await ownWorker(settings)
    await watched.ended(100)
    expect(await watched.queue.getJobCounts('completed', 'failed')).toEqual({ completed: 100, failed: 0 })
    expect(await Promise.all([unable, able].map(async (worker) => (await stopWorker(worker)).code))).toEqual([
      0, 0,
    ])
  })

  it('ends with code 1 where its model serves no more, and others do the jobs', async () => {
    const { watched, settings } = await ownQueue(ownPictures(300))
    const threads = threadsThatEnd()
    const worker = await ownWorker({
      ...settings,
      MAX_WAITING: '8',
      NODE_OPTIONS: `--import=${threads.preload}`,
    })
    const begun = new Promise<void>((resolve) => watched.onCommand((isStore) => isStore && resolve()))
    await program('enqueue.js', settings)
    await begun
    threads.end()
    expect(await worker.running.ended()).toMatchObject({
      code: 1,
      text: expect.stringContaining('the model serves no more: '),
    })
    expect(await watched.queue.getJobCounts('active', 'failed')).toEqual({ active: 0, failed: 0 })
    await ownWorker(settings)
    await watched.ended(300)
    expect(await watched.queue.getJobCounts('completed', 'failed')).toEqual({ completed: 300, failed: 0 })
  })

  it('holds no more jobs than the queue of its model can bear, so that none is refused', async () => {
    const { watched, settings } = await ownQueue(ownPictures(40))
    const worker = await ownWorker({ ...settings, MAX_WAITING: '3' })
    const held: Promise<number>[] = []
    watched.onCommand((isStore) => {
      if (isStore) held.push(watched.queue.getActiveCount())
    })
    await program('enqueue.js', settings)
    await watched.ended(40)
    expect(Math.max(...(await Promise.all(held)))).toBeLessThanOrEqual(3)
    expect(await watched.queue.getJobCounts('completed', 'failed')).toEqual({ completed: 40, failed: 0 })
    expect((await stopWorker(worker)).text).not.toContain('ERR_QUEUE_FULL')
  })

  it('keeps the jobs that it holds, also where Redis is so slow that fetching as many takes longer than they are its own', async () => {
    const { redis, watched, settings } = await ownQueue(ownPictures(80))
    const cable = await slowCable(redis.port, 50)
    onTestFinished(cable.close)
    await program('enqueue.js', settings)
    const worker = await ownWorker({
      ...settings,
      REDIS_URL: `redis://127.0.0.1:${cable.port}`,
      LOCK_MS: '3000',
      STALLED_MS: '500',
    })
    await watched.ended(80)
    expect(
      (await watched.jobs()).filter(({ attemptsStarted }) => attemptsStarted > 1).map(({ id }) => id),
    ).toEqual([])
    expect([...watched.stores.values()]).toEqual(Array(80).fill(1))
    expect(await stopWorker(worker)).toMatchObject({ code: 0, text: expect.not.stringContaining('lock') })
  })

  it('does what it holds when it is told to stop, leaves the rest, and ends', async () => {
    const { watched, settings } = await ownQueue(ownPictures(300))
    const worker = await ownWorker({ ...settings, MAX_WAITING: '8' })
    const begun = new Promise<void>((resolve) => watched.onCommand((isStore) => isStore && resolve()))
    await program('enqueue.js', settings)
    await begun
    expect(await stopWorker(worker)).toMatchObject({ code: 0 })
    const { waiting, active, completed, failed } = await watched.queue.getJobCounts(
      'waiting',
      'active',
      'completed',
      'failed',
    )
    expect([active, failed, waiting! + completed!]).toEqual([0, 0, 300])
    expect(completed).toBe((await watched.answers()).size)
    await ownWorker(settings)
    await watched.ended(300)
    expect([...watched.stores.values()]).toEqual(Array(300).fill(1))
  })

  it('does what it holds also where npm passes on the Ctrl-C that it had from the terminal', async () => {
    const { watched, settings } = await ownQueue(ownPictures(300))
    const npm = spawn('npm', ['start', '--node-options=--preserve-symlinks'], {
      cwd: folder,
      env: { ...process.env, ...settings, MAX_WAITING: '8' },
      stdio: 'ignore',
      detached: true,
    })
    const exited = once(npm, 'exit')
    const begun = new Promise<void>((resolve) => watched.onCommand((isStore) => isStore && resolve()))
    await program('enqueue.js', settings)
    await begun
    process.kill(-npm.pid!, 'SIGINT') // all programs of a terminal have it
    await exited
    expect(await watched.queue.getJobCounts('active', 'failed')).toEqual({ active: 0, failed: 0 })
  })

  it('loses no job where workers are killed, and does again only what they held', async () => {
    const random = mulberry32(1)
    const result = await killRound({
      folder,
      pictures: join(digits, 'images'),
      jobs: 60,
      workers: 2,
      kills: 2,
      random,
      settings: { ...digitsModel, LOCK_MS: '4000', STALLED_MS: '500' },
    })
    expect(result).toMatchObject({
      jobs: 60,
      kills: 2,
      lost: 0,
      failed: 0,
      redoneOfLiving: 0,
      duplicatesOfLiving: 0,
      notEnded: 0,
    })
    expect(result.duplicates).toBeLessThanOrEqual(result.cutOff)
    expect(result.redone).toBe(result.cutOff)
  })

  it('ends when it is told to also where Redis is away, from the beginning or while it holds jobs', async () => {
    const { redis, watched, settings } = await ownQueue(ownPictures(300))
    const worker = await ownWorker({ ...settings, LOCK_MS: '3000' })
    const begun = new Promise<void>((resolve) => watched.onCommand((isStore) => isStore && resolve()))
    await program('enqueue.js', settings)
    await begun
    await redis.kill()
    await worker.running.said(/ECONNREFUSED/)
    expect(await stopWorker(worker)).toMatchObject({ code: 0 })
    const early = startExample(folder, 'worker.js', settings)
    onTestFinished(() => void early.child.kill('SIGKILL'))
    await early.said(/ECONNREFUSED/)
    early.child.kill('SIGTERM')
    expect(await early.ended()).toMatchObject({ code: 0 })
    await redis.start()
    await ownWorker({ ...settings, STALLED_MS: '500' })
    await watched.ended(300)
    expect((await watched.answers()).size).toBe(300)
  })

  it('goes on where Redis is killed and comes back with what it had written', async () => {
    const { redis, watched, settings } = await ownQueue(ownPictures(300))
    const worker = await ownWorker(settings)
    const begun = new Promise<void>((resolve) => watched.onCommand((isStore) => isStore && resolve()))
    await program('enqueue.js', settings)
    await begun
    await redis.kill()
    await redis.start()
    await watched.ended(300)
    expect((await watched.answers()).size).toBe(300)
    expect(await stopWorker(worker)).toMatchObject({ code: 0 })
  })

  it.skipIf(missingHosts !== '')(
    `does elsewhere what a host held that is cut off, and stores none twice over${missingHosts}`,
    async () => {
      const hosts = [createHost(1), createHost(2)]
      for (const host of hosts) onTestFinished(() => host.remove())
      const { redis, watched, settings } = await ownQueue(ownPictures(300), [
        '127.0.0.1',
        ...hosts.map(({ gateway }) => gateway),
      ])
      const workers = await Promise.all(
        hosts.map(({ gateway, within }) =>
          ownWorker(
            {
              ...settings,
              LOCK_MS: '3000',
              STALLED_MS: '500',
              REDIS_URL: `redis://${gateway}:${redis.port}`,
            },
            within,
          ),
        ),
      )
      const begun = new Promise<void>((resolve) => watched.onCommand((isStore) => isStore && resolve()))
      await program('enqueue.js', settings)
      await begun
      let held: string[] = []
      while (held.length === 0) {
        hosts[0]!.plug(false)
        held = await watched.heldBy(workers[0]!.name)
        hosts[0]!.plug(held.length === 0) // again, when it holds some
      }
      await watched.ended(300)
      expect((await watched.answers()).size).toBe(300)
      hosts[0]!.plug(true)
      expect(await Promise.all(workers.map(async (worker) => (await stopWorker(worker)).code))).toEqual([
        0, 0,
      ])
      expect(await watched.queue.getJobCounts('active', 'completed', 'failed')).toEqual({
        active: 0,
        completed: 300,
        failed: 0,
      })
      const begunTwice = (await watched.jobs())
        .filter(({ attemptsStarted }) => attemptsStarted > 1)
        .map(({ id }) => id!)
      expect(begunTwice.sort()).toEqual(held.sort())
      expect([...watched.stores].filter(([id, times]) => times > 1 && !held.includes(id))).toEqual([])
    },
  )

  it('says what it needs, where it is not told', async () => {
    expect(await startExample(folder, 'worker.js', {}).ended()).toMatchObject({
      code: 1,
      text: expect.stringContaining('MODEL: expected the path of an ONNX image classifier'),
    })
    expect(await startExample(folder, 'worker.js', { LOCK_MS: '1.5' }).ended()).toMatchObject({
      code: 1,
      text: expect.stringContaining('LOCK_MS: expected a whole number of at least 100, received 1.5'),
    })
    expect(await startExample(folder, 'worker.js', { IMAGE: '{channels: "bgr"}' }).ended()).toMatchObject({
      code: 1,
      text: expect.stringContaining(
        'IMAGE: expected JSON, as {"channels":"bgr"}, received {channels: "bgr"}',
      ),
    })
    expect(
      await startExample(folder, 'worker.js', {
        MAX_STALLS: '',
        IMAGE: '',
        REDIS_URL: '',
        LABELS: '',
        MODEL: '',
      }).ended(),
    ).toMatchObject({ code: 1, text: expect.stringContaining('MODEL: expected the path') })
  })
})
