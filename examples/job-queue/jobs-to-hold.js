/**
 * How many jobs a worker should hold at a time: back-pressure, as what is not held waits in Redis, where any worker can take it.
 *
 * - Two full batches for each instance: one that runs, and one that is read and decoded meanwhile. More would make nothing faster.
 * - No more than are done in `holdMs`, at the speed of the last batches: so long SIGTERM takes, and so much is done again after kill -9.
 * - No more than the queue of the model has places, taken or free: each job is one request at most, so none is refused.
 * - One more than were begun. BullMQ fetches one after the other until it holds as many as it may, and only then begins them; until
 *   then nobody renews their locks. Where Redis is slow, they would be given to others, and never done.
 *
 * @param {import('zerohop').ModelCapacity} capacity of `model.capacity()`.
 * @param {{ begun: number, holdMs: number }} held
 */
export function jobsToHold({ instances, maxBatchSize, waiting, free, requestsPerSecond }, { begun, holdMs }) {
  const twoBatches = 2 * Math.max(1, maxBatchSize) * Math.max(1, instances)
  const inTime = requestsPerSecond === 0 ? twoBatches : Math.ceil((requestsPerSecond * holdMs) / 1000) // 0: nothing has run yet
  return Math.max(1, Math.min(twoBatches, inTime, waiting + free, begun + 1))
}
