import { spawnSync } from 'node:child_process'
import { instructionParts, instructionsPerRequest } from '../callgrind.ts'
import { start } from '../child.ts'
import { closedLoops, rate, rateRatio } from '../closed-loops.ts'
import { benchModel } from '../models.ts'
import type { ClosedLoop, ClosedLoopResult } from '../programs/closed-loop.ts'
import { takeTurns } from '../rounds.ts'
import { shownAll } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import type { Trial, TrialResult } from '../trial.ts'

const levels = [1, 8, 32, 64, 128, 256]
const countedCallers = 64
/** The batcher is at its best with large batches; zerohop has its default, which is 32 on a worker. */
const [batcherRows, defaultRows] = [64, 32]

/** What else the machine does, and zerohop's targets there, relative to the batcher. */
const machines = [
  { machine: 'quiet', mostCpu: 1.2, leastRate: 1 },
  { machine: 'one core busy', mostCpu: 1.3, leastRate: 0.9 },
] as const

type Found = Readonly<Record<'batcher' | 'native', ClosedLoopResult[]>>

/** What a request costs the processor, compared with the smallest batcher that an application could write. */
export const cost: Trial = {
  describe:
    "processor time and instructions of a request, requests/s and the event loop's delay, beside a batcher of 30 lines on the application's thread; MLP, also with one core kept busy",
  reading:
    'Processor time is that of the whole process, user and system, for each request, after two seconds in which V8 compiles. A third process of normal priority keeps the busy core busy. Instructions are those of requests that are dispatched to a worker.',
  seconds: 3,
  async run({ seconds, rounds: asked, smoke, quick }) {
    const rounds = quick ? 1 : asked
    const base = {
      model: benchModel('mlp'),
      intraOpNumThreads: 1,
      // Batches are some thousands a second: V8 compiles what runs once for each of them during the first two.
      warmupSeconds: Math.min(2, seconds),
      seconds,
    }
    const measure = (side: 'batcher' | 'native', concurrency: number, changes: Partial<ClosedLoop> = {}) =>
      closedLoops({
        ...base,
        ...(side === 'batcher' && { maxBatchSize: batcherRows }),
        side,
        concurrency,
        ...changes,
      })

    const rows: Row[] = []
    const targets: TrialResult['targets'][number][] = []
    const details: Record<string, unknown> = {}
    const batcherThreads: Record<string, string> = {}
    const busyShares: Record<string, number> = {}
    for (const { machine, mostCpu, leastRate } of machines) {
      const measureAll = async () => {
        const threads = await takeTurns(rounds, {
          one: measure('batcher', smoke ? 8 : countedCallers),
          // JSON leaves this out, so the session has its default.
          default: measure('batcher', smoke ? 8 : countedCallers, { intraOpNumThreads: undefined }),
        })
        const faster = rate(threads.one) >= rate(threads.default) ? 'one' : 'default'
        batcherThreads[machine] = faster
        details[`${machine}, the batcher's threads`] = threads
        const found: Row[] = []
        for (const callers of smoke ? [8] : levels) {
          const sides = await takeTurns(rounds, {
            batcher: measure('batcher', callers, faster === 'one' ? {} : { intraOpNumThreads: undefined }),
            native: measure('native', callers),
          })
          details[`${machine}, ${callers} callers`] = sides
          found.push(row(machine, callers, sides))
        }
        return found
      }
      const { found, busyShare } =
        machine === 'quiet' ? { found: await measureAll(), busyShare: 0 } : await withBusyCore(measureAll)
      busyShares[machine] = busyShare
      rows.push(...found)
      const excess = found.map((each) => each['native p99 ms'] - each['batcher p99 ms'])
      targets.push(
        atMost(
          mostCpu,
          `${machine}: processor time of a request to the batcher's, the highest`,
          Math.max(...found.map((each) => each['us to batcher'])),
        ),
        atLeast(
          leastRate,
          `${machine}: requests/s to the batcher's, the lowest`,
          Math.min(...found.map((each) => each['/s to batcher'])),
        ),
        atMost(
          0,
          `${machine}: p99 of the event loop above the batcher's, in ms, the most`,
          round(Math.max(...excess)),
        ),
      )
    }
    const instructions = smoke || !hasValgrind() ? [] : instructionRows(quick)
    const main = rows.find(({ callers }) => callers === countedCallers) ?? rows[0]!
    return {
      ours: main['native us'],
      plain: main['batcher us'],
      unit: `us of processor time for a request of ${main.callers} callers`,
      ratio: main['us to batcher'],
      targets,
      rows,
      tables: [
        { title: 'Processor time, requests and the event loop', rows },
        ...(instructions.length === 0
          ? []
          : [{ title: `Instructions of a request, ${countedCallers} callers`, rows: instructions }]),
      ],
      numbers: machines.map(({ machine }) => numbersOf(rows.filter((each) => each.machine === machine))),
      settings: {
        maxBatchSize: { batcher: batcherRows, native: 'default' },
        intraOpNumThreads: 1,
        "the batcher's intraOpNumThreads, the faster of 1 and the default": batcherThreads,
        'what the busy process got of a core': busyShares,
        seconds,
        rounds,
      },
      details,
    }
  },
}

