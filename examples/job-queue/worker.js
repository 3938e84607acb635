import { hostname } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { UnrecoverableError, Worker } from 'bullmq'
import { createClassifier, NoPicture } from './classifier.js'
import { answersKey, connect, queueName } from './jobs.js'
import { jobsToHold } from './jobs-to-hold.js'
import { readSettings } from './settings.js'

const settings = readSettings(process.env)
const classifier = await createClassifier(settings)
const redis = connect(settings.redisUrl)
redis.on('error', console.error)

let begun = 0
/** Whether the last job has failed by what may be this worker's own fault, as a folder that is not mounted here. */
let isFailing = false

/** With three parameters, so that BullMQ gives the last: it fires when the job is somebody else's. */
async function classify(job, _token, signal) {
  begun++
  worker.concurrency = jobsToHold(classifier.capacity(), {
    begun: isFailing ? 0 : begun,
    holdMs: settings.holdMs,
  })
  try {
    const answer = await classifier.classify(job.data.picture, signal)
    // By the id of the job, so that one that is done twice is stored once. In a database: INSERT ... ON CONFLICT DO NOTHING.
    await redis.hset(answersKey, job.id, JSON.stringify(answer))
    isFailing = false
  } catch (error) {
    if (error instanceof NoPicture) throw new UnrecoverableError(error.message)
    // One job a second, until one succeeds: it would fail all that there are, faster than others do them.
    isFailing = true
    await delay(1000)
    throw error
  } finally {
    if (--begun === 0) worker.concurrency = 1
  }
}

const worker = new Worker(queueName, classify, {
  connection: redis,
  name: `${hostname()}-${process.pid}`,
  concurrency: 1, // until the first is begun
  lockDuration: settings.lockMs,
  stalledInterval: settings.stalledMs,
  maxStalledCount: settings.maxStalls,
})
worker.on('error', console.error)
worker.on('failed', (job, { message }) => console.error(`${job?.id}: ${message}`))
// Nothing was heard of this worker for so long that its jobs were given to others.
worker.on('lockRenewalFailed', (ids) =>
  ids.forEach((id) => worker.cancelJob(id, new Error('it was given to another worker'))),
)

/** Jobs that are held are done, and no more are taken; then the process ends by itself. */
async function stop() {
  // Where Redis is away nobody could be told of them: others do them when their locks have ended.
  await worker.close(redis.status !== 'ready')
  await classifier.close()
  redis.disconnect()
}

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.on(signal, () => {
    // One that comes a second later does not wait for the jobs. Sooner it is the same one: npm passes on what the terminal has sent already.
    setTimeout(() => process.removeAllListeners(signal), 1000).unref()
    void stop()
  })
}
// Whoever keeps workers running starts another.
classifier.onFailed((reason) => {
  console.error(`the model serves no more: ${reason}`)
  process.exitCode = 1
  void stop()
})

worker.once('ready', () => console.log(`${worker.opts.name} takes jobs`))
