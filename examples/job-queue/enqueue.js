import { readdir } from 'node:fs/promises'
import { sep } from 'node:path'
import { Queue } from 'bullmq'
import { connect, jobOf, queueName } from './jobs.js'
import { readSettings } from './settings.js'

const { redisUrl, pictures } = readSettings(process.env)
const atOnce = 1000

const redis = connect(redisUrl)
const queue = new Queue(queueName, { connection: redis })
const found = (await readdir(pictures, { recursive: true })).filter((path) =>
  /\.(avif|gif|jpe?g|png|tiff?|webp)$/i.test(path),
)
const jobs = found.map((path) => jobOf(path.replaceAll(sep, '/'))) // workers may run on another system
for (let from = 0; from < jobs.length; from += atOnce) await queue.addBulk(jobs.slice(from, from + atOnce))
console.log(`${jobs.length} pictures of ${pictures} are jobs`)
await queue.close()
redis.disconnect()
