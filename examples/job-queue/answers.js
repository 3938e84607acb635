import { Queue } from 'bullmq'
import { answersKey, connect, queueName } from './jobs.js'
import { readSettings } from './settings.js'

// Answers as lines of JSON, and how many jobs are where on standard error.
const redis = connect(readSettings(process.env).redisUrl)
const queue = new Queue(queueName, { connection: redis })
for (const answer of await redis.hvals(answersKey)) console.log(answer)
console.error(await queue.getJobCounts('waiting', 'active', 'delayed', 'completed', 'failed'))
await queue.close()
redis.disconnect()
