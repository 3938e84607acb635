import type { EventEmitter } from 'node:events'
import { Queue, QueueEvents, type Job } from 'bullmq'
import { Redis } from 'ioredis'
import { watchCommands } from './commands.ts'

const queueName = 'pictures'
const answersKey = 'pictures:answers'

/** What comes of the jobs, by what Redis itself has seen. */
export interface WatchedQueue {
  readonly queue: Queue
  /** How often an answer was stored for each job. */
  readonly stores: ReadonlyMap<string, number>
  /** Calls back with each command that Redis runs, and whether it stores an answer. */
  onCommand(listener: (isStore: boolean) => void): void
  /** Resolves when so many jobs are done, or have failed for good. */
  ended(jobs: number): Promise<void>
  /** The jobs that a worker holds, or held when it died. */
  heldBy(worker: string): Promise<string[]>
  answers(): Promise<Map<string, { readonly picture: string; readonly label: string }>>
  jobs(): Promise<Job[]>
  close(): Promise<void>
}

/** @param port of Redis. */
export async function watchQueue(port: number): Promise<WatchedQueue> {
  const [redis, eventsRedis] = [1, 2].map(() => new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null }))
  const queue = new Queue(queueName, { connection: redis! })
  const events = new QueueEvents(queueName, { connection: eventsRedis!, lastEventId: '0-0' })
  const emitters: EventEmitter[] = [redis!, eventsRedis!, queue, events]
  for (const each of emitters) each.on('error', () => {}) // while Redis is away
  const stores = new Map<string, number>()
  const listeners: ((isStore: boolean) => void)[] = []
  const commands = await watchCommands(port, (command, key, id) => {
    const isStore = command === 'hset' && key === answersKey
    if (isStore) stores.set(id, (stores.get(id) ?? 0) + 1)
    for (const listener of listeners) listener(isStore)
  })

  const over = new Set<string>()
  let onOver = () => {}
  for (const event of ['completed', 'failed'] as const) {
    events.on(event, ({ jobId }: { jobId: string }) => {
      over.add(jobId)
      onOver()
    })
  }
  await Promise.all([queue.waitUntilReady(), events.waitUntilReady()])
  return {
    queue,
    stores,
    onCommand: (listener) => void listeners.push(listener),
    ended: (jobs) =>
      new Promise((resolve) => {
        onOver = () => {
          if (over.size >= jobs) resolve()
        }
        onOver()
      }),
    heldBy: async (worker) =>
      (await queue.getActive()).filter(({ processedBy }) => processedBy === worker).map(({ id }) => id!),
    answers: async () =>
      new Map(
        Object.entries(await redis!.hgetall(answersKey)).map(([id, answer]) => [
          id,
          JSON.parse(answer) as { picture: string; label: string },
        ]),
      ),
    jobs: () => queue.getJobs(),
    close: async () => {
      await Promise.all([events.close(), queue.close()])
      commands.destroy()
      for (const each of [eventsRedis!, redis!]) each.disconnect()
    },
  }
}
