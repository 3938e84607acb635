import { hostname } from 'node:os'
import { UnrecoverableError, Worker } from 'bullmq'
import { createClassifier } from './classifier.js'
import { answersKey, connect, queueName } from './jobs.js'
import { jobsToHold } from './jobs-to-hold.js'
import { readSettings } from './settings.js'

const settings = readSettings(process.env)
const classifier = await createClassifier(settings)
const redis = connect(settings.redisUrl)
redis.on('error', console.error)

/** Failures of the picture itself: however often it is tried, it fails. */
const lasting = ['ERR_IMAGE_DECODE', 'ERR_INVALID_ARG', 'ENOENT', 'EISDIR']

let begun = 0

/** With three parameters, so that BullMQ gives the last: it fires when the job is somebody else's. */
async function classify(job, _token, signal) {
  begun++
  worker.concurrency = jobsToHold(classifier.capacity(), { begun, holdMs: settings.holdMs })
  try {
    const answer = await classifier.classify(job.data.picture, signal)
    // By the id of the job, so that one that is done twice is stored once. In a database: INSERT ... ON CONFLICT DO NOTHING.
    await redis.hset(answersKey, job.id, JSON.stringify(answer))
  } catch (error) {
    throw lasting.includes(error.code) ? new UnrecoverableError(error.message) : error
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
worker.on('lockRenewalFailed', (ids) => ids.forEach((id) => worker.cancelJob(id, 'it was given to another worker')))

// Jobs that are held are done, and no more are taken; then the process ends by itself.
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, async () => {
    await worker.close()
    await classifier.close()
    redis.disconnect()
  })
}

await worker.waitUntilReady()
console.log(`${worker.opts.name} takes jobs`)
