/**
 * The batching policy: pure functions over plain data. They follow Triton's dynamic batcher (largest reachable
 * preferred size first, delay 0 never waits, an overshooting request flushes the prefix before it) with one change
 * that the whole design rests on: a partial batch is closed only when an instance is idle, so it grows as long as
 * nobody could have started it anyway.
 */

/** What limits a batch. All sizes in rows. */
export interface BatchLimits {
  readonly maxBatchSize: number
  /** Ascending, each 1..maxBatchSize; empty means `[maxBatchSize]`. */
  readonly preferredBatchSizes: readonly number[]
  /** How long the oldest request may wait for a larger batch while an instance is idle. */
  readonly maxQueueDelayMs: number
  /** False: every request is a batch of its own. */
  readonly joinRequests: boolean
}

/** A queue as the policy reads it: a chain of row counts, oldest first. */
export interface QueuedRows {
  readonly rows: number
  readonly enqueuedAtMs: number
  readonly next: QueuedRows | null
}

/**
 * How many requests, counted from `head`, are to leave as one batch now; 0 for none yet.
 *
 * @param idle true when an instance waits for work; false when the batch would only be handed ahead to a busy one,
 * which is worth it for a full batch and no other.
 */
export function requestsToDispatch(head: QueuedRows | null, limits: BatchLimits, nowMs: number, idle: boolean): number {
  if (head === null) return 0
  if (!limits.joinRequests) return 1
  const { maxBatchSize, preferredBatchSizes, maxQueueDelayMs } = limits
  const largestPreferred = fullBatchRows(limits)

  let rows = 0
  let requests = 0
  let preferred = 0 // requests in the largest prefix that has a preferred size, or that an overshoot flushes
  let full = false // the prefix can't grow, or has reached the largest preferred size
  for (let entry: QueuedRows | null = head; entry !== null; entry = entry.next) {
    const sum = rows + entry.rows
    if (sum > maxBatchSize) {
      full = true
      break
    }
    if (sum > largestPreferred && preferred === 0) preferred = requests // flushed, unless the delay ran out
    rows = sum
    requests++
    if (preferredBatchSizes.includes(rows)) preferred = requests
    if (rows >= largestPreferred) full = true
    if (rows === maxBatchSize) break
  }

  if (!idle && !full) return 0
  const delayExceeded = maxQueueDelayMs > 0 && nowMs >= closeAtMs(head, limits)
  if (preferred > 0 && !delayExceeded) return preferred
  if (full || delayExceeded || maxQueueDelayMs === 0) return requests
  return 0
}

/** Rows at which a batch is worth handing over, whoever is idle: the largest preferred size. */
export function fullBatchRows({ maxBatchSize, preferredBatchSizes }: BatchLimits): number {
  return preferredBatchSizes.at(-1) ?? maxBatchSize
}

/** When the batch that starts with `head` is to be closed although it is not full. */
export function closeAtMs(head: QueuedRows, limits: BatchLimits): number {
  return head.enqueuedAtMs + limits.maxQueueDelayMs
}
