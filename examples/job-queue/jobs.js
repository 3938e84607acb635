import { Redis } from 'ioredis'

/** What the workers and those who ask them agree on. */

export const queueName = 'pictures'

/** A hash in Redis: the id of each job that was done, and its answer. */
export const answersKey = 'pictures:answers'

/**
 * The job of a picture. The same picture is the same job: it is not queued while it is there already, and whoever does it again
 * writes the same answer to the same place.
 *
 * @param {string} picture its path in the folder of pictures.
 */
export const jobOf = (picture) => ({
  name: 'classify',
  data: { picture },
  opts: { jobId: encodeURIComponent(picture), ...jobOptions },
})

const jobOptions = {
  // For failures that pass, as an instance that crashed does: after 1, 2, 4 and 8 seconds.
  attempts: 5,
  backoff: { type: 'exponential', delay: 1000 },
  // Redis holds jobs in memory: a day is for looking into, and for not doing twice what is asked twice.
  removeOnComplete: { age: 24 * 60 * 60 },
}

/** @param {string} url */
export const connect = (url) => new Redis(url, { maxRetriesPerRequest: null }) // commands wait while Redis is away