type Row = ReturnType<typeof row>

function row(machine: string, callers: number, { batcher, native }: Found) {
  const cpuUs = (results: readonly ClosedLoopResult[]) => median(results.map((each) => each.cpuUsPerRow!))
  const p99Ms = (results: readonly ClosedLoopResult[]) =>
    round(median(results.map(({ loopDelay }) => loopDelay.p99Ms)))
  const rowsOfRun = (results: readonly ClosedLoopResult[]) =>
    round(median(results.map(({ meanBatchRows }) => meanBatchRows)), 1)
  const cpuRatios = native.map((each, at) => each.cpuUsPerRow! / batcher[at]!.cpuUsPerRow!)
  return {
    machine,
    callers,
    'batcher us': round(cpuUs(batcher)),
    'native us': round(cpuUs(native)),
    'us to batcher': round(median(cpuRatios)),
    'batcher /s': round(rate(batcher), 0),
    'native /s': round(rate(native), 0),
    '/s to batcher': round(rateRatio(native, batcher)),
    'batcher p99 ms': p99Ms(batcher),
    'native p99 ms': p99Ms(native),
    'batcher rows of a run': rowsOfRun(batcher),
    'native rows of a run': rowsOfRun(native),
  }
}

/** Runs `use` beside a process that computes without a pause, and returns the share of a core that this process got. */
async function withBusyCore<T>(use: () => Promise<T>): Promise<{ found: T; busyShare: number }> {
  const { child, result } = start<number>('programs/busy-core.mjs', {})
  try {
    const found = await use()
    child.send('end')
    return { found, busyShare: round(await result) }
  } finally {
    if (child.connected) child.disconnect()
  }
}

const hasValgrind = () => spawnSync('valgrind', ['--version']).status === 0

function instructionRows(quick: boolean) {
  const requests = quick ? ([12_000, 24_000] as const) : ([32_000, 64_000] as const)
  const asked = { model: benchModel('mlp'), callers: countedCallers }
  const sides = [
    ['batcher', batcherRows],
    ['native, inline: false', defaultRows],
  ] as const
  return sides.flatMap(([side, most]) =>
    instructionsPerRequest(side, { ...asked, maxBatchSize: most }, requests).map(
      ({ thread, all, parts }) => ({
        side,
        thread,
        instructions: all,
        ...Object.fromEntries(instructionParts.map((part) => [part, parts[part] ?? 0])),
      }),
    ),
  )
}

function numbersOf(rows: readonly Row[]) {
  return {
    question: `processor time of a request beside a batcher of 30 lines, MLP, ${rows[0]!.machine}: ${rows.map(({ callers }) => callers).join(', ')} callers`,
    plain: shownAll(
      rows.map((each) => each['batcher us']),
      'us',
    ),
    zerohop: shownAll(
      rows.map((each) => each['native us']),
      'us',
    ),
    note: `${rows.map((each) => each['us to batcher']).join(', ')} x; requests/s ${rows.map((each) => each['/s to batcher']).join(', ')} x`,
  }
}
