import { run } from '../child.ts'
import { benchModel, matmulChain } from '../models.ts'
import type { CancelsInput, CancelsResult } from '../programs/cancels.ts'
import type { TimeoutsInput, TimeoutsResult } from '../programs/timeouts.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const maxBatchSize = 8
const requestsPerSecond = 2000
const cancels = 10_000
const cancelRounds = 3

/** A run takes longer than requests wait, and few of them wait: they fill batches of 2, which are prefetched, and none of 64. */
const behindLongRun = { requestsPerSecond: 40, shortestMs: 20, longestMs: 150 }
const longRun = matmulChain(20_000)
const batchSizes = { full: 2, partial: 64 }

const megabytes = (bytes: number) => round(bytes / 2 ** 20)

/** Requests that leave an overloaded queue: on time, and with nothing left of them. */
export const timeouts: Trial = {
  describe:
    'lateness of timeouts of 20..2000 ms while ResNet-50 is overloaded, against plain timers; 10 000 cancels',
  seconds: 10,
  async run({ seconds, rounds, smoke }) {
    const model = smoke ? matmulChain(1000) : benchModel('resnet50')
    const load: Omit<TimeoutsInput, 'side'> = {
      model,
      maxBatchSize,
      requestsPerSecond: smoke ? 1000 : requestsPerSecond,
      shortestMs: 20,
      longestMs: smoke ? 500 : 2000,
      warmupSeconds: smoke ? 0.5 : 3,
      seconds,
    }
    const side = (side: TimeoutsInput['side']) => () =>
      run<TimeoutsResult>('programs/timeouts.ts', { ...load, side } satisfies TimeoutsInput)
    const found = await takeTurns(rounds, { plain: side('plain'), ours: side('ours') })
    const behind = async (maxBatchSize: number) => {
      const waiting: TimeoutsInput = { ...load, ...behindLongRun, side: 'ours', model: longRun, maxBatchSize }
      return run<TimeoutsResult>('programs/timeouts.ts', waiting)
    }
    const handedAhead = await takeTurns(rounds, {
      partial: () => behind(batchSizes.partial),
      full: () => behind(batchSizes.full),
    })
    const cancelInput: CancelsInput = {
      model,
      maxBatchSize,
      cancels: smoke ? 1000 : cancels,
      rounds: cancelRounds,
    }
    const cancelled = await run<CancelsResult>('programs/cancels.ts', cancelInput, ['--expose-gc'])

    const middle = <R>(results: readonly R[], key: keyof R) =>
      round(median(results.map((result) => result[key] as number)))
    const row = (what: string, results: readonly TimeoutsResult[]) => ({
      what,
      'p50 ms': middle(results, 'p50Ms'),
      'p99 ms': middle(results, 'p99Ms'),
      'max ms': middle(results, 'maxMs'),
      'GC max ms': middle(results, 'gcMaxMs'),
    })
    const longest = (what: string, ms: number) => ({
      what,
      'p50 ms': '',
      'p99 ms': '',
      'max ms': round(ms),
      'GC max ms': '',
    })
    const { before, after } = cancelled
    const [ours, plain] = [middle(found.ours, 'p99Ms'), middle(found.plain, 'p99Ms')]
    const [full, partial] = [middle(handedAhead.full, 'p99Ms'), middle(handedAhead.partial, 'p99Ms')]
    return {
      ours,
      plain,
      unit: 'ms, p99 of the lateness',
      ratio: round(ours / plain),
      targets: [
        atMost(2, 'p99 of the lateness, in ms', ours),
        atLeast(
          0,
          'earliest timeout, in ms after its time',
          round(Math.min(...found.ours.map(({ minMs }) => minMs)), 3),
        ),
        atMost(
          round(partial + 1),
          'p99 of the lateness in full prefetched batches, in ms: at most that of partial ones',
          full,
        ),
        atLeast(
          cancelInput.cancels * cancelRounds,
          `${cancelRounds} times ${cancelInput.cancels} cancels: rejected with their signal's reason`,
          cancelled.withdrawn,
        ),
        atMost(0, 'cancels: waiting afterwards, of those withdrawn', Math.max(cancelled.leftWaiting, 0)),
        atMost(before.pending, 'cancels: waiting at the end', after.pending),
        atMost(before.stagingBytes, 'cancels: staging bytes in use at the end', after.stagingBytes),
        atMost(
          1,
          'cancels: growth of the heap, in MB',
          megabytes(after.heapUsedBytes - before.heapUsedBytes),
        ),
        atMost(16, 'cancels: growth of RSS, in MB', megabytes(after.rssBytes - before.rssBytes)),
      ],
      rows: [
        row('ours', found.ours),
        row('a plain timer for each, beside a busy session', found.plain),
        row(`full batches of ${batchSizes.full} behind a long run`, handedAhead.full),
        row('partial batches behind it', handedAhead.partial),
        longest(`${cancelInput.cancels} cancels in one turn, all of them`, cancelled.longestMs),
        longest(`${cancelInput.cancels} aborts that nothing waits for`, cancelled.plainLongestMs),
      ],
      settings: {
        ...load,
        model: smoke ? 'matmul' : 'resnet50',
        timedOut: middle(found.ours, 'timedOut'),
        mostQueued: middle(found.ours, 'mostQueued'),
        gcShare: middle(found.ours, 'gcShare'),
      },
      details: { found, handedAhead, cancelled },
    }
  },
}
