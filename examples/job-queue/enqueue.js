import { readdir } from 'node:fs/promises'
import { Queue } from 'bullmq'
import { connect, jobOf, queueName } from './jobs.js'
import { readSettings } from './settings.js'

const { redisUrl, pictures } = readSettings(process.env)
const atOnce = 1000

const redis = connect(redisUrl)
const queue = new Queue(queueName, { connection: redis })
const found = (await readdir(pictures, { recursive: true })).filter((path) => /\.(jpe?g|png|webp|gif|avif)$/i.test(path))
for (let from = 0; from < found.length; from += atOnce) await queue.addBulk(found.slice(from, from + atOnce).map(jobOf))
console.log(`${found.length} pictures of ${pictures} are jobs`)
await queue.close()
redis.disconnect()
